"""What clients see of a mirrored queue when nodes of it die, return, or do not answer."""

import contextlib
import signal

import pika
import pytest

from tests.cluster.clients import PERSISTENT, serve_until
from tests.cluster.clustered_nodes import ClusteredNode
from tests.cluster.mirrored import (
    HA_ALL,
    consumed,
    declared,
    log_of,
    publish,
    wait_until_mirrored,
    wait_until_synchronised,
)


class Consumer:
    """A consumer through a node. bodies: those it acknowledged. was_told: of the cancellation."""

    def __init__(self, node, **arguments):
        self.bodies = []
        self.was_told = False
        self._channel = node.connect().channel()
        self._channel.add_on_cancel_callback(lambda _cancelled: setattr(self, "was_told", True))
        self._channel.basic_consume("mirrored", self._take, arguments=arguments)

    def _take(self, channel, method, _properties, body):
        self.bodies.append(body)
        channel.basic_ack(method.delivery_tag)

    def take_until(self, is_enough):
        serve_until(self._channel.connection, is_enough, f"it has more than {self.bodies}")


def test_a_consumer_is_told_of_a_failover_if_it_asked_for_it(mirroring):
    a, b, c = mirroring
    declared(a)
    publisher = declared(b)
    wait_until_synchronised(a, b, c)
    told = Consumer(c, **{"x-cancel-on-ha-failover": True})
    other = Consumer(c)
    a.stop(signal.SIGKILL)
    told.take_until(lambda: told.was_told)
    publish(publisher, b"1", b"2")
    other.take_until(lambda: set(other.bodies) == {b"1", b"2"})
    assert not other.was_told
    assert not told.bodies


def test_a_mirror_that_dies_interrupts_no_client_and_returns_empty(mirroring):
    a, b, c = mirroring
    publisher = declared(a)
    wait_until_synchronised(a, b, c)
    consumer = Consumer(b)
    publish(publisher, b"1")
    c.stop(signal.SIGKILL)
    publish(publisher, b"2", b"3")
    consumer.take_until(lambda: len(consumer.bodies) == 3)
    assert consumer.bodies == [b"1", b"2", b"3"]
    publish(publisher, b"4")
    consumer.take_until(lambda: len(consumer.bodies) == 4)
    joined = f"adding a mirror on node {c.name}"
    known = a.log.count(joined)
    c.start()
    a.wait_for_log_again(joined, known)
    assert not consumer.was_told


def test_a_committed_transaction_survives_the_leader(mirroring):
    a, b, c = mirroring
    declared(a)
    wait_until_synchronised(a, b, c)
    channel = b.connect().channel()
    channel.tx_select()
    for body in (b"1", b"2"):
        channel.basic_publish("", "mirrored", body, PERSISTENT)
    channel.tx_commit()
    channel.basic_publish("", "mirrored", b"3", PERSISTENT)
    a.stop(signal.SIGKILL)
    channel.tx_rollback()
    assert consumed(c, 2) == [(b"1", False), (b"2", False)]


class TestWithoutASynchronisedMirror:
    """A queue had messages before it was mirrored, and is not synchronised."""

    @staticmethod
    def kill_the_leader(nodes, promote):
        a, b, c = nodes
        publish(declared(a, "other"), b"1", b"2", queue="other")
        definition = f'{{"ha-mode": "all", "ha-promote-on-failure": "{promote}"}}'
        a.ctl("set_policy", "more", "^other$", definition)
        wait_until_mirrored(a, b, c, queue="other")
        publish(declared(b, "other"), b"3", queue="other")
        a.stop(signal.SIGKILL)

    def test_the_oldest_leads_with_what_it_has(self, mirroring):
        a, b, c = mirroring
        self.kill_the_leader(mirroring, "always")
        b.wait_for_log(f"{log_of('other')} promoting the mirror on node")
        assert consumed(c, 1, "other") == [(b"3", False)]
        lacks = "the new leader lacks messages of the former leader, 2 at most"
        assert f"{log_of('other')} {lacks}" in b.log
        a.start()
        wait_until_synchronised(b, a, queue="other")

    def test_the_queue_waits_for_its_leader_if_the_policy_says_so(self, mirroring):
        a, b, c = mirroring
        self.kill_the_leader(mirroring, "when-synced")
        waits = f"is down: no mirror can lead it, and it waits for node {a.name}"
        for node in (b, c):
            node.wait_for_log(f"{log_of('other')} {waits}")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="is down or inaccessible"):
            declared(c, "other")
        a.start()
        assert [body for body, _ in consumed(a, 3, "other")] == [b"1", b"2", b"3"]


def test_a_mirror_that_does_not_answer_is_waited_for_until_it_counts_as_dead(tmp_path):
    settings = tmp_path / "leveret.conf"
    settings.write_text("net_ticktime = 2\n")
    with contextlib.ExitStack() as stack:
        a, b = (ClusteredNode(tmp_path, name, "--config", settings) for name in "ab")
        for node in (a, b):
            stack.callback(node.stop, signal.SIGKILL)
        b.join(a)
        a.ctl(*HA_ALL)
        publisher = declared(a)
        wait_until_synchronised(a, b)
        b.process.send_signal(signal.SIGSTOP)
        publish(publisher, b"1")
        assert f"the mirror on node {b.name} is gone" in a.log
        b.process.send_signal(signal.SIGCONT)
        assert consumed(a, 1) == [(b"1", False)]
