"""Test doubles for what is around a mirrored queue's client, and its parts put together."""

from leveret.broker.amqp.errors import not_found
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.runtime.pending import Answer
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.cluster.mirrors.leader_session import LeaderSession
from leveret.cluster.mirrors.mirrored_queue import MirroredQueue
from leveret.cluster.mirrors.planning import NOT_MIRRORED
from leveret.cluster.mirrors.publishing import MirroredPublishing
from leveret.cluster.mirrors.ring import OwnMember
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from tests.unit.broker.queues.fakes import FakeVhost, declared, specified

RING = 99
A, B = Placement("a@host", 7), Placement("b@host", 7)


class FakeLeader:
    """A leader whose answers the test gives. asked: what it is asked and has not answered."""

    may_redeliver = False
    policy = operator_policy = None

    def __init__(self):
        self.asked = []
        self.settled = []
        self.consumers = {}
        self.credited = []
        self.options = None
        self.is_down = False
        self.demand = None

    def watch(self, demand):
        self.demand = demand

    def _ask(self, what, answer):
        self.asked.append((what, answer))

    def get(self, ack_required, answer):
        self._ask("get", answer)

    def length(self, answer):
        self._ask("length", answer)

    def purge(self, answer):
        self._ask("purge", answer)

    def delete(self, if_unused, if_empty, requester, answer):
        self._ask("delete", answer)

    def subscribe(self, consumer, answer):
        self.consumers[consumer] = None
        self._ask("subscribe", answer)

    def cancel(self, consumer, channel_ended=False, answer=None):
        self._ask("cancel", answer)

    def credit(self, consumer):
        self.credited.append(consumer)

    def ack(self, entries):
        self.settled += [("ack", entry.position) for entry in entries]

    def requeue(self, entries, is_failed=False):
        self.settled += [("requeue", entry.position) for entry in entries]

    def discard(self, entries):
        self.settled += [("discard", entry.position) for entry in entries]

    def apply(self, options):
        self.options = options

    def delete_now(self):
        return self._end()

    def close(self):
        return self._end()

    def _end(self):
        """As a remote queue: it loses its questions, but for its deletion."""
        self.lose(deletion_too=False)
        for consumer in self.consumers:
            consumer.queue_deleted()
        return list(self.consumers)

    @property
    def questions(self):
        return [what for what, _ in self.asked]

    def answer(self, value):
        """Answer what was asked first."""
        self.asked.pop(0)[1].give(value)

    def refuse(self, error):
        self.asked.pop(0)[1].refuse(error)

    def lose(self, deletion_too=True):
        """The link is down: questions are lost, and cancels count as done."""
        asked, self.asked = self.asked, []
        for what, answer in asked:
            if what == "delete" and not deletion_too:
                self.asked.append((what, answer))
            elif what == "cancel":
                answer.give(None)
            else:
                answer.refuse(not_found("the link is down"))


def leader_session(backing=None, log=None):
    """A leader on this node: of an empty queue in memory, if none is given."""
    queue = declared(FakeVhost())
    if backing is None:
        log = KeptTurns(queue.backing, lambda: None)
        backing = queue.backing = LeaderBackingQueue(queue.backing, log, 0)
    return LeaderSession(
        queue, backing, log, lambda: NOT_MIRRORED, lambda member: None, lambda: None,
        lambda error, again: None,
    )  # fmt: skip


def mirrored(own=None):
    """A mirrored queue that has no leader yet."""
    publishing = MirroredPublishing("q", RING, 5, own or OwnMember(), UntakenBytes(lambda _: None))
    return MirroredQueue(specified({}, durable=True, placement=A), publishing)


def led(queue, is_here=False, home=A):
    """The queue's new leader."""
    leader = FakeLeader()
    queue.placement = home
    queue.led_by(leader, is_here=is_here)
    return leader


def lose(queue, leader):
    """The link to the leader's node goes down."""
    leader.is_down = True
    queue.leader_lost(list(leader.consumers))
    leader.lose()


def asked(ask, *arguments):
    """The answer to a question, which may not be given yet."""
    answer = Answer()
    ask(*arguments, answer)
    return answer
