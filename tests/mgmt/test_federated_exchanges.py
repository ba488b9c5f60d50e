"""Federated exchanges: from a node to another, and round in a circle of three."""

import pika
import pytest

from tests.mgmt.federated_exchanges import (
    at,
    bound_queue,
    check_circle,
    federate,
    keys_at,
    link_objects,
    vhost_at,
)
from tests.mgmt.served_node import ServedNode
from tests.mgmt.test_shovels import channel_of, take_all, uri

BODIES = [b"%d" % number for number in range(300)]


@pytest.fixture
def there(far, vhost):
    """A channel to a vhost of the same name at the other node."""
    vhost_at(far, vhost)
    return channel_of(far, vhost)


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
    try:
        check_circle([node, far, third], vhost, max_hops, count=1)
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
