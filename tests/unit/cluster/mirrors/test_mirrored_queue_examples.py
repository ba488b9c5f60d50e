"""A mirrored queue step by step: what a mirror does with contents, decisions and batches."""

import pytest

from leveret.cluster.mirrors.mirror_messages import MirrorDiffers
from leveret.storage.contract.backing_queue import BeingRead, Unreadable
from leveret.storage.messages.message import Message
from tests.storage.backing_contract.decorators import UnchangedQueue
from tests.unit.cluster.mirrors.group_of_queues import (
    ADDRESS,
    HEADERS,
    Group,
    InMemory,
    OnDisk,
    ready,
)


@pytest.fixture
def group():
    """A leader, and a node that publishes."""
    found = Group(InMemory, nodes=1)
    yield found
    found.close()


def publish(group, count):
    """The node publishes, and the leader has its contents."""
    (node,) = group.nodes
    node.publish(0, count)
    group.deliver_contents(node, group.leader)
    return node


def letter_of(body):
    return Message(ADDRESS, HEADERS[0], body)


def bodies(member):
    return [body for _, body, _ in ready(member)]


class TestContentsAndDecisions:
    def test_a_mirror_publishes_the_contents_that_a_decision_names(self, group):
        mirror = group.join()
        node = publish(group, 3)
        group.end_turn()
        group.deliver_contents(node, mirror)
        group.deliver_decisions(mirror)
        group.deliver_decisions(mirror)
        assert bodies(mirror) == bodies(group.leader) == [b"1.0", b"1.1", b"1.2"]

    def test_contents_stay_aside_until_they_are_decided_on(self, group):
        mirror = group.join()
        group.deliver_all()
        node = publish(group, 3)
        group.deliver_contents(node, mirror)
        assert bodies(mirror) == []
        assert mirror.mirror.senders.bytes_held == 9

    def test_decisions_wait_for_contents_and_say_for_which(self, group):
        mirror = group.join()
        node = publish(group, 3)
        group.leader.fetch(2, True)
        group.end_turn()
        group.deliver_decisions(mirror)
        assert mirror.mirror.waits_for == (1, 0, 3)
        assert (mirror.mirror.turn, mirror.mirror.is_behind) == (0, True)
        group.deliver_contents(node, mirror)
        assert mirror.mirror.waits_for is None
        assert (mirror.mirror.turn, mirror.queue.unacked_count) == (1, 2)

    def test_dead_letters_come_with_their_decision(self, group):
        mirror = group.join()
        publish(group, 2)
        group.leader.fetch(1, False)
        group.leader.append([letter_of(b"dead")])
        group.check()
        assert bodies(mirror) == [b"1.1", b"dead"]

    def test_refused_contents_are_never_published(self, group):
        mirror = group.join()
        group.leader.refuses = lambda message: message.body == b"1.1"
        publish(group, 3)
        group.check()
        assert bodies(mirror) == [b"1.0", b"1.2"]

    def test_a_mirror_asks_for_contents_that_its_node_can_no_longer_send(self, group):
        mirror = group.join()
        node = publish(group, 3)
        group.end_turn()
        node.lines[mirror].clear()
        mirror.do(lambda: mirror.mirror.sender_gone(node.number))
        group.deliver_decisions(mirror)
        assert list(mirror.asked) == [(0, 3)]
        group.answer(mirror)
        assert ready(mirror) == ready(group.leader)

    def test_it_asks_for_the_rest_if_the_answer_has_the_first_of_them_only(self, group):
        mirror = self.asking(group)
        group.leader.fetch(1, False)
        group.answer(mirror, messages_max=1)
        assert list(mirror.asked) == [(2, 3)]
        group.answer(mirror)
        group.check()
        assert bodies(mirror) == [b"1.1", b"1.2"]

    def test_the_rest_is_missing_if_it_leads_next(self, group):
        mirror = self.asking(group)
        group.answer(mirror, messages_max=2)
        promoted = mirror.mirror.promote()
        assert promoted.void == [(2, 3)]
        assert bodies(mirror) == [b"1.0", b"1.1"]
        assert list(promoted.refused[1]) == [(2, 3)]
        assert promoted.decided == {1: 3}

    @staticmethod
    def asking(group):
        """A mirror that has asked for three messages."""
        mirror = group.join()
        node = publish(group, 3)
        group.end_turn()
        node.lines[mirror].clear()
        mirror.do(lambda: mirror.mirror.sender_gone(node.number))
        group.deliver_decisions(mirror)
        group.deliver_decisions(mirror)
        return mirror

    def test_what_the_leader_does_not_have_either_by_then_is_missing(self, group):
        mirror = group.join()
        node = publish(group, 3)
        node.lines[mirror].clear()
        group.end_turn()
        group.leader.fetch(1, False)
        mirror.do(lambda: mirror.mirror.sender_gone(node.number))
        group.deliver_decisions(mirror)
        group.answer(mirror)
        assert list(mirror.mirror.messages.unrecoverable) == [(0, 1)]
        group.check()
        assert bodies(mirror) == [b"1.1", b"1.2"]

    def test_a_decision_that_does_not_fit_ends_the_mirror(self, group):
        mirror = group.join()
        publish(group, 1)
        group.leader.fetch(1, True)
        group.deliver_all()
        mirror.queue.purge()
        mirror.mirror.messages._unacked.clear()
        group.leader.settle([0], "ack")
        group.end_turn()
        with pytest.raises(MirrorDiffers, match="no message at 0"):
            mirror.mirror.decided(mirror.decisions.popleft())


class TestSettlement:
    def test_what_was_fetched_is_kept_by_position_until_it_is_settled(self, group):
        mirror = group.join()
        publish(group, 4)
        group.leader.fetch(3, True)
        group.leader.settle([1], "ack")
        group.leader.settle([0], "requeue")
        group.check()
        assert ready(mirror) == [(0, b"1.0", True), (3, b"1.3", False)]
        assert mirror.queue.unacked_count == 1

    def test_a_purge_spares_what_awaits_settlement(self, group):
        mirror = group.join()
        publish(group, 4)
        group.leader.fetch(2, True)
        group.leader.purge()
        group.leader.settle([1], "requeue")
        group.check()
        assert ready(mirror) == [(1, b"1.1", True)]

    def test_a_message_that_is_returned_unseen_is_not_marked(self, group):
        mirror = group.join()
        publish(group, 2)
        group.leader.take({1})
        group.leader.settle([1], "return")
        group.check()
        assert ready(mirror) == [(0, b"1.0", False), (1, b"1.1", False)]


class TestSynchronising:
    def test_a_mirror_that_joins_lacks_what_the_leader_had_and_follows_the_tail(self, group):
        publish(group, 3)
        mirror = group.join()
        node = publish(group, 2)
        group.end_turn()
        group.deliver_contents(node, mirror)
        group.deliver_decisions(mirror)
        assert bodies(mirror) == [b"1.3", b"1.4"]
        assert mirror.mirror.lacks == [(0, 3)]

    def test_batches_bring_the_head_while_the_queue_goes_on(self, group):
        publish(group, 8)
        mirror = group.join()
        group.end_turn()
        group.deliver_decisions(mirror)
        group.send_batch(mirror, 3)
        group.deliver_batch(mirror)
        assert mirror.mirror.lacks == [(3, 8)]
        group.leader.fetch(5, True)
        group.leader.settle([0, 4], "ack")
        group.check()
        assert mirror.mirror.lacks == []
        assert mirror.queue.unacked_count == 3

    def test_what_awaits_settlement_is_a_part_of_the_head(self, group):
        publish(group, 3)
        group.leader.fetch(2, True)
        mirror = group.join()
        group.check()
        assert mirror.queue.unacked_count == 2

    def test_a_batch_waits_for_the_decisions_before_it(self, group):
        publish(group, 3)
        mirror = group.join()
        group.end_turn()
        group.deliver_decisions(mirror)
        group.leader.fetch(1, False)
        group.send_batch(mirror)
        group.deliver_batch(mirror)
        assert mirror.mirror.batch_number == 0
        group.deliver_decisions(mirror)
        assert (mirror.mirror.batch_number, bodies(mirror)) == (1, [b"1.1", b"1.2"])

    def test_no_more_than_two_batches_are_on_their_way(self, group):
        publish(group, 12)
        mirror = group.join()
        group.end_turn()
        group.deliver_decisions(mirror)
        for _ in range(4):
            group.send_batch(mirror, 3)
        assert len(mirror.batches) == 2
        group.deliver_batch(mirror)
        group.send_batch(mirror, 3)
        assert len(mirror.batches) == 2
        synchronisation = mirror.synchronisation
        assert (synchronisation.messages, synchronisation.expected) == (9, 12)

    def test_one_that_is_cancelled_sends_no_more(self, group):
        publish(group, 12)
        mirror = group.join()
        group.end_turn()
        group.deliver_decisions(mirror)
        group.send_batch(mirror, 3)
        mirror.synchronisation.cancel()
        group.send_batch(mirror, 3)
        assert len(mirror.batches) == 1
        assert not mirror.synchronisation.is_complete

    def test_a_head_that_is_used_up_needs_no_batch_of_messages(self, group):
        publish(group, 3)
        mirror = group.join()
        group.end_turn()
        group.deliver_decisions(mirror)
        group.send_batch(mirror, 1)
        group.deliver_batch(mirror)
        assert not mirror.synchronisation.is_used_up()
        group.leader.fetch(3, False)
        assert mirror.synchronisation.is_used_up()

    def test_it_is_not_used_up_while_a_batch_is_on_its_way(self, group):
        publish(group, 3)
        mirror = group.join()
        group.end_turn()
        group.deliver_decisions(mirror)
        group.send_batch(mirror, 1)
        group.leader.take({1, 2})
        group.leader.settle([1, 2], "ack")
        assert not mirror.synchronisation.is_used_up()
        group.end_turn()
        group.deliver_batch(mirror)
        assert mirror.synchronisation.is_used_up()


class TestFailover:
    def test_the_next_leader_has_all_with_what_was_held_marked(self, group):
        group.join()
        publish(group, 3)
        group.leader.fetch(2, True)
        group.deliver_all()
        group.fail_over(0)
        assert ready(group.leader) == [(0, b"1.0", True), (1, b"1.1", True), (2, b"1.2", False)]

    def test_it_publishes_contents_that_no_decision_names_once(self, group):
        next_leader, mirror = group.join(), group.join()
        group.deliver_all()
        (node,) = group.nodes
        node.publish(0, 2)
        node.publish(0, 1)
        group.deliver_contents(node, next_leader)
        group.fail_over(0)
        group.check()
        assert bodies(mirror) == bodies(group.leader) == [b"1.0", b"1.1", b"1.2"]

    def test_one_that_was_to_lead_and_has_left_messages_out_differs(self):
        """The leader before leads again, and has them."""
        group = Group(InMemory)
        mirror = group.join()
        lost, late = group.nodes
        for node in (lost, late):
            node.publish(0, 1)
            group.deliver_contents(node, group.leader)
            group.end_turn()
        lost.lines[mirror].clear()
        mirror.do(lambda: mirror.mirror.sender_gone(lost.number))
        while mirror.decisions:
            group.deliver_decisions(mirror)
        assert mirror.mirror.promote() is None
        with pytest.raises(MirrorDiffers, match="left out"):
            mirror.mirror.ask_again()
        group.close()

    def test_it_refuses_what_the_one_before_refused(self, group):
        next_leader = group.join()
        group.leader.refuses = lambda message: message.body == b"1.0"
        publish(group, 2)
        group.deliver_all()
        refused = next_leader.mirror.promote().refused
        assert {sender: list(numbers) for sender, numbers in refused.items()} == {1: [(0, 1)]}

    def test_it_refuses_what_was_decided_before_it_began_and_it_lacks(self, group):
        """Who waits for a confirm is not told that the messages are safe."""
        node = publish(group, 3)
        group.end_turn()
        mirror = group.join()
        group.end_turn()
        group.deliver_decisions(mirror)
        refused = mirror.mirror.promote().refused
        assert {sender: list(numbers) for sender, numbers in refused.items()} == {
            node.number: [(0, 3)]
        }

    def test_it_refuses_nothing_that_batches_have_brought(self, group):
        publish(group, 3)
        group.end_turn()
        mirror = group.join()
        group.end_turn()
        group.deliver_decisions(mirror)
        while mirror.mirror.lacks:
            group.send_batch(mirror)
            group.deliver_batch(mirror)
        assert mirror.mirror.promote().refused == {}

    def test_it_refuses_nothing_that_its_sender_knows(self, group):
        node = publish(group, 3)
        group.end_turn()
        mirror = group.join()
        group.end_turn()
        group.deliver_decisions(mirror)
        mirror.mirror.senders.told(node.number, 2)
        refused = mirror.mirror.promote().refused
        assert {sender: list(numbers) for sender, numbers in refused.items()} == {
            node.number: [(2, 3)]
        }

    def test_a_mirror_drops_what_a_leader_that_was_not_synchronised_lacks(self, group):
        publish(group, 3)
        first, second = group.join(), group.join()
        group.end_turn()
        group.deliver_decisions(first)
        group.settle_down(second)
        while second.mirror.lacks:
            group.send_batch(second)
            group.deliver_batch(second)
        group.followers.remove(first)
        group.promote(first)
        group.check()
        assert bodies(second) == bodies(group.leader) == []

    def test_messages_that_no_node_can_send_are_missing_at_the_next_leader(self, group):
        mirror = group.join()
        node = publish(group, 2)
        group.end_turn()
        node.lines[mirror].clear()
        mirror.do(lambda: mirror.mirror.sender_gone(node.number))
        group.deliver_decisions(mirror)
        promoted = mirror.mirror.promote()
        assert promoted.void == [(0, 2)]
        assert promoted.backing.ready_count == 0
        assert promoted.backing.next_position_of(letter_of(b"")) == 2


class TestReadsThatTakeLong:
    """The messages of a mirror are on its disk."""

    @pytest.fixture
    def group(self):
        found = Group(OnDisk, nodes=1)
        yield found
        found.close()

    def test_decisions_wait_until_a_message_was_read(self, group):
        mirror = group.join()
        publish(group, 3)
        group.deliver_all()
        read = []
        error = BeingRead("segment 0", read.append)
        failing = Failing(mirror.queue, error)
        mirror.mirror.messages.queue = failing
        group.leader.fetch(2, True)
        group.end_turn()
        group.deliver_decisions(mirror)
        assert mirror.mirror.failed_read is error
        assert mirror.mirror.is_behind
        failing.error = None
        mirror.do(read[0])
        assert (mirror.mirror.failed_read, mirror.mirror.is_behind) == (None, False)
        assert mirror.queue.unacked_count == 2

    def test_one_that_fails_is_tried_again_when_the_node_says_so(self, group):
        mirror = group.join()
        publish(group, 3)
        group.deliver_all()
        failing = Failing(mirror.queue, Unreadable("no file handle is free"))
        mirror.mirror.messages.queue = failing
        group.leader.fetch(2, False)
        group.end_turn()
        group.deliver_decisions(mirror)
        assert "no file handle" in str(mirror.mirror.failed_read)
        failing.error = None
        mirror.do(mirror.mirror.go_on)
        assert not mirror.mirror.is_behind


class Failing(UnchangedQueue):
    """A backing queue whose fetches fail. error: with which."""

    def __init__(self, inner, error):
        super().__init__(inner)
        self.error = error

    def fetch(self, count, ack_required):
        if self.error is not None:
            raise self.error
        return super().fetch(count, ack_required)
