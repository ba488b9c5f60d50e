"""What a plan says of the kinds of objects that it finds."""

from leveret.mgmt.ctl.migrating.notes import notes


def queue(name="q", **arguments):
    return {
        "vhost": "/",
        "name": name,
        "arguments": {key.replace("_", "-"): value for key, value in arguments.items()},
    }


def of(links_max=500, **lists):
    names = ("queues", "policies", "parameters", "users", "topic_permissions")
    return list(notes({name: lists.get(name, []) for name in names}, links_max, "mover"))


def limit(component="vhost-limits", **value):
    named = {key.replace("_", "-"): number for key, number in value.items()}
    return {"component": component, "vhost": "/", "name": "limits", "value": named}


def test_nothing_is_said_of_what_is_not_there():
    assert of(queues=[queue()], parameters=[{"component": "mqtt", "vhost": "/", "value": []}]) == []


def test_settings_of_queues_are_arguments_or_keys_of_policies():
    policy = {"vhost": "/", "name": "p", "definition": {"message-ttl": 1, "expires": 5}}
    said = of(queues=[queue(x_message_ttl=1), queue(x_message_ttl=2)], policies=[policy])
    assert said[0].startswith("2 queues and 1 policy with a time to live: ")
    assert said[1].startswith("1 policy with x-expires: ")
    assert said[2].startswith("Policies and operator policies: imported before queues")


def test_operator_policies_are_parameters():
    operator_policy = {"component": "operator_policy", "vhost": "/", "name": "o"}
    said = of(parameters=[{**operator_policy, "value": {"definition": {"max-length": 9}}}])
    assert said[0].startswith("1 policy with a limit of their length: ")


def test_priorities_dead_letters_delivery_limits_and_active_consumers():
    arguments = {
        "x_max_priority": 5, "x_dead_letter_exchange": "", "x_delivery_limit": 3,
        "x_single_active_consumer": True,
    }  # fmt: skip
    said = of(queues=[queue(**arguments)], topic_permissions=[{"user": "anna"}])
    assert [one.partition(":")[0] for one in said] == [
        "1 queue with priorities",
        "1 queue with a dead letter exchange",
        "1 queue with a delivery limit",
        "1 queue with a single active consumer",
        "Topic permissions",
    ]


def test_limits_of_connections_that_links_would_pass():
    queues = [queue(str(number)) for number in range(30)]
    _, said = of(queues=queues, parameters=[limit(max_connections=20, max_queues=9)])
    assert said.startswith("Links are up to 30 connections to the other broker, but virtual host")
    assert "virtual host '/' allows 20" in said
    assert len(of(links_max=20, queues=queues, parameters=[limit(max_connections=20)])) == 1
    users = [{"name": "mover", "limits": {"max-connections": 0}}, {"name": "a", "limits": {}}]
    assert "user 'mover' may have 0" in of(queues=queues, users=users)[1]


def test_older_definitions_have_a_list_for_no_limits():
    parameters = [{"component": "vhost-limits", "vhost": "/", "name": "limits", "value": []}]
    assert len(of(parameters=parameters, queues=[queue()])) == 1
