"""Clients of three nodes use queues that live on any of them, with real connections."""

import contextlib
import signal
from collections import Counter

import pika
import pytest

from tests.cluster.clients import PERSISTENT, serve_until, take
from tests.cluster.clustered_nodes import form
from tests.patience import PATIENCE_SECONDS

COUNT = 200


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = form(tmp_path_factory.mktemp("cluster"), "a", "b", "c")
    yield nodes
    for node in nodes:
        node.stop()


@pytest.fixture
def channels(nodes):
    connections = [node.connect() for node in nodes]
    yield [connection.channel() for connection in connections]
    for connection in connections:
        # That of a node which a test killed has ended.
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()


def test_publish_on_one_node_to_a_queue_on_another_and_consume_on_a_third(channels):
    a, b, c = channels
    a.queue_declare("orders", durable=True)
    b.exchange_declare("events", "topic", durable=True)
    c.queue_bind("orders", "events", "order.#")
    b.confirm_delivery()
    sent = [b"%d" % number for number in range(COUNT)]
    for body in sent:
        b.basic_publish("events", "order.new", body, PERSISTENT, mandatory=True)
    assert c.queue_declare("orders", passive=True).method.message_count == COUNT
    assert take(c, "orders", COUNT) == [(body, False) for body in sent]
    assert b.queue_declare("orders", passive=True).method.message_count == 0


def test_a_direct_reply_reaches_the_requester_on_another_node(channels):
    a, b, c = channels
    a.queue_declare("requests")
    replies = []
    a.basic_consume(
        "amq.rabbitmq.reply-to", lambda *reply: replies.append(reply[2:]), auto_ack=True
    )
    request = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="1")
    a.basic_publish("", "requests", b"how are you?", request)
    asking = b.consume("requests", auto_ack=True, inactivity_timeout=PATIENCE_SECONDS)
    _, asked, body = next(asking)
    assert body == b"how are you?"
    b.cancel()
    assert c.queue_declare(asked.reply_to, passive=True).method.consumer_count == 1
    for responder in (b, c):
        answer = pika.BasicProperties(correlation_id=asked.correlation_id)
        responder.basic_publish("", asked.reply_to, b"well", answer)
        serve_until(a.connection, lambda: replies, "there is a reply")
        properties, body = replies.pop()
        assert (properties.correlation_id, body) == ("1", b"well")


def test_get_reject_and_purge_from_another_node(channels):
    a, b, _ = channels
    a.queue_declare("jobs")
    for body in (b"1", b"2", b"3"):
        b.basic_publish("", "jobs", body)
    method, _, body = b.basic_get("jobs")
    assert (body, method.redelivered, method.message_count) == (b"1", False, 2)
    b.basic_reject(method.delivery_tag, requeue=True)
    method, _, body = b.basic_get("jobs", auto_ack=True)
    assert (body, method.redelivered) == (b"1", True)
    assert b.queue_purge("jobs").method.message_count == 2
    assert b.queue_delete("jobs").method.message_count == 0
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue 'jobs'"):
        a.queue_declare("jobs", passive=True)


def homes(shown_by):
    """The node on which each queue lives, as a node shows it."""
    rows = shown_by.ctl_json("list_queues", "name", "pid")
    return {row["name"]: row["pid"][1:].removesuffix(f".{row['name']}>") for row in rows}


@pytest.mark.parametrize(
    ("kind", "key", "least"),
    [
        ("classic", "x-queue-master-locator", "min-masters"),
        ("quorum", "x-queue-leader-locator", "balanced"),
    ],
)
def test_locators_choose_the_node_of_a_queue(nodes, channels, kind, key, least):
    a, b, c = (node.name for node in nodes)

    def declare(channel, name, locator):
        arguments = {"x-queue-type": kind, key: locator}
        channels[channel].queue_declare(f"{kind}-{name}", durable=True, arguments=arguments)

    for place in range(3):
        declare(place, f"local-{place}", "client-local")
    before = Counter(homes(nodes[2]).values())
    fewest = max(before.values())
    for place, node in enumerate((b, c), 1):
        for number in range(fewest + 1 - before[node]):
            declare(place, f"more-{place}-{number}", "client-local")
    declare(2, "least", least)
    for number in range(12):
        declare(0, f"random-{number}", "random")
    found = homes(nodes[1])
    assert [found[f"{kind}-local-{place}"] for place in range(3)] == [a, b, c]
    assert found[f"{kind}-least"] == a
    assert len({found[f"{kind}-random-{number}"] for number in range(12)}) > 1


def test_a_policy_chooses_the_node_of_a_queue(nodes, channels):
    nodes[0].ctl(
        "set_policy", "spread", "^spread-", '{"queue-master-locator": "random"}', "--apply-to",
        "queues",
    )  # fmt: skip
    for number in range(12):
        channels[0].queue_declare(f"spread-{number}")
    found = homes(nodes[1])
    assert len({found[f"spread-{number}"] for number in range(12)}) > 1


def test_an_exclusive_queue_is_its_connections_alone_and_ends_with_it(nodes, channels):
    a, b, _ = channels
    with nodes[2].connect() as connection:
        name = connection.channel().queue_declare("", exclusive=True).method.queue
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="RESOURCE_LOCKED"):
            a.queue_declare(name, passive=True)
    nodes[1].wait_until(
        lambda: name not in nodes[1].ctl("list_queues", "name"), "the queue is gone"
    )
    assert b.is_open


def test_a_durable_queue_whose_node_is_down_is_named_with_it_and_comes_back(nodes, channels):
    a, b, c = channels
    b.queue_declare("kept", durable=True)
    a.confirm_delivery()
    a.basic_publish("", "kept", b"safe", PERSISTENT)
    nodes[1].stop(signal.SIGKILL)
    nodes[0].wait_for_log(f"the link to node {nodes[1].name} is down")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="is down or inaccessible"):
        c.queue_declare("kept", passive=True)
    nodes[1].start()
    with nodes[2].connect() as connection:
        ((body, _),) = take(connection.channel(), "kept", 1)
    assert body == b"safe"
