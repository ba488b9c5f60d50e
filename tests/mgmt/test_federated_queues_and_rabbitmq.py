"""Federated queues between nodes and a real RabbitMQ, which may be at either end of a link."""

import itertools
import json

import pytest

from tests.interop import INTEROP
from tests.mgmt.rabbitmq_node import cut_links
from tests.mgmt.test_federated_queues import BODIES, Place, Taker

pytestmark = INTEROP


@pytest.fixture
def places(node, rabbit, far, vhost):
    """A vhost at each broker: node, rabbit, far."""
    for broker in (rabbit, far):
        assert broker.put(f"vhosts/{vhost}").status == 201
    places = [Place(broker, vhost) for broker in (node, rabbit, far)]
    yield places
    for place in places:
        place.close()
        place.node.delete(f"vhosts/{vhost}")


@pytest.fixture(params=["from_rabbitmq", "to_rabbitmq"])
def ends(request, places):
    """Where messages come from, and where they go."""
    of_node, of_rabbit, _ = places
    return (of_rabbit, of_node) if request.param == "from_rabbitmq" else (of_node, of_rabbit)


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
def test_all_messages_come_in_their_order_while_a_consumer_has_room(ends, ack_mode):
    there, here = ends
    there.publish(BODIES)
    here.channel.queue_declare("q", durable=True)
    here.federate(there.uri, ack_mode=ack_mode, prefetch_count=50)
    taker = Taker(here, prefetch=10)
    taker.wait_for_count(len(BODIES))
    assert taker.bodies == BODIES
    taker.channel.basic_cancel(taker.tag)
    there.node.wait_until(lambda: there.ready() == (0, 0), "the link no longer consumes")
    there.publish([b"stays"])
    assert (there.ready(), here.ready()) == ((1, 0), (0, 0))


def test_messages_of_both_have_the_same_headers(places):
    of_node, of_rabbit, _ = places
    shown = []
    for queue, there, here in (("a", of_node, of_rabbit), ("b", of_rabbit, of_node)):
        there.publish([b"body"], queue, headers={"n": 1, "CC": ["other"]}, user_id="guest")
        there.channel.exchange_declare("x", "fanout")
        there.channel.queue_bind(queue, "x")
        there.channel.basic_publish("x", "k", b"body")
        here.channel.queue_declare(queue, durable=True)
        here.federate(there.uri, pattern=".*")
        taker = Taker(here, queue=queue)
        taker.wait_for_count(2)
        text = json.dumps(taker.headers, sort_keys=True)
        shown.append(text.replace(f":{there.node.port}", ":PORT").replace(f'"{queue}"', '"QUEUE"'))
    assert shown[0] == shown[1]


def test_a_missing_queue_is_declared_as_by_the_other(places):
    of_node, of_rabbit, _ = places
    shown = []
    for there, here in ((of_node, of_rabbit), (of_rabbit, of_node)):
        for name, options in (
            ("plain", {"arguments": {"x-max-length": 5, "x-max-priority": 3}}),
            ("durable", {"durable": True, "arguments": {"x-message-ttl": 60_000}}),
            ("auto", {"auto_delete": True}),
            ("quorum", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
        ):
            here.channel.queue_declare(f"{name}-{there.node.name[0]}", **options)
        here.federate(there.uri, pattern="^(plain|durable|auto|quorum)")
        there.node.wait_until(lambda there=there: len(there.queues()) == 4, "they are there")
        shown.append(sorted(json.dumps(one, sort_keys=True) for one in there.queues()))
        for name in (one["name"] for one in there.queues()):
            here.channel.queue_delete(name)
            there.channel.queue_delete(name)
    assert shown[0] == [one.replace("-b", "-t") for one in shown[1]]


def test_nothing_is_lost_when_the_connections_of_a_link_are_cut(ends):
    there, here = ends
    there.publish(BODIES)
    here.channel.queue_declare("q", durable=True)
    here.federate(there.uri, prefetch_count=10)
    taker = Taker(here, prefetch=1)
    for count in (1, 100):
        taker.wait_for_count(count)
        cut_links(there.node, there.vhost)
    taker.wait_for(lambda bodies: set(bodies) == set(BODIES), "all have come")
    there.node.wait_until(lambda: there.ready()[0] == 0, "all are acknowledged")


def test_brokers_that_federate_each_other_do_not_pass_messages_to_and_fro(places):
    of_node, of_rabbit, _ = places
    for place, other in ((of_node, of_rabbit), (of_rabbit, of_node)):
        place.channel.queue_declare("q", durable=True)
        place.federate(other.uri)
        place.publish([b"%s %d" % (place.node.name.encode(), number) for number in range(100)])
    taker = Taker(of_node, prefetch=7)
    taker.wait_for_count(200)
    assert len(set(taker.bodies)) == 200
    for place in (of_node, of_rabbit):
        place.node.wait_until(lambda place=place: place.ready()[0] == 0, "all are acknowledged")
    assert len(taker.look()) == 200
    for body, headers in zip(taker.bodies, taker.headers, strict=True):
        came = [one["visit-count"] for one in (headers or {}).get("x-received-from", [])]
        assert came == ([] if body.startswith(of_node.node.name.encode()) else [1])


def test_messages_follow_the_consumer_round_a_circle_of_both(places):
    for place, upstream in zip(places, [places[-1], *places], strict=False):
        place.channel.queue_declare("q", durable=True)
        place.federate(upstream.uri)
    for number, place in enumerate(places):
        place.publish([b"%d %d" % (number, each) for each in range(30)])
    found = []
    for place in itertools.islice(itertools.cycle(places), 6):
        taker = Taker(place, prefetch=1)
        taker.wait_for_count(5)
        taker.channel.connection.close()
        # What was delivered and not acknowledged comes again.
        found += taker.bodies
    takers = [Taker(place) for place in places]

    def all_have_come():
        for taker in takers:
            found.extend(taker.look())
        return len(set(found)) == 90

    places[0].node.wait_until(all_have_come, "all have come")
