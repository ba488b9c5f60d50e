"""Streams with members on three real nodes: kills of leaders, of all nodes, readers on each node.

The nodes are started once for all tests. Each test has streams of its own, and leaves all running.
"""

import signal
from functools import partial

import pika
import pytest

from tests.cluster.managed_nodes import form_managed
from tests.cluster.publisher import ConfirmedPublisher
from tests.cluster.test_replicated_quorum_queues import leader_of


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    nodes = form_managed(tmp_path_factory.mktemp("streams"), "a", "b", "c")
    yield nodes
    for node in nodes:
        node.stop()


def declared(node, queue, **arguments):
    """A channel with confirms on which a stream was declared."""
    channel = node.connect().channel()
    channel.confirm_delivery()
    arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "stream", **arguments})
    return channel


def read(node, queue, is_last):
    """All messages of a stream, as read through a node: the body of each offset.

    is_last: whether a body is the last one.
    """
    found = {}
    with node.connect() as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=200)

        def take(channel, method, properties, body):
            offset = properties.headers["x-stream-offset"]
            assert offset == len(found)
            found[offset] = body
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume(queue, take, arguments={"x-stream-offset": "first"})

        def is_read():
            connection.process_data_events(0.01)
            return found and is_last(found[len(found) - 1])

        node.wait_until(is_read, f"{queue} is read")
    return list(found.values())


def end_of(node, queue):
    """Publish a last message, and return what a reader ends with."""
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"end")
    return partial(bytes.__eq__, b"end")


def assert_has_all(nodes, queue, confirmed):
    """All nodes read the same, with all that was confirmed, in its order, each once."""
    is_last = end_of(nodes[0], queue)
    found = [read(node, queue, is_last) for node in nodes]
    assert found[0] == found[1] == found[2]
    wanted = set(confirmed)
    assert [body for body in found[0] if body in wanted] == confirmed


def test_what_is_published_through_one_node_is_read_on_all(cluster):
    a, b, _ = cluster
    channel = declared(a, "used", x_stream_max_segment_size_bytes=1_000_000)
    bodies = [b"%d" % number for number in range(300)]
    for body in bodies:
        channel.basic_publish("", "used", body)
    assert_has_all(cluster, "used", bodies)
    with b.connect() as connection:
        connection.channel().queue_delete("used")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue 'used'"):
        channel.queue_declare("used", passive=True)


def test_a_leader_that_is_killed_loses_nothing_that_was_confirmed(cluster):
    declared(cluster[0], "killed")
    leader, others = leader_of("killed", cluster)
    with ConfirmedPublisher(others[0], "killed") as publisher:
        others[0].wait_until(lambda: len(publisher.confirmed) > 20, "messages are confirmed")
        leader.stop(signal.SIGKILL)
        before = len(publisher.confirmed)
        others[0].wait_until(lambda: len(publisher.confirmed) > before + 20, "another node leads")
        leader.start()
    assert_has_all(cluster, "killed", publisher.confirmed)


def test_a_kill_of_all_nodes_loses_nothing_that_was_confirmed(cluster):
    a, b, _ = cluster
    declared(a, "all")
    with ConfirmedPublisher(b, "all") as publisher:
        b.wait_until(lambda: len(publisher.confirmed) > 20, "messages are confirmed")
        for node in cluster:
            node.stop(signal.SIGKILL)
    for node in cluster:
        node.start(waits=False)
    for node in cluster:
        node.wait_until(lambda: node.is_ready, "it is ready")  # noqa: B023
    assert_has_all(cluster, "all", publisher.confirmed)


def test_a_stream_with_one_member_is_used_through_all_nodes(cluster):
    channel = declared(cluster[1], "one", x_initial_cluster_size=1)
    bodies = [b"%d" % number for number in range(100)]
    for body in bodies:
        channel.basic_publish("", "one", body)
    assert_has_all(cluster, "one", bodies)


def test_replicas_are_added_and_removed_while_the_stream_is_used(cluster):
    a, b, c = cluster
    declared(a, "moved", x_initial_cluster_size=1)
    with ConfirmedPublisher(c, "moved") as publisher:
        a.wait_until(lambda: len(publisher.confirmed) > 20, "messages are confirmed")
        for node in (b, c):
            a.ctl("add_replica", "moved", node.name)
        a.ctl("delete_replica", "moved", a.name)
        before = len(publisher.confirmed)
        a.wait_until(lambda: len(publisher.confirmed) > before + 20, "another node leads")
    status = b.ctl_json("stream_status", "moved")
    assert sorted(one["node"] for one in status) == [b.name, c.name]
    assert sorted(one["role"] for one in status) == ["replica", "writer"]
    writer, replica = (
        next(one["node"] for one in status if one["role"] == role) for role in ("writer", "replica")
    )
    assert a.ctl("restart_stream", "moved", "--quiet") == f"{replica}\n"
    preferred = ("restart_stream", "moved", "--quiet", "--preferred-leader-node", writer)
    assert a.ctl(*preferred) == f"{writer}\n"
    assert_has_all(cluster, "moved", publisher.confirmed)
    with a.connect() as connection:
        connection.channel().queue_declare("classic")
    said = a.ctl("add_replica", "classic", b.name, succeeds=False)
    assert said == "Error:\nCannot add replicas to a classic queue\n"
    said = a.ctl("delete_replica", "none", b.name, succeeds=False)
    assert said == "Error:\nnot_found\n"


def test_what_any_node_shows_of_a_stream_with_one_member(cluster):
    a, b, c = cluster
    channel = declared(a, "shown", x_initial_cluster_size=1)
    for number in range(30):
        channel.basic_publish("", "shown", b"%d" % number)
    with b.connect() as connection:
        consumer = connection.channel()
        consumer.basic_qos(prefetch_count=5)
        got = []
        arguments = {"x-stream-offset": "first"}
        consumer.basic_consume("shown", lambda *one: got.append(one), arguments=arguments)

        def has_five():
            connection.process_data_events(0.01)
            return len(got) == 5

        b.wait_until(has_five, "the consumer has as many as its prefetch count")
        queue = c.wait_to_see("queues/%2F/shown", lambda one: one["consumer_details"])
    (shown,) = queue["consumer_details"]
    assert (shown["offset"], shown["offset_lag"]) == (5, 25)
    assert shown["offset_lag_ms"] >= 0
    found = c.get("stream/%2F/shown/messages?offset=28")
    assert [one["payload"] for one in found["messages"]] == ["28", "29"]
    assert found["messages"][0]["properties"] == []
    assert c.post("stream/%2F/shown/offsets", {"name": "app", "to": 20}).status == 200
    assert b.get("stream/%2F/shown/tracking")["offsets"] == {"app": 19}

    assert c.post("queues/stream/%2F/shown/replicas/add", {"node": b.name}).status == 204
    shown = c.wait_to_see(
        "queues/%2F/shown",
        lambda one: [each["offset"] for each in one["raft"]["members"]] == [29, 29],
    )
    assert {one["segments"] for one in shown["raft"]["members"]} == {1}
    path = "queues/stream/%2F/shown/replicas/delete"
    assert c.delete(path, body={"node": b.name}).status == 202
    a.stop(signal.SIGKILL)
    c.wait_to_see("queues/%2F/shown", lambda one: one["state"] == "down")
    answer = c.request("GET", "stream/%2F/shown/messages")
    assert (answer.status, "timeout" in answer.body["reason"]) == (503, True)
    a.start()
