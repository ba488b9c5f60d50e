"""Federated exchanges between nodes and a real RabbitMQ, which may be at either end of a link."""

import json
import re
from dataclasses import dataclass

import pika
import pytest

from tests.bench.brokers import rabbitmq
from tests.interop import INTEROP
from tests.mgmt.federated_exchanges import (
    at,
    bound_queue,
    check_circle,
    federate,
    keys_at,
    link_objects,
    vhost_at,
)
from tests.mgmt.rabbitmq_node import cut_links
from tests.mgmt.test_shovels import channel_of, take_all
from tests.ports import free_port

BODIES = [b"%d" % number for number in range(500)]
pytestmark = INTEROP


def came_over(links, cluster="elsewhere", vhost="/"):
    """The headers of a message that came over a number of links."""
    place = {"uri": "amqp://elsewhere", "exchange": "x", "cluster-name": cluster, "vhost": vhost}
    return {"x-received-from": [place] * links}


def is_link_of_exchange_running(node, vhost):
    begins = f"federation link of exchange 'x' in vhost '{vhost}' to upstream 'up' runs"
    return begins in node.log


@dataclass
class Link:
    """Exchange `x` of a vhost is federated from `x` of that vhost at another broker."""

    upstream: object
    here: object
    vhost: str

    def __post_init__(self):
        for broker in (self.upstream, self.here):
            vhost_at(broker, self.vhost)
        self.to_upstream = channel_of(self.upstream, self.vhost)
        self.to_here = channel_of(self.here, self.vhost)

    def federate(self, **options):
        federate(self.here, self.vhost, at(self.upstream, self.vhost), **options)

    def wait_for_keys(self, *keys, exchange="x"):
        self.upstream.wait_until(
            lambda: keys_at(self.upstream, self.vhost, exchange) == sorted(keys), f"{keys} bound"
        )

    def wait_for_message(self):
        found = []

        def has_come():
            found[:] = self.to_here.basic_get("q", auto_ack=True)
            return found[0] is not None

        self.here.wait_until(has_come, "a message comes")
        return found

    def take(self, count):
        """The bodies of a number of messages."""
        found = []
        self.here.wait_until(
            lambda: found.extend(take_all(self.to_here, "q")) or len(found) >= count, "all come"
        )
        return found

    def close(self):
        for broker in (self.upstream, self.here):
            broker.delete(f"vhosts/{self.vhost}")

    def upstream_objects(self):
        """What the link has declared there, as JSON, with the names of both brokers replaced.

        Its internal exchange ends with A or B, by turns: one broker begins with the other letter.
        """
        found = {
            kind: [
                {key: one[key] for key in keys}
                for one in self.upstream.get(f"{kind}/{self.vhost}")
                if one["name"].startswith("federation: ")
            ]
            for kind, keys in (
                ("exchanges", ("name", "type", "durable", "auto_delete", "internal", "arguments")),
                ("queues", ("name", "durable", "auto_delete", "exclusive", "arguments")),
            )
        }
        bindings = self.upstream.get(f"bindings/{self.vhost}")
        keys = "source", "destination", "destination_type", "routing_key", "arguments"
        found["bindings"] = sorted(
            ({key: one[key] for key in keys} for one in bindings if one["source"]),
            key=lambda one: (one["source"], one["routing_key"], json.dumps(one["arguments"])),
        )
        text = re.sub(' [AB]"', ' LETTER"', json.dumps(found, indent=1, sort_keys=True))
        text = text.replace(self.here.name, "HERE").replace(self.upstream.name, "UPSTREAM")
        return text.replace(self.vhost, "VHOST").splitlines()


@pytest.fixture(params=["from_rabbitmq", "to_rabbitmq"])
def link(request, node, rabbit, vhost):
    brokers = (rabbit, node) if request.param == "from_rabbitmq" else (node, rabbit)
    link = Link(*brokers, vhost)
    yield link
    link.close()


@pytest.mark.parametrize(
    "options",
    [{}, {"max_hops": 3, "expires": 60000, "message_ttl": 5000}, {"exchange": "other"}],
    ids=["defaults", "limits", "other_name"],
)
def test_links_of_both_declare_the_same_upstream(node, rabbit, vhost, options):
    shown = []
    for number, (upstream, here) in enumerate([(node, rabbit), (rabbit, node)]):
        link = Link(upstream, here, f"{vhost}-{number}")
        bound_queue(link.to_here, "a.*", "b")
        link.to_here.queue_bind("q", "x", "b", {"n": 1, "text": "t", "yes": True, "list": [1, "a"]})
        link.federate(**options)
        link.wait_for_keys("a.*", "b", "b", exchange=options.get("exchange", "x"))
        shown.append(link.upstream_objects())
        link.close()
    assert shown[0] == shown[1]


def test_messages_of_both_have_the_same_headers(node, rabbit, vhost):
    shown = []
    for number, (upstream, here) in enumerate([(node, rabbit), (rabbit, node)]):
        link = Link(upstream, here, f"{vhost}-{number}")
        bound_queue(link.to_here, "k")
        link.federate()
        link.wait_for_keys("k")
        properties = pika.BasicProperties(headers={"n": 1}, user_id="guest", message_id="m")
        link.to_upstream.basic_publish("x", "k", b"body", properties)
        method, properties, body = link.wait_for_message()
        text = json.dumps([method.exchange, method.routing_key, body.decode(), vars(properties)])
        shown.append(
            text.replace(upstream.name, "UPSTREAM").replace(link.vhost, "VHOST")
            .replace(f":{upstream.port}", ":PORT")
        )  # fmt: skip
        link.close()
    assert shown[0] == shown[1]


def test_bindings_come_and_go_and_nothing_is_left(link):
    queue = bound_queue(link.to_here, "first", "gone")
    link.federate()
    link.wait_for_keys("first", "gone")
    link.to_here.queue_bind(queue, "x", "late")
    link.to_here.queue_unbind(queue, "x", "gone")
    link.wait_for_keys("first", "late")
    assert link.here.delete(f"policies/{link.vhost}/p").status == 204
    link.upstream.wait_until(lambda: not link_objects(link.upstream, link.vhost), "it is removed")


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
def test_all_messages_come_in_their_order(link, ack_mode):
    bound_queue(link.to_here, "k")
    link.federate(ack_mode=ack_mode, prefetch_count=50)
    link.wait_for_keys("k")
    for body in BODIES:
        link.to_upstream.basic_publish("x", "k", body)
    assert link.take(len(BODIES)) == BODIES


def test_nothing_is_lost_when_the_connections_of_a_link_are_cut(link):
    bound_queue(link.to_here, "k")
    link.federate(prefetch_count=20)
    link.wait_for_keys("k")
    found = set()
    for start in range(0, len(BODIES), 250):
        for body in BODIES[start : start + 250]:
            link.to_upstream.basic_publish("x", "k", body)
        cut_links(link.upstream, link.vhost)

    def all_have_come():
        found.update(take_all(link.to_here, "q"))
        return len(found) == len(BODIES)

    link.here.wait_until(all_have_come, "all messages come")


@pytest.mark.parametrize("max_hops", [2, 5])
def test_each_message_arrives_once_at_each_broker_of_a_circle(node, vhost, rabbit, far, max_hops):
    check_circle([node, rabbit, far], vhost, max_hops, count=50)


@pytest.mark.parametrize("max_hops", [1, 2, 3])
def test_the_hops_of_links_of_both_limit_messages_and_bindings(node, vhost, rabbit, far, max_hops):
    """The way is far, rabbit, node, another vhost of rabbit."""
    last = f"{vhost}-last"
    places = [(far, vhost), (rabbit, vhost), (node, vhost), (rabbit, last)]
    for one in places:
        vhost_at(*one)
    channels = [channel_of(*one) for one in places]
    for channel in channels:
        channel.exchange_declare("x", "topic", durable=True)
    for here, upstream in zip(places[1:], places, strict=False):
        federate(*here, at(*upstream), max_hops=max_hops)
    for one in places[:-1]:
        one[0].wait_until(lambda one=one: link_objects(*one), "the link is there")
    for number, channel in enumerate(channels):
        bound_queue(channel, f"at {number}")
    for number, one in enumerate(places):
        # A binding goes as many hops against the way of the messages.
        wanted = [f"at {other}" for other in range(number + 1, min(number + max_hops, 3) + 1)]
        one[0].wait_until(lambda one=one, wanted=wanted: keys_at(*one) == wanted, f"{wanted} there")
    for number in range(4):
        channels[0].basic_publish("x", f"at {number}", b"came")
    for number, (channel, place) in enumerate(zip(channels, places, strict=True)):
        if number <= max_hops:
            place[0].wait_until(lambda channel=channel: take_all(channel, "q"), "a message comes")
    for one in places[1:]:
        one[0].delete(f"vhosts/{one[1]}")


def test_an_upstream_without_the_plugin_has_a_fanout_exchange(node, vhost, channel):
    bound_queue(channel, "k")
    with rabbitmq(choose_port=lambda preferred: free_port()) as plain:
        there = channel_of(plain)
        federate(node, vhost, f"amqp://guest:guest@127.0.0.1:{plain.port}/%2F", max_hops=2)
        node.wait_until(lambda: is_link_of_exchange_running(node, vhost), "the link runs")
        for body, headers in (
            (b"near", {}),
            (b"may come", came_over(1)),
            (b"from too far", came_over(2)),
            (b"was here", came_over(1, node.name, vhost)),
            (b"last", {}),
        ):
            there.basic_publish("x", "k", body, pika.BasicProperties(headers=headers))
        found = []
        node.wait_until(
            lambda: found.extend(take_all(channel, "q")) or b"last" in found, "all have come"
        )
        assert found == [b"near", b"may come", b"last"]
        assert there.queue_declare(f"federation: x -> {node.name}:{vhost}:x", passive=True)
