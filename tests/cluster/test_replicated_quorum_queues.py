"""Quorum queues with members on three real nodes: clients on each of them, and nodes that die.

The nodes are started once for all tests. Each test has queues of its own, and leaves all running.
"""

import signal
import threading

import pika
import pytest

from tests.cluster.clients import take
from tests.cluster.clustered_nodes import form, queues
from tests.cluster.publisher import ConfirmedPublisher
from tests.patience import PATIENCE_SECONDS

QUORUM = {"x-queue-type": "quorum"}
KEPT = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three nodes with replicated quorum queues."""
    nodes = form(tmp_path_factory.mktemp("replicated"), "a", "b", "c")
    yield nodes
    for node in nodes:
        node.stop()


def declared(node, queue, **arguments):
    """A channel with confirms on which a quorum queue was declared."""
    channel = node.connect().channel()
    channel.confirm_delivery()
    channel.queue_declare(queue, durable=True, arguments={**QUORUM, **arguments})
    return channel


def publish(channel, queue, *bodies):
    for body in bodies:
        channel.basic_publish("", queue, body, mandatory=True)


def leader_of(queue, nodes):
    """The node that leads a queue, and the others."""
    asked, by_name = nodes[0], {node.name: node for node in nodes}

    def look():
        shown = asked.ctl_json("list_queues", "name", "leader")
        return by_name.get(next(one["leader"] for one in shown if one["name"] == queue))

    leader = asked.wait_to_have(look, f"{queue} has a leader")
    return leader, [node for node in nodes if node is not leader]


class Consumer:
    """Acknowledges what comes through one node until it is told to stop. bodies: all that came."""

    def __init__(self, node, queue):
        self.bodies = []
        self._node, self._queue = node, queue
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._is_over.set()
        self._thread.join()

    def _run(self):
        with self._node.connect() as connection:
            channel = connection.channel()
            for method, _, body in channel.consume(self._queue, inactivity_timeout=0.05):
                if method is not None:
                    self.bodies.append(body)
                    channel.basic_ack(method.delivery_tag)
                if self._is_over.is_set():
                    return


def test_clients_use_a_queue_through_any_node(cluster):
    a, b, c = cluster
    channel = declared(a, "used")
    publish(channel, "used", *[b"%d" % number for number in range(1, 6)])
    with c.connect() as connection:
        consuming = connection.channel()
        method, properties, body = consuming.basic_get("used")
        assert (body, method.message_count, properties.headers) == (
            b"1",
            4,
            {"x-delivery-count": 0},
        )
        consuming.basic_nack(method.delivery_tag, requeue=True)
        for expected in (b"2", b"3", b"4", b"5"):
            method, _, body = consuming.basic_get("used")
            assert body == expected
            consuming.basic_ack(method.delivery_tag)
        method, properties, body = consuming.basic_get("used")
        assert (body, method.redelivered) == (b"1", True)
        assert properties.headers == {"x-delivery-count": 1}
        consuming.basic_ack(method.delivery_tag)
    publish(channel, "used", b"6", b"7")
    with b.connect() as connection:
        other = connection.channel()
        assert other.queue_declare("used", passive=True).method.message_count == 2
        assert other.queue_purge("used").method.message_count == 2
        assert other.basic_get("used") == (None, None, None)
        other.queue_delete("used")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue 'used'"):
        channel.queue_declare("used", passive=True)


def test_messages_expire_on_time_behind_others_and_with_another_leader(cluster):
    a, b, _ = cluster
    letters = declared(b, "on-time-letters")
    to_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "on-time-letters"}
    channel = declared(a, "on-time", **to_letters)
    publish(channel, "on-time", b"stays")
    for body in (b"1", b"2"):
        properties = pika.BasicProperties(expiration="1")
        channel.basic_publish("", "on-time", body, properties, mandatory=True)
    a.ctl("set_policy", "on-time", "^on-time$", '{"expire-on-time": true}')
    leader, (other, _) = leader_of("on-time", cluster)
    for body in (b"1", b"2"):
        method, properties, found = next(
            letters.consume("on-time-letters", inactivity_timeout=PATIENCE_SECONDS)
        )
        assert (found, properties.headers["x-first-death-reason"]) == (body, "expired")
        letters.basic_ack(method.delivery_tag)
    leader.ctl_until_done("transfer_leader", "on-time", other.name)
    properties = pika.BasicProperties(expiration="1")
    channel.basic_publish("", "on-time", b"with another", properties, mandatory=True)
    method, _, found = next(letters.consume("on-time-letters", inactivity_timeout=PATIENCE_SECONDS))
    assert found == b"with another"
    assert channel.basic_get("on-time", auto_ack=True)[2] == b"stays"
    a.ctl("clear_policy", "on-time")
    for queue in ("on-time", "on-time-letters"):
        channel.queue_delete(queue)


def test_dead_letters_limits_and_expiry_are_those_of_the_queue(cluster):
    a, b, _ = cluster
    letters = declared(b, "letters")
    to_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
    channel = declared(a, "short", **to_letters, **{"x-max-length": 2, "x-message-ttl": 3_600_000})
    publish(channel, "short", b"1", b"2", b"3")
    method, _, body = channel.basic_get("short")
    assert body == b"2"
    channel.basic_reject(method.delivery_tag, requeue=False)
    for body, reason in ((b"1", "maxlen"), (b"2", "rejected")):
        method, properties, found = next(
            letters.consume("letters", inactivity_timeout=PATIENCE_SECONDS)
        )
        assert (found, properties.headers["x-first-death-reason"]) == (body, reason)
        letters.basic_ack(method.delivery_tag)
    expiring = declared(a, "expiring", **{"x-expires": 100})
    a.wait_until(
        lambda: "expiring" not in a.ctl("list_queues", "name"), "the unused queue is deleted"
    )
    for queue in ("short", "letters"):
        channel.queue_delete(queue)
    expiring.connection.close()


def letters_kept(node, queue):
    """How many dead letters a queue keeps."""
    shown = node.ctl_json("list_queues", "name", "messages_dlx")
    return next(one["messages_dlx"] for one in shown if one["name"] == queue)


def test_a_new_leader_publishes_the_dead_letters_that_are_left(cluster):
    bodies = [b"%d" % number for number in range(500)]
    dying = {**KEPT, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
    channel = declared(cluster[0], "dying", **dying, **{"x-message-ttl": 1})
    publish(channel, "dying", *bodies)
    leader, (other, _) = leader_of("dying", cluster)
    other.wait_until(lambda: letters_kept(other, "dying") == 500, "all are dead")
    channel.connection.close()
    with other.connect() as connection:
        graves = connection.channel()
        graves.queue_declare("grave", durable=True, arguments=QUORUM)
        arrived = set()
        for _, _, body in graves.consume("grave", auto_ack=True, inactivity_timeout=0.1):
            if len(arrived) == 1:
                leader.stop(signal.SIGKILL)
            arrived.add(body)
            if arrived >= set(bodies):
                break
    leader.start()
    other.wait_until(lambda: letters_kept(other, "dying") == 0, "all are settled")


def test_dead_letters_wait_for_the_node_of_a_target(cluster):
    a, b, c = cluster
    channel = declared(a, "rejected", **KEPT, **{"x-dead-letter-exchange": "graves"})
    channel.exchange_declare("graves", "fanout", durable=True)
    for node, target in ((b, "grave on b"), (c, "grave on c")):
        with node.connect() as connection:
            declaring = connection.channel()
            declaring.queue_declare(target, durable=True)
            declaring.queue_bind(target, "graves")
    publish(channel, "rejected", b"1", b"2")
    c.stop(signal.SIGKILL)
    for method, _, _ in channel.consume("rejected"):
        channel.basic_reject(method.delivery_tag, requeue=False)
        if method.delivery_tag == 2:
            break
    with b.connect() as connection:
        assert take(connection.channel(), "grave on b", 2) == [(b"1", False), (b"2", False)]
    b.wait_until(lambda: letters_kept(b, "rejected") == 2, "they wait")
    c.start()
    with c.connect() as connection:
        assert take(connection.channel(), "grave on c", 2) == [(b"1", False), (b"2", False)]
    b.wait_until(lambda: letters_kept(b, "rejected") == 0, "all are settled")
    with b.connect() as connection:
        assert connection.channel().basic_get("grave on b") == (None, None, None), "once each"
    channel.connection.close()


def test_a_policy_matches_a_queue_when_it_is_declared(cluster):
    a, b, _ = cluster
    a.ctl("set_policy", "short", "^matched$", '{"max-length": 1}', "--apply-to", "queues")
    channel = declared(b, "matched")
    publish(channel, "matched", b"1", b"2")
    assert take(channel, "matched", 1) == [(b"2", False)]
    a.ctl("clear_policy", "short")
    channel.queue_delete("matched")


def test_clients_outlive_the_leader(cluster):
    declared(cluster[0], "led").connection.close()
    leader, (publishing, consuming) = leader_of("led", cluster)
    with Consumer(consuming, "led") as consumer, ConfirmedPublisher(publishing, "led") as publisher:
        publishing.wait_until(lambda: len(consumer.bodies) > 20, "messages come")
        leader.stop(signal.SIGKILL)
        before = len(publisher.confirmed)
        publishing.wait_until(lambda: len(publisher.confirmed) > before + 20, "another node leads")
        leader.start()
        publisher._is_over.set()
        publisher._thread.join()
        last = publisher.confirmed[-1]
        publishing.wait_until(lambda: last in consumer.bodies, "the last message comes")
    assert consumer.bodies == publisher.confirmed, "none lost, doubled or reordered"


def test_without_a_majority_nothing_is_confirmed(cluster):
    channel = declared(cluster[0], "waiting")
    publish(channel, "waiting", b"1")
    channel.connection.close()
    stays, *others = cluster
    with ConfirmedPublisher(stays, "waiting") as publisher:
        stays.wait_until(lambda: publisher.confirmed, "messages are confirmed")
        for node in others:
            node.stop(signal.SIGKILL)
        confirmed = len(publisher.confirmed)
        with stays.connect() as connection:
            connection.channel().queue_declare("waiting", passive=True)
        assert len(publisher.confirmed) <= confirmed + 1
        others[0].start()
        stays.wait_until(
            lambda: len(publisher.confirmed) > confirmed + 20, "what waited is confirmed"
        )
    others[1].start()
    with stays.connect() as connection:
        count = len(publisher.confirmed)
        found = [body for body, _ in take(connection.channel(), "waiting", count + 1)]
    assert found == [b"1", *publisher.confirmed]


def test_all_nodes_lose_power(cluster):
    bodies = [b"%d" % number for number in range(300)]
    channel = declared(cluster[0], "kept")
    publish(channel, "kept", *bodies)
    method, _, _ = channel.basic_get("kept")
    channel.basic_ack(method.delivery_tag)
    held = cluster[1].connect().channel()
    assert held.basic_get("kept")[2] == b"1"
    for node in cluster:
        node.stop(signal.SIGKILL)
    for node in cluster:
        node.start(waits=False)
    for node in cluster:
        node.wait_for_log(" ready in")
    with cluster[2].connect() as connection:
        found = take(connection.channel(), "kept", 299)
    assert sorted(found) == sorted((body, body == b"1") for body in bodies[1:])


def test_a_node_that_was_away_drops_the_group_of_a_deleted_queue(cluster):
    a, _, c = cluster
    for queue in ("gone", "stays"):
        publish(declared(a, queue), queue, b"1")
    c.stop(signal.SIGKILL)
    with a.connect() as connection:
        connection.channel().queue_delete("gone")
    c.start()
    assert "gone" not in queues(c)
    with c.connect() as connection:
        assert [body for body, _ in take(connection.channel(), "stays", 1)] == [b"1"]
