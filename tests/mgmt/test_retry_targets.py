"""Retrying in the dead-letter workbench: messages go only where their user has confirmed."""

import pytest

DEATH = {"queue": "work", "reason": "rejected", "count": 1}
SECRET = {"exchange": "", "routing_keys": ["victim"]}


def forged(exchange="", key="victim"):
    """Headers that a client has written: the message claims to have died elsewhere."""
    return {"headers": {"x-death": [{**DEATH, "exchange": exchange, "routing-keys": [key]}]}}


@pytest.fixture
def dead(node, vhost):
    """The messages of a queue that clients may write to, and another queue, that they may not."""
    for name in ("dead", "victim", "work"):
        node.put(f"queues/{vhost}/{name}")
    return f"queues/{vhost}/dead/messages"


def payloads(node, vhost, queue):
    return [one["payload"] for one in node.get(f"queues/{vhost}/{queue}/messages")["messages"]]


def test_targets_are_listed_with_their_messages(node, vhost, dead):
    node.publish(vhost, "dead", "a", forged())
    node.publish(vhost, "dead", "b", forged())
    node.publish(vhost, "dead", "c")
    node.publish(vhost, "dead", "d", forged("amq.topic", "k"))
    assert node.post(f"{dead}/targets", {"all": True}).body == {
        "targets": [
            {**SECRET, "messages": 2},
            {"exchange": "", "routing_keys": ["dead"], "messages": 1},
            {"exchange": "amq.topic", "routing_keys": ["k"], "messages": 1},
        ],
        "has_more": False,
    }  # fmt: skip
    (first, *_) = node.get(dead)["messages"]
    one = node.post(f"{dead}/targets", {"ids": [first["id"], "999", "none"]}).body
    assert one["targets"] == [{**SECRET, "messages": 1}]
    filtered = node.post(f"{dead}/targets", {"all": True, "body": "[cd]"}).body
    assert [target["messages"] for target in filtered["targets"]] == [1, 1]


def test_a_message_with_another_target_stays(node, vhost, dead):
    node.publish(vhost, "dead", "forged", forged())
    node.publish(vhost, "dead", "good", forged(key="work"))
    body = {"all": True, "targets": [{"exchange": "", "routing_keys": ["work"]}]}
    answer = node.post(f"{dead}/retry", body).body
    assert answer["done"] == 1
    assert answer["failed"][0]["reason"] == (
        "exchange '' with routing key 'victim' is not confirmed"
    )  # fmt: skip
    assert payloads(node, vhost, "dead") == ["forged"]
    assert payloads(node, vhost, "victim") == []
    assert payloads(node, vhost, "work") == ["good"]


def test_a_target_that_is_confirmed_is_used(node, vhost, dead):
    node.publish(vhost, "dead", "forged", forged())
    assert node.post(f"{dead}/retry", {"all": True, "targets": [SECRET]}).body["done"] == 1
    assert payloads(node, vhost, "victim") == ["forged"]
    assert node.acts(vhost=vhost)[0]["detail"]["targets"] == [str(SECRET)]


@pytest.mark.parametrize("targets", [None, 5, [5], ["victim"], [{"exchange": ""}]])
def test_nothing_is_retried_without_targets(node, vhost, dead, targets):
    node.publish(vhost, "dead", "forged", forged())
    body = {"all": True} if targets is None else {"all": True, "targets": targets}
    answer = node.post(f"{dead}/retry", body)
    assert answer.status == 400
    assert "messages/targets" in answer.body["reason"]
    assert payloads(node, vhost, "dead") == ["forged"]


def test_a_cc_header_is_a_part_of_the_target(node, vhost, dead):
    node.publish(vhost, "dead", "m", {"headers": {"CC": ["victim"]}})
    node.delete(f"queues/{vhost}/victim/contents")
    target = {"exchange": "", "routing_keys": ["dead", "victim"]}
    assert node.post(f"{dead}/targets", {"all": True}).body["targets"] == [
        {**target, "messages": 1}
    ]  # fmt: skip
    body = {"all": True, "targets": [{"exchange": "", "routing_keys": ["dead"]}]}
    assert node.post(f"{dead}/retry", body).body["done"] == 0


TO_WORK = pytest.mark.parametrize(
    ("action", "body"),
    [("retry", {"to": {"exchange": "", "routing_key": "work"}}), ("move", {"destination": "work"})],
)


@TO_WORK
def test_a_message_that_a_full_queue_refuses_stays(node, vhost, dead, action, body):
    node.delete(f"queues/{vhost}/work")
    full = {"arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}}
    node.put(f"queues/{vhost}/work", full)
    for payload in ("first", "second", "third"):
        node.publish(vhost, "dead", payload)
    answer = node.post(f"{dead}/{action}", {"all": True, **body}).body
    assert (answer["done"], len(answer["failed"])) == (1, 2)
    assert payloads(node, vhost, "work") == ["first"]
    assert payloads(node, vhost, "dead") == ["second", "third"]


@TO_WORK
def test_a_cc_header_names_no_queue_beside_the_one_that_the_operator_names(
    node, vhost, dead, action, body
):
    node.publish(vhost, "dead", "m", {"headers": {"CC": ["victim"], "kept": 1}})
    node.delete(f"queues/{vhost}/victim/contents")
    assert node.post(f"{dead}/{action}", {"all": True, **body}).body["done"] == 1
    assert payloads(node, vhost, "victim") == []
    (moved,) = node.get(f"queues/{vhost}/work/messages")["messages"]
    assert moved["properties"]["headers"] == {"kept": 1}


@pytest.mark.parametrize("action", ["retry", "move", "delete", "targets"])
@pytest.mark.parametrize("ids", [True, 5, "1", {"a": 1}])
def test_ids_must_be_a_list(node, vhost, dead, action, ids):
    body = {"ids": ids, "edit": {}, "to": {"exchange": "", "routing_key": "work"},
            "destination": "work"}  # fmt: skip
    answer = node.post(f"{dead}/{action}", body)
    assert (answer.status, answer.body["error"]) == (400, "bad_request")


def test_a_page_begins_where_the_one_before_it_says(node, vhost, dead):
    for number in range(5):
        node.publish(vhost, "dead", str(number))
    first = node.get(f"{dead}?count=2")
    assert first["next_offset"] == 2
    second = node.get(f"{dead}?count=2&position={first['next_position']}&offset=2")
    assert [(one["position"], one["payload"]) for one in second["messages"]] == [
        (2, "2"), (3, "3")
    ]  # fmt: skip
    assert node.get(f"{dead}?count=2&offset=3")["messages"][0]["payload"] == "3"
    last = node.get(f"{dead}?position={second['next_position']}")
    assert (len(last["messages"]), last["next_position"]) == (1, None)
    for position in ("-1", "9" * 30):
        assert node.request("GET", f"{dead}?position={position}").status == 200
