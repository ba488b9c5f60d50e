"""What the leader's backing queue notes of what is done to it."""

import pytest

from leveret.broker.queues.contract.publication import publication_of
from leveret.cluster.gm.group import Member
from leveret.cluster.mirrors import decisions
from leveret.cluster.mirrors.decisions import DecisionReader
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.queue.transient_queue import TransientQueue
from tests.unit.cluster.mirrors.group_of_queues import ADDRESS, HEADERS

NODE = 4


class Group:
    """A leader with one mirror, which keeps nothing. turns: counts those that have decisions."""

    def __init__(self, inner, held=()):
        self.turns = 0
        self.kept = KeptTurns(inner, self._count)
        self.kept.joined(Member("b@host", 1, 1), 1)
        self.queue = LeaderBackingQueue(inner, self.kept, 0, held=held)
        self.queue.has_mirrors = True

    def _count(self):
        self.turns += 1


def messages(*bodies):
    return [Message(ADDRESS, HEADERS[0], body) for body in bodies]


def publish(queue, found):
    return queue.publish(run_of(found), 0)


def sent(first, found):
    """Messages as a node has sent them to all members."""
    return publication_of(found).sent(NODE, first)


def noted(queue):
    """The kinds of decisions of a turn, and what they are about."""
    found = []
    for one in DecisionReader(queue.take_decisions()).decisions():
        found.append((one.kind, one.ranges or (one.sender, one.first, one.count, one.position)))
    return found


@pytest.fixture
def group():
    return Group(TransientQueue())


@pytest.fixture
def queue(group):
    """The backing queue of a leader that has a mirror."""
    return group.queue


class TestPublishing:
    def test_contents_of_a_node_are_noted_by_their_numbers(self, queue):
        run = sent(70, messages(b"a", b"b", b"c"))
        queue.begin_run(run)
        queue.publish(run, 0)
        queue.end_run()
        assert noted(queue) == [(decisions.PUBLISHED, (NODE, 70, 3, 0))]

    def test_what_was_not_published_when_the_run_ends_was_refused(self, queue):
        run = sent(70, messages(b"a", b"b", b"c", b"d"))
        queue.begin_run(run)
        queue.publish(run.numbered(71, 72), 0)
        queue.end_run()
        assert noted(queue) == [
            (decisions.REFUSED, (NODE, 70, 1, 0)),
            (decisions.PUBLISHED, (NODE, 71, 1, 0)),
            (decisions.REFUSED, (NODE, 72, 2, 0)),
        ]

    def test_a_dead_letter_that_comes_back_to_the_queue_is_none_of_the_run(self, queue):
        run = sent(70, messages(b"a", b"b"))
        queue.begin_run(run)
        queue.publish(run.numbered(70, 71), 0)
        publish(queue, messages(b"dead"))
        queue.publish(run.numbered(71, 72), 0)
        queue.end_run()
        kinds = [kind for kind, _ in noted(queue)]
        assert kinds == [decisions.PUBLISHED, decisions.PUBLISHED_HERE, decisions.PUBLISHED]

    def test_confirms_wait_for_the_mirrors(self, queue, group):
        assert publish(queue, messages(b"a"))
        queue.when_safe(None, 5, None)
        assert (group.kept.first.turn, group.kept.first.first) == (1, 5)


class TestTurns:
    def test_the_first_decision_of_a_turn_is_announced(self, queue, group):
        publish(queue, messages(b"a", b"b"))
        queue.fetch(1, True)
        assert group.turns == 1
        queue.take_decisions()
        queue.fetch(1, True)
        assert group.turns == 2

    def test_a_turn_is_a_few_decisions(self, queue):
        for _ in range(100):
            publish_from_node(queue, 100)
        entries = queue.fetch(10_000, True)
        for entry in entries:
            queue.ack([entry])
        assert noted(queue) == [
            (decisions.PUBLISHED, (NODE, 0, 10_000, 0)),
            (decisions.FETCHED, [(0, 10_000)]),
            (decisions.SETTLED, [(0, 10_000)]),
        ]

    def test_nothing_is_noted_without_mirrors(self, queue, group):
        queue.has_mirrors = False
        publish_from_node(queue, 3)
        queue.ack(queue.fetch(1, True))
        queue.drop()
        queue.purge()
        assert (queue.take_decisions(), group.turns) == (b"", 0)

    def test_a_fetch_of_nothing_is_no_decision(self, queue, group):
        assert queue.fetch(3, True) == []
        assert queue.purge().dropped == 0
        assert group.turns == 0


def publish_from_node(queue, count):
    run = sent(queue.decided.get(NODE, 0), messages(*[b"m"] * count))
    queue.begin_run(run)
    queue.publish(run, 0)
    queue.end_run()


class TestWhatAwaitsSettlement:
    def test_it_is_known_by_its_positions(self, queue):
        publish(queue, messages(b"a", b"b", b"c"))
        one, _, three = queue.fetch(3, True)
        assert queue.unacked_between(0, 1) == [(0, one)]
        queue.ack([one])
        queue.requeue(queue.unacked_between(1, 2)[0][1:])
        assert queue.unacked_between(0, 9) == [(2, three)]

    def test_a_queue_that_was_in_use_is_mirrored_with_what_its_clients_hold(self):
        inner = TransientQueue()
        publish(inner, messages(b"a", b"b"))
        held = inner.fetch(1, True)
        queue = Group(inner, held).queue
        assert queue.joined(1) == [(0, 2)]
        queue.requeue(held)
        assert noted(queue)[1] == (decisions.REQUEUED, [(0, 1)])
