"""Federated exchanges: from a node to another, and round in a circle of three."""

import pika
import pytest

from tests.mgmt.served_node import ServedNode
from tests.mgmt.test_shovels import channel_of, dashed, take_all, uri

BODIES = [b"%d" % number for number in range(300)]


def vhost_at(node, vhost):
    assert node.put(f"vhosts/{vhost}").status in (201, 204)


def federate(node, vhost, upstream, pattern="^x", definition=None, **options):
    value = {"uri": upstream, "reconnect-delay": 0.2, **dashed(options)}
    answer = node.put(f"parameters/federation-upstream/{vhost}/up", {"value": value})
    assert answer.status in (201, 204), answer
    definition = definition or {"federation-upstream-set": "all"}
    answer = node.put(f"policies/{vhost}/p", {"pattern": pattern, "definition": definition})
    assert answer.status in (201, 204), answer


def names_at(node, vhost, kind):
    return sorted(one["name"] for one in node.get(f"{kind}/{vhost}"))


def link_objects(node, vhost):
    """The names of the internal exchanges and queues of links."""
    return [
        name for kind in ("exchanges", "queues") for name in names_at(node, vhost, kind)
        if name.startswith("federation: ")
    ]  # fmt: skip


def keys_at(node, vhost, exchange="x"):
    """The routing keys for which links want the messages of an exchange."""
    path = f"exchanges/{vhost}/{exchange}/bindings/source"
    answer = node.request("GET", path)
    found = answer.body if answer.status == 200 else []
    return sorted(
        one["routing_key"] for one in found if one["destination"].startswith("federation: ")
    )


def at(node, vhost):
    return f"{uri(node)}/{vhost}"


@pytest.fixture
def there(far, vhost):
    """A channel to a vhost of the same name at the other node."""
    vhost_at(far, vhost)
    return channel_of(far, vhost)


def bound_queue(channel, *keys, exchange="x", exchange_type="topic"):
    channel.exchange_declare(exchange, exchange_type, durable=True)
    queue = channel.queue_declare("q", durable=True).method.queue
    for key in keys:
        channel.queue_bind(queue, exchange, key)
    return queue


def test_messages_come_that_a_queue_is_bound_for(node, vhost, channel, far, there):
    queue = bound_queue(channel, "a.*", "b")
    federate(node, vhost, at(far, vhost))
    far.wait_until(lambda: keys_at(far, vhost) == ["a.*", "b"], "the bindings are there")
    for key in ("a.1", "b", "c"):
        properties = pika.BasicProperties(headers={"n": 1}, user_id="guest")
        there.basic_publish("x", key, key.encode(), properties)
    node.wait_until(lambda: node.get(f"queues/{vhost}/q").get("messages") == 2, "they come")
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (method.routing_key, body, properties.user_id) == ("a.1", b"a.1", None)
    assert properties.headers == {
        "n": 1,
        "x-received-from": [
            {
                "uri": f"amqp://127.0.0.1:{far.port}/{vhost}", "exchange": "x",
                "redelivered": False, "cluster-name": far.name, "vhost": vhost,
            }
        ],
    }  # fmt: skip
    assert take_all(channel, queue) == [b"b"]


def test_bindings_come_and_go(node, vhost, channel, far, there):
    queue = bound_queue(channel)
    federate(node, vhost, at(far, vhost))
    far.wait_until(lambda: link_objects(far, vhost), "the link is there")
    channel.queue_bind(queue, "x", "late")
    far.wait_until(lambda: keys_at(far, vhost) == ["late"], "a binding comes")
    channel.queue_bind(queue, "x", "other")
    channel.queue_unbind(queue, "x", "late")
    far.wait_until(lambda: keys_at(far, vhost) == ["other"], "a binding goes")
    channel.queue_delete(queue)
    far.wait_until(lambda: keys_at(far, vhost) == [], "bindings go with their queue")


def test_nothing_is_left_upstream_when_a_policy_is_deleted(node, vhost, channel, far, there):
    bound_queue(channel, "k")
    federate(node, vhost, at(far, vhost))
    far.wait_until(lambda: keys_at(far, vhost) == ["k"], "the link is there")
    assert len(link_objects(far, vhost)) == 2
    assert node.delete(f"policies/{vhost}/p").status == 204
    far.wait_until(lambda: not link_objects(far, vhost), "it is cleaned up")


def test_very_many_bindings_are_there_before_long(node, vhost, channel, far, there):
    queue = bound_queue(channel)
    keys = sorted(f"key.{number}" for number in range(1500))
    for key in keys:
        channel.queue_bind(queue, "x", key)
    federate(node, vhost, at(far, vhost))
    far.wait_until(lambda: keys_at(far, vhost) == keys, "all bindings are there")


def test_nothing_is_lost_when_the_upstream_is_killed(node, vhost, channel, tmp_path):
    far = ServedNode(tmp_path, name="killed@localhost")
    try:
        there = channel_of(far)
        queue = bound_queue(channel, "#")
        federate(node, vhost, f"{uri(far)}/%2F")
        far.wait_until(lambda: keys_at(far, "%2F") == ["#"], "the link is there")
        for body in BODIES:
            there.basic_publish("x", "k", body, pika.BasicProperties(delivery_mode=2))
        far.process.kill()
        far.process.wait()
        far.start()
        there = channel_of(far)
        there.basic_publish("x", "k", b"last", pika.BasicProperties(delivery_mode=2))
        got = set()

        def last_has_come():
            got.update(take_all(channel, queue))
            return b"last" in got and len(got) == len(BODIES) + 1

        node.wait_until(last_has_come, "all messages have come")
    finally:
        far.stop()


@pytest.mark.parametrize("max_hops", [2, 5])
def test_a_message_arrives_once_at_each_broker_of_a_circle(node, vhost, far, tmp_path, max_hops):
    third = ServedNode(tmp_path, name="third@localhost")
    brokers = [node, far, third]
    try:
        for one in (far, third):
            vhost_at(one, vhost)
        channels = [channel_of(one, vhost) for one in brokers]
        for channel in channels:
            bound_queue(channel, "k", exchange_type="direct")
        for here, upstream in zip(brokers, [third, node, far], strict=True):
            federate(here, vhost, at(upstream, vhost), max_hops=max_hops)
        for one in brokers:
            one.wait_until(lambda one=one: len(keys_at(one, vhost)) == 2, "bindings went round")
        for number, channel in enumerate(channels):
            channel.basic_publish("x", "k", b"from %d" % number)
        wanted = [b"from 0", b"from 1", b"from 2"]
        found = [[], [], []]

        def all_have_come():
            for bodies, channel in zip(found, channels, strict=True):
                bodies.extend(take_all(channel, "q"))
            return all(len(bodies) >= 3 for bodies in found)

        node.wait_until(all_have_come, "each message is at each broker")
        assert [sorted(bodies) for bodies in found] == [wanted] * 3
    finally:
        third.stop()


ODD_PLACES = [
    "me", 5, None, {}, [], [1], ["far"], [[[]]], [None], [{}], [{"cluster-name": 1}],
    [{"cluster-name": {"a": []}, "vhost": []}], [{"uri": "u", "redelivered": "no"}],
    [{"visit-count": "no", "uri": 1}],
]  # fmt: skip
"""What a client may have put into the header `x-received-from`."""
ODD_HEADERS = [
    *({"x-received-from": one} for one in ODD_PLACES),
    *({"x-received-from": 1, "x-invalid-headers": one} for one in ODD_PLACES),
    # As long as a frame allows: with the header of a link it is longer.
    {"long": "x" * 131_000},
    {},
]


def test_odd_and_very_long_headers_stop_no_link_and_lose_no_message(
    node, vhost, channel, far, there
):
    queue = bound_queue(channel, "k")
    federate(node, vhost, at(far, vhost), max_hops=3)
    far.wait_until(lambda: keys_at(far, vhost) == ["k"], "the link is there")
    for number, headers in enumerate(ODD_HEADERS):
        there.basic_publish("x", "k", b"%d" % number, pika.BasicProperties(headers=headers))
    found = []
    node.wait_until(
        lambda: found.extend(take_all(channel, queue)) or len(found) >= len(ODD_HEADERS), "all come"
    )
    assert found == [b"%d" % number for number in range(len(ODD_HEADERS))]
