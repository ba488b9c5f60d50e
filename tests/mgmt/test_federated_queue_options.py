"""What policies and upstreams say of a federated queue, each with two real nodes.

The name and the consumer tag upstream are in test_federated_queues.py.
"""

import pytest

from tests.mgmt.test_federated_queues import Place, Taker
from tests.ports import free_port


@pytest.fixture
def here(node, vhost):
    place = Place(node, vhost)
    place.channel.queue_declare("q", durable=True)
    yield place
    place.close()


@pytest.fixture
def there(far, vhost):
    """Where two queues have a message each, which says its queue's name."""
    assert far.put(f"vhosts/{vhost}").status == 201
    place = Place(far, vhost)
    for queue in ("q", "other"):
        place.publish([queue.encode()], queue, user_id="guest")
    yield place
    place.close()
    far.delete(f"vhosts/{vhost}")


def set_parameter(here, component, name, value):
    answer = here.node.put(f"parameters/{component}/{here.vhost}/{name}", {"value": value})
    assert answer.status in (201, 204), answer


def set_policy(here, **definition):
    body = {"pattern": "^q$", "definition": definition, "apply-to": "queues"}
    assert here.node.put(f"policies/{here.vhost}/federated", body).status in (201, 204)


def test_members_of_a_set_have_options_of_their_own(here, there):
    set_parameter(here, "federation-upstream", "u", {"uri": there.uri, "queue": "nothing"})
    members = [{"upstream": "u", "queue": one} for one in ("q", "other")]
    set_parameter(here, "federation-upstream-set", "mine", members)
    set_policy(here, **{"federation-upstream-set": "mine"})
    taker = Taker(here)
    taker.wait_for_count(2)
    assert sorted(taker.bodies) == [b"other", b"q"]
    assert [one["name"] for one in there.queues()] == ["other", "q"]


def test_a_pattern_names_upstreams(here, there):
    for name, queue in (("west-1", "q"), ("east-1", "other")):
        set_parameter(here, "federation-upstream", name, {"uri": there.uri, "queue": queue})
    set_policy(here, **{"federation-upstream-pattern": "^east-"})
    taker = Taker(here)
    taker.wait_for_count(1)
    assert (taker.bodies, there.count("q")) == ([b"other"], 1)


def test_a_changed_upstream_restarts_the_link(here, there):
    here.federate(there.uri, queue="other")
    taker = Taker(here)
    taker.wait_for_count(1)
    here.federate(there.uri)
    taker.wait_for_count(2)
    assert taker.bodies == [b"other", b"q"]
    there.node.wait_until(lambda: there.consumers("other") == [], "nobody consumes the first")


@pytest.mark.parametrize(("is_trusted", "user_id"), [(True, "guest"), (False, None)])
def test_user_ids_come_from_upstreams_that_are_trusted(here, there, is_trusted, user_id):
    here.federate(there.uri, trust_user_id=is_trusted)
    got = []
    here.channel.basic_consume("q", lambda *message: got.append(message[2].user_id), auto_ack=True)
    connection = here.channel.connection
    here.node.wait_until(lambda: connection.process_data_events(0) or got, "it comes")
    assert got == [user_id]


def test_an_uri_that_leads_nowhere_is_passed_over(here, there):
    here.federate([f"amqp://127.0.0.1:{free_port()}", there.uri])
    taker = Taker(here)
    taker.wait_for_count(1)
    assert taker.bodies == [b"q"]
