"""Another node as the home of queues that clients of this node use: the client side of a link.

Queues and consumers have numbers, which count up and are never reused, so a late frame for one that
is gone can be told from an invalid frame. Answers to questions have numbers, too.

Invariants:
HN1. Each question is answered once: by the home node, when the link is down, or when the queue is
     deleted (Q3).
HN2. After `down` nothing is left of the link: no number is in use, no queue is open.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.field_table import text_of
from leveret.broker.amqp.reply_codes import NAMES
from leveret.broker.queues.contract.queue_client import Got
from leveret.broker.queues.contract.status import CoarseCounts
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Flushable, Turns
from leveret.cluster.links.services import REMOTE_QUEUES_SERVICE, Peer
from leveret.cluster.remote_queues import queue_frames as frames
from leveret.cluster.remote_queues.message_runs import RunReader
from leveret.cluster.remote_queues.queue_frames import QueueAnswer, QueueFrameError
from leveret.cluster.remote_queues.remote_consumer import RemoteConsumer
from leveret.cluster.remote_queues.remote_hold import RemoteHold, UntakenBytes
from leveret.storage.messages.addresses import Addresses

TakeCounts = Callable[[CoarseCounts], object]


class UsedQueue(Protocol):
    """A queue of the home node (remote_queue.py)."""

    @property
    def opening(self) -> frames.OpenQueue:
        """The data with which the home node opens it."""

    @property
    def gone(self) -> Exception:
        """The error with which it answers once it is deleted, or its node is down."""

    def taken(self, taken_bytes: int, safe: tuple[int, ...], refused: tuple[int, ...]) -> None:
        """The outcomes of publishes: pairs of numbers. Raises ValueError."""

    def note_tag(self, tag: int) -> None:
        """Note the tag of a delivery."""

    def open_again(self) -> None:
        """Repeat the open questions, which its node has dropped, under another number."""

    def home_down(self) -> None:
        """The link to its node is down."""


class PendingQuestion(NamedTuple):
    """A question that waits for the home node. read: returns the value of an answer.

    is_cancel: if the queue is gone, the question counts as answered, not as refused. is_deletion:
    the answer follows the end of the queue.
    """

    queue: UsedQueue
    answer: Answer[Any]
    read: Callable[[QueueAnswer], Any]
    is_cancel: bool
    is_deletion: bool

    def lose(self) -> None:
        """Refuse the question: no node can answer it."""
        if self.is_cancel:
            self.answer.give(None)
        else:
            self.answer.refuse(self.queue.gone)


class HomeNode(Flushable):
    """One other node. peer: set while there is a link. consumers: by their numbers.

    addresses: shared by all messages from other nodes. clock: the broker's. untaken: the bytes that
    all other nodes have not taken. is_dirty: `flush` is due at the end of the round
    (broker/runtime/turns.py).
    """

    def __init__(
        self, name: str, turns: Turns, clock: Clock, addresses: Addresses, untaken: UntakenBytes
    ) -> None:
        self.name = name
        self.clock = clock
        self.addresses = addresses
        self.untaken = untaken
        self.peer: Peer | None = None
        self.consumers: dict[int, RemoteConsumer] = {}
        super().__init__()
        self._turns = turns
        self._queues: dict[int, UsedQueue] = {}
        self._asked: dict[int, PendingQuestion] = {}
        self._last_number = 0
        self._granting: dict[RemoteConsumer, None] = {}
        self._holds: dict[RemoteHold, None] = {}
        self._wanted_counts: dict[int, tuple[frames.OpenQueue, TakeCounts]] = {}
        self._asked_counts: dict[int, TakeCounts] = {}

    def __repr__(self) -> str:
        return f"<HomeNode {self.name}>"

    # The link

    @property
    def takes_times(self) -> bool:
        """Whether it takes messages with times to live of their own in one frame."""
        return self.peer is not None and frames.OWN_TIMES_FEATURE in self.peer.features

    def up(self, peer: Peer) -> None:
        """The link is up."""
        assert not self._queues, "HN2: no queue is open of the link before"
        assert not self._asked, "HN2: no question is left of the link before"
        self.peer = peer

    def down(self) -> None:
        """The link is down."""
        self.peer = None
        queues, self._queues = self._queues, {}
        asked, self._asked = self._asked, {}
        self.consumers.clear()
        self._granting.clear()
        self._holds.clear()
        self._wanted_counts.clear()
        self._asked_counts.clear()
        for queue in queues.values():
            queue.home_down()
        for one in asked.values():
            one.lose()

    def send(self, *pieces: bytes) -> None:
        """Send a frame."""
        assert self.peer is not None, "HN2: nothing is sent without a link"
        self.peer.send(REMOTE_QUEUES_SERVICE, *pieces)

    @property
    def is_congested(self) -> bool:
        """Whether the link has more to send than it should."""
        return self.peer is not None and self.peer.is_congested

    def await_drain(self, hold: RemoteHold) -> None:
        """Call `look` when the link has room again."""
        self._holds[hold] = None

    def drained(self) -> None:
        """The link has room again."""
        holds, self._holds = self._holds, {}
        for hold in holds:
            hold.look()

    # Frames to the home node

    def new_number(self) -> int:
        """An unused number for a queue, a consumer or a question."""
        self._last_number += 1
        return self._last_number

    def open(self, queue: UsedQueue) -> int:
        """Open a queue; returns its number."""
        number = self.new_number()
        self._queues[number] = queue
        self.send(frames.NUMBER.pack(frames.OPEN, number), frames.encode(queue.opening))
        return number

    def close(self, number: int) -> None:
        """Close a queue. Does nothing if the link has gone down since it was opened."""
        if self._queues.pop(number, None) is not None:
            self.send(frames.NUMBER.pack(frames.CLOSE, number))

    def ask(
        self,
        number: int,
        queue: UsedQueue,
        question: frames.QueueQuestion,
        answer: Answer[Any],
        read: Callable[[QueueAnswer], Any],
    ) -> None:
        """Send a question to a queue that is open under a number."""
        asked = self.new_number()
        is_cancel = isinstance(question, frames.CancelQuestion)
        is_deletion = isinstance(question, frames.Delete)
        self._asked[asked] = PendingQuestion(queue, answer, read, is_cancel, is_deletion)
        start = frames.ASK_START.pack(frames.ASK, number, asked)
        self.send(start, frames.encode(question))

    def lose_questions(self, queue: UsedQueue) -> None:
        """Refuse the questions to a deleted queue, except its deletion."""
        lost = [
            number
            for number, asked in self._asked.items()
            if asked.queue is queue and not asked.is_deletion
        ]
        for asked in [self._asked.pop(number) for number in lost]:
            asked.lose()

    # Once a round

    def grant_later(self, consumer: RemoteConsumer) -> None:
        """Call `make_grant` of a consumer at the end of the round."""
        self._granting[consumer] = None
        self._turns.flush_later(self)

    def want_counts(self, place: frames.OpenQueue, take: TakeCounts) -> None:
        """Ask for the counts of a queue, in one frame with all others wanted in this round."""
        if self.peer is not None and place.identity not in self._asked_counts:
            self._wanted_counts[place.identity] = place, take
            self._turns.flush_later(self)

    def flush(self) -> None:
        """Send grants, and ask for counts."""
        if self.peer is None:
            return
        granting, self._granting = self._granting, {}
        for consumer in granting:
            consumer.make_grant()
        wanted, self._wanted_counts = self._wanted_counts, {}
        if wanted:
            places = [(place.vhost, place.name, place.identity) for place, _ in wanted.values()]
            self._asked_counts.update((place.identity, take) for place, take in wanted.values())
            question = frames.FiguresQuestion(places)
            self.send(bytes((frames.FIGURES,)), frames.encode(question))

    # Frames from the home node

    def received(self, kind: int, payload: bytes) -> None:
        """A frame from the home node. Raises ValueError."""
        if kind == frames.DELIVER:
            self._deliver(payload)
        elif kind == frames.TAKEN:
            self._taken(payload)
        elif kind == frames.ANSWER:
            self._answered(payload)
        elif kind == frames.GOT:
            self._got(payload)
        elif kind == frames.LOST:
            self._lost(payload)
        elif kind == frames.COUNTS:
            for identity, counts in frames.decoded(frames.decode_counts, payload[1:]):
                self._asked_counts.pop(identity, _ignore)(counts)
            self._asked_counts.clear()
        else:
            raise QueueFrameError(f"a frame of the unknown kind {kind}")

    def _is_old(self, number: int) -> bool:
        """Whether the number's owner is gone. Raises QueueFrameError for a number never used."""
        if not 0 < number <= self._last_number:
            raise QueueFrameError(f"the number {number} was never given")
        return True

    def _deliver(self, payload: bytes) -> None:
        number = frames.fields(frames.NUMBER, payload)[0]
        consumer = self.consumers.get(number)
        # Otherwise its queue is deleted, and the home node does not know it yet.
        if consumer is not None or not self._is_old(number):
            assert consumer is not None
            consumer.queue.deliver(consumer, payload)

    def _lost(self, payload: bytes) -> None:
        number = frames.fields(frames.NUMBER, payload)[0]
        consumer, queue = self.consumers.get(number), self._queues.get(number)
        if consumer is not None:
            consumer.queue.lost(consumer)
        elif queue is not None:
            queue.open_again()
        else:
            self._is_old(number)

    def _taken(self, payload: bytes) -> None:
        number, taken_bytes, ranges = frames.fields(frames.TAKEN_START, payload)
        pairs = frames.numbers(payload, frames.TAKEN_START.size)
        if len(pairs) % 2 or 2 * ranges > len(pairs):
            raise QueueFrameError(f"{ranges} ranges in {len(pairs)} numbers")
        queue = self._queues.get(number)
        if queue is not None or not self._is_old(number):
            assert queue is not None
            queue.taken(taken_bytes, pairs[: 2 * ranges], pairs[2 * ranges :])

    def _answered(self, payload: bytes) -> None:
        number = frames.fields(frames.NUMBER, payload)[0]
        result = frames.decoded(frames.decode_result, payload[frames.NUMBER.size :])
        asked = self._asked.pop(number, None)
        if asked is None:
            self._is_old(number)
        elif result.code:
            asked.answer.refuse(_fault(result))
        else:
            asked.answer.give(asked.read(result))

    def _got(self, payload: bytes) -> None:
        number, ready_count, tag = frames.fields(frames.GOT_START, payload)
        reader = RunReader(payload, frames.GOT_START.size, self.addresses)
        (entry,) = reader.entries(1, tag)
        asked = self._asked.pop(number, None)
        if asked is None:
            self._is_old(number)
        else:
            asked.queue.note_tag(tag)
            asked.answer.give(Got(entry, ready_count))


def _fault(result: QueueAnswer) -> ChannelFault | ConnectionFault:
    """The fault that the home node answered with. Raises QueueFrameError."""
    if result.code not in NAMES:
        raise QueueFrameError(f"an answer has the unknown reply code {result.code}")
    make = ConnectionFault if result.closes_connection else ChannelFault
    return make(result.code, text_of(result.text))


def _ignore(_counts: CoarseCounts) -> None:
    """Drop counts that were not asked for."""
