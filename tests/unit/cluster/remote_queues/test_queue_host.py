"""The home node's side: declarations that come late, other lives of a queue, damaged frames."""

import random

import msgspec
import pytest

from leveret.broker.queues.contract.offset_specification import FIRST, NEXT
from leveret.broker.queues.contract.status import UP
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues import queue_frames as frames
from leveret.cluster.remote_queues.remote_hold import WINDOW_BYTES
from tests.linked_nodes import Nodes
from tests.storage.reading import ready_entries
from tests.unit.broker.queues.fakes import FakeConsumer, publish
from tests.unit.cluster.remote_queues.fakes import Publisher

A, B = "a@host", "b@host"


def bodies(queue):
    return [entry.message.body for entry in ready_entries(queue.backing)]


def test_a_queue_that_is_declared_later_here_gets_what_came_before():
    nodes = Nodes(A, B)
    nodes.late[B] = ()
    nodes.declare(B)
    publisher, length = Publisher(), Answer()
    remote = nodes.by_name[A].queue()
    publish(remote, b"1", b"2", publisher=publisher)
    remote.length(length)
    nodes.settle()
    assert not publisher.confirmed
    nodes.catch_up(B)
    nodes.settle()
    assert bodies(nodes.by_name[B].queue()) == [b"1", b"2"]
    assert publisher.confirmed == [1, 2]
    assert length.result().ready_count == 2


def test_what_was_sent_to_a_queue_does_not_reach_its_next_life():
    nodes = Nodes(A, B)
    nodes.declare(B)
    nodes.late[A] = ()
    nodes.delete()
    nodes.declare(B)
    publisher = Publisher()
    publish(nodes.by_name[A].queue(), b"for the first", publisher=publisher)
    nodes.settle()
    assert bodies(nodes.by_name[B].queue()) == []
    nodes.catch_up(A)
    nodes.settle()
    assert publisher.died == [True]
    publish(nodes.by_name[A].queue(), b"for the second")
    nodes.settle()
    assert bodies(nodes.by_name[B].queue()) == [b"for the second"]


def test_a_queue_that_was_never_declared_here_is_forgotten_with_its_deletion():
    nodes = Nodes(A, B)
    nodes.late[B] = ()
    nodes.declare(B)
    publish(nodes.by_name[A].queue(), b"1")
    nodes.settle()
    nodes.delete()
    nodes.settle()
    (host,) = nodes.by_name[B].queues._hosts.values()
    assert (host._awaited, host._queues, host._kept_bytes) == ({}, {}, 0)


def test_frames_for_undeclared_queues_are_bounded(monkeypatch):
    monkeypatch.setattr("leveret.cluster.remote_queues.queue_host.KEPT_BYTES_MAX", 1000)
    nodes = Nodes(A, B)
    nodes.late[B] = ()
    nodes.declare(B)
    for _ in range(20):
        publish(nodes.by_name[A].queue(), b"x" * 100)
    with pytest.raises(frames.QueueFrameError, match="not declared here"):
        nodes.settle()


def test_a_subscription_of_a_node_that_knows_no_logs_reads_what_comes_next():
    figures = FakeConsumer().figures(UP)
    whole = frames.SubscribeQuestion(1, b"c", False, False, 0, 10, 100, figures, FIRST)
    fields = msgspec.msgpack.decode(frames.encode(whole))
    assert frames.decode_question(frames.encode(fields)) == whole
    without_start = frames.decode_question(frames.encode(fields[:-1]))
    assert without_start == msgspec.structs.replace(whole, start=NEXT)


class TestHoldingPublishersBack:
    @pytest.fixture
    def nodes(self):
        nodes = Nodes(A, B)
        nodes.declare(B)
        return nodes

    def test_a_publisher_waits_for_a_home_node_that_takes_nothing(self, nodes):
        hold = nodes.by_name[A].queue().publisher_hold
        resumed = []
        publish(nodes.by_name[A].queue(), *[b"x" * 1000] * (WINDOW_BYTES // 1000 + 1))
        assert hold.is_wanted
        hold.begin(lambda: resumed.append(True))
        assert not resumed
        nodes.settle()
        assert resumed == [True]
        assert not hold.is_wanted

    def test_it_waits_while_the_store_of_the_home_node_is_behind(self, nodes):
        far, hold = nodes.by_name[B], nodes.by_name[A].queue().publisher_hold
        far.flow.set_congested(True)
        publish(nodes.by_name[A].queue(), *[b"x" * 1000] * (WINDOW_BYTES // 1000 + 1))
        nodes.settle()
        assert hold.is_wanted
        far.flow.set_congested(False)
        nodes.settle()
        assert not hold.is_wanted

    def test_confirms_do_not_wait_for_that(self, nodes):
        publisher = Publisher()
        nodes.by_name[B].flow.set_congested(True)
        publish(nodes.by_name[A].queue(), b"1", publisher=publisher)
        nodes.settle()
        assert publisher.confirmed == [1]

    def test_it_waits_for_the_consumers_of_the_queue_as_publishers_at_home_do(self, nodes):
        far, hold = nodes.by_name[B], nodes.by_name[A].queue().publisher_hold
        far.queue().subscribe(FakeConsumer(credit=0), Answer())
        publish(nodes.by_name[A].queue(), *[b"x" * 1000] * (2 * WINDOW_BYTES // 1000))
        nodes.settle()
        assert hold.is_wanted
        far.queue().publisher_hold.release()
        nodes.settle()
        assert not hold.is_wanted

    def test_it_waits_for_a_congested_link(self, nodes):
        link, hold = nodes.ends[A, B], nodes.by_name[A].queue().publisher_hold
        resumed = []
        link.is_congested = True
        assert hold.is_wanted
        hold.begin(lambda: resumed.append(True))
        link.is_congested = False
        nodes.by_name[A].queues.drained(link)
        assert resumed == [True]

    def test_a_node_reads_no_publishers_while_others_do_not_take_what_it_has(
        self, nodes, monkeypatch
    ):
        monkeypatch.setattr("leveret.cluster.remote_queues.remote_hold.UNTAKEN_BYTES_MAX", 3000)
        flow = nodes.by_name[A].flow
        publish(nodes.by_name[A].queue(), *[b"x" * 1000] * 3)
        assert flow.is_held
        assert flow.is_memory_short, "also those that publish transient messages"
        nodes.unlink(A, B)
        assert not flow.is_held

    def test_little_for_each_of_many_queues_is_reported_too(self, nodes, monkeypatch):
        monkeypatch.setattr(
            "leveret.cluster.remote_queues.remote_hold.UNTAKEN_BYTES_MAX", 1_000_000
        )
        for number in range(30):
            nodes.declare(B, f"q{number}")
        for _ in range(2):
            for number in range(30):
                publish(nodes.by_name[A].queue(f"q{number}"), *[b"x" * 1000] * 18)
            nodes.settle()
            assert not nodes.by_name[A].flow.is_held

    def test_two_nodes_do_not_wait_for_each_other(self, nodes, monkeypatch):
        monkeypatch.setattr("leveret.cluster.remote_queues.remote_hold.UNTAKEN_BYTES_MAX", 700_000)
        monkeypatch.setattr("leveret.cluster.remote_queues.queue_host.TAKEN_BYTES_MIN", 100_000)
        nodes.declare(A, "other")
        for name, queue in ((A, "q"), (B, "other")):
            publish(nodes.by_name[name].queue(queue), *[b"x" * 1000] * 1000)
            assert nodes.by_name[name].flow.is_held
        nodes.settle()
        assert not any(node.flow.is_held for node in nodes)

    def test_it_goes_on_when_the_link_goes_down(self, nodes):
        resumed = []
        publish(nodes.by_name[A].queue(), b"x" * WINDOW_BYTES)
        nodes.by_name[A].queue().publisher_hold.begin(lambda: resumed.append(True))
        nodes.unlink(A, B)
        assert resumed == [True]

    def test_queues_deliver_nothing_to_a_congested_link(self, nodes):
        far, link = nodes.by_name[B], nodes.ends[B, A]
        consumer = FakeConsumer()
        nodes.by_name[A].queue().subscribe(consumer, Answer())
        nodes.settle()
        link.is_congested = True
        publish(far.queue(), b"1")
        nodes.settle()
        assert consumer.bodies == []
        link.is_congested = False
        far.queues.drained(link)
        nodes.settle()
        assert consumer.bodies == [b"1"]


class TestDamagedFrames:
    """Any bytes from another node are either performed or refused with a ValueError."""

    @staticmethod
    def talk():
        """Two nodes, and all kinds of frames between them."""
        nodes = Nodes(A, B)
        nodes.declare(B)
        remote = nodes.by_name[A].queue()
        publish(remote, b"1", b"2", publisher=Publisher())
        remote.subscribe(FakeConsumer(credit=1), Answer())
        nodes.settle()
        for ask in (remote.length, remote.purge):
            ask(Answer())
        publish(remote, b"3")
        got = Answer()
        remote.get(True, got)
        remote.figures.counts()
        remote.figures.status()
        nodes.settle()
        remote.requeue([got.result().entry])
        nodes.settle()
        return nodes

    @pytest.mark.parametrize("seed", range(10))
    @pytest.mark.parametrize(("sender", "receiver"), [(A, B), (B, A)])
    def test_they_do_not_break_the_node(self, sender, receiver, seed):
        chance = random.Random(seed)
        nodes = self.talk()
        whole = list(nodes.ends[sender, receiver].log)
        queues, end = nodes.by_name[receiver].queues, nodes.ends[receiver, sender]
        for _ in range(150):
            frame = bytearray(chance.choice(whole))
            for _ in range(chance.choice((0, 1, 1, 2, 8))):
                frame[chance.randrange(len(frame))] = chance.choice((0, 1, 2, 255, 127, 64, 17))
            if chance.random() < 0.3:
                del frame[chance.randrange(len(frame)) :]
            try:
                queues.received(end, bytes(frame))
            except ValueError:
                # The link is closed for it.
                nodes.unlink(A, B)
                nodes.settle()
                nodes = self.talk()
                queues, end = nodes.by_name[receiver].queues, nodes.ends[receiver, sender]
            nodes.by_name[receiver].loop.run()
