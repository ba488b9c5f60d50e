"""The queues of this node that one other node uses: the home node's side of a link.

A queue is opened under a number before any other frame is sent for it. The other node may learn of
a declaration earlier than this one. Frames for a queue that is not declared here yet are kept until
it is declared, or until the other node, having learned of the deletion, closes the number. So no
frame is lost, and none reaches a later queue of the same name, which has another identity. A node
on the other side of a partition learns of no declaration of this side, so it is told that the queue
is lost.

Invariants:
QH1. Frames for one queue are performed in the order of their arrival, including kept ones.
QH2. After `release` nothing of the other node is left: its consumers are cancelled, and the entries
     that it held are requeued.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from leveret.broker.amqp.field_table import text_of
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.turns import Flushable, Turns
from leveret.cluster.links.services import REMOTE_QUEUES_SERVICE, Peer
from leveret.cluster.remote_queues import queue_frames as frames
from leveret.cluster.remote_queues.hosted_consumer import HostedConsumer
from leveret.cluster.remote_queues.hosted_publishes import HostedPublishes
from leveret.cluster.remote_queues.hosted_queue import HostedQueue
from leveret.cluster.remote_queues.message_runs import EXPIRY_FEATURE
from leveret.cluster.remote_queues.queue_frames import QueueFrameError
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Entry

KEPT_BYTES_MAX = 64 * 1024 * 1024
"""Limit of kept frames for queues not declared here yet: more than the credit of publishers."""
TAKEN_BYTES_MIN = 512 * 1024
"""After this number of bytes taken, for all queues together, a report is sent, even without
confirms. It is small compared with the bytes that the other node may send before the report."""
FRAME_WORK = 4
"""The work of a frame, without that of its messages (broker/runtime/turns.py)."""


class LocalQueues(Protocol):
    """The queues that live on this node. is_held: whether its publishers wait for the store."""

    turns: Turns
    addresses: Addresses

    @property
    def is_held(self) -> bool:
        """Whether publishers of this node wait for its store."""

    def find(self, vhost: str, name: str, identity: int) -> QueueClient | None:
        """The queue of this declaration; None if there is none, or none yet."""


class Awaited(NamedTuple):
    """A queue that is not declared here yet, and the frames for it."""

    asked: frames.OpenQueue
    kept: list[bytes]


class QueueHost(Flushable):
    """The queues that one other node uses. Hosted queues use it as their `Host`."""

    def __init__(self, peer: Peer, local: LocalQueues) -> None:
        self.peer = peer
        self.addresses = local.addresses
        self.consumers: dict[int, HostedConsumer] = {}
        super().__init__()
        self._local = local
        self._queues: dict[int, HostedQueue] = {}
        self._awaited: dict[int, Awaited] = {}
        self._awaited_at_last_look: frozenset[int] = frozenset()
        self._kept_bytes = 0
        self._reporting: dict[HostedPublishes, None] = {}
        self._untold: dict[HostedPublishes, None] = {}
        self._untold_bytes = 0
        self._waiting: dict[HostedPublishes, None] = {}
        self._handlers: dict[int, Callable[[int, bytes], object]] = {
            frames.PUBLISH: self._publish,
            frames.SETTLE: self._settle,
            frames.ASK: self._ask,
        }

    def __repr__(self) -> str:
        return f"<QueueHost for {self.peer.name}>"

    @property
    def now_ms(self) -> int:
        """The time of this round; 0 if the other node does not take it (`RunWriter.deliver`)."""
        return self._local.turns.now_ms if EXPIRY_FEATURE in self.peer.features else 0

    @property
    def is_held(self) -> bool:
        """Whether publishers of this node wait for its store."""
        return self._local.is_held

    # Frames

    def received(self, kind: int, payload: bytes) -> None:
        """Handle a frame from the client's node. Raises QueueFrameError and RunError."""
        self._local.turns.work_left -= FRAME_WORK
        if kind == frames.CREDIT:
            self._grant(payload)
        elif kind == frames.OPEN:
            self._open(payload)
        elif kind == frames.CLOSE:
            self._close(payload)
        elif kind == frames.FIGURES:
            self._send_counts(payload)
        elif kind in self._handlers:
            self._handle(kind, payload)
        else:
            raise QueueFrameError(f"a frame of the unknown kind {kind}")

    def _handle(self, kind: int, payload: bytes) -> None:
        """Handle a frame that begins with the number of a queue."""
        (number,) = frames.fields(frames.NUMBER, payload)
        awaited = self._awaited.get(number)
        if awaited is None:
            self._handlers[kind](number, payload)
            return
        self._kept_bytes += len(payload)
        if self._kept_bytes > KEPT_BYTES_MAX:
            raise QueueFrameError(f"{self._kept_bytes} bytes for queues that are not declared here")
        awaited.kept.append(payload)

    def _queue(self, number: int) -> HostedQueue:
        hosted = self._queues.get(number)
        if hosted is None:
            raise QueueFrameError(f"queue number {number} is not open")
        return hosted

    def _open(self, payload: bytes) -> None:
        (number,) = frames.fields(frames.NUMBER, payload)
        if number in self._queues or number in self._awaited:
            raise QueueFrameError(f"queue number {number} is in use")
        asked = frames.decoded(frames.decode_open, payload[frames.NUMBER.size :])
        queue = self._local.find(text_of(asked.vhost), text_of(asked.name), asked.identity)
        if queue is None:
            self._awaited[number] = Awaited(asked, [])
        else:
            self._queues[number] = HostedQueue(self, number, queue, asked)

    def declared(self, queue: QueueClient) -> None:
        """Perform the frames kept for a queue: it is declared here, or led here from now on."""
        for hosted in self._queues.values():
            if hosted.queue is queue:
                hosted.led_again()
        identity = queue.placement.identity
        for number, awaited in tuple(self._awaited.items()):
            if awaited.asked.identity == identity:
                del self._awaited[number]
                self._queues[number] = HostedQueue(self, number, queue, awaited.asked)
                for payload in awaited.kept:
                    self._kept_bytes -= len(payload)
                    self._handlers[payload[0]](number, payload)

    def look(self, *, is_apart: bool) -> None:
        """Give up the queues that are not declared here at two looks in a row.

        is_apart: the other node is on another side of a partition.
        """
        awaited = frozenset(self._awaited if is_apart else ())
        for number in awaited & self._awaited_at_last_look:
            self.peer.send(REMOTE_QUEUES_SERVICE, frames.NUMBER.pack(frames.LOST, number))
        self._awaited_at_last_look = awaited

    def replaced(self, before: QueueClient, queue: QueueClient) -> None:
        """Replace the object that stands for a queue."""
        for hosted in self._queues.values():
            if hosted.queue is before:
                hosted.queue = queue

    def left(self, queue: QueueClient) -> None:
        """Leave a queue that another node leads from now on."""
        for hosted in self._queues.values():
            if hosted.queue is queue:
                hosted.leave()

    def held_of(self, queue: QueueClient) -> Iterator[Entry]:
        """The entries of a queue that clients of the other node hold."""
        for hosted in self._queues.values():
            if hosted.queue is queue:
                yield from hosted.held

    def hold(self, queue: QueueClient, entries: Sequence[Entry]) -> int | None:
        """Take entries for delivered to the other node; returns the first tag.

        None if the other node has not opened the queue.
        """
        for hosted in self._queues.values():
            if hosted.queue is queue:
                return hosted.hold(entries)
        return None

    def _close(self, payload: bytes) -> None:
        (number,) = frames.fields(frames.NUMBER, payload)
        awaited = self._awaited.pop(number, None)
        if awaited is not None:
            self._kept_bytes -= sum(map(len, awaited.kept))
            return
        hosted = self._queue(number)
        del self._queues[number]
        self._end([hosted])

    def _publish(self, number: int, payload: bytes) -> None:
        self._queue(number).publish(payload)

    def _settle(self, number: int, payload: bytes) -> None:
        self._queue(number).settle(payload)

    def _ask(self, number: int, payload: bytes) -> None:
        _, asked = frames.fields(frames.ASK_START, payload)
        question = frames.decoded(frames.decode_question, payload[frames.ASK_START.size :])
        self._queue(number).ask(asked, question)

    def _grant(self, payload: bytes) -> None:
        number, messages, body_bytes = frames.fields(frames.CREDIT_FRAME, payload)
        consumer = self.consumers.get(number)
        # Its queue may have crashed, and the other node may not know that yet.
        if consumer is not None:
            consumer.grant(messages, body_bytes)

    def _send_counts(self, payload: bytes) -> None:
        asked = frames.decoded(frames.decode_figures_question, payload[1:])
        counts: frames.Counts = []
        for vhost, name, identity in asked.queues:
            queue = self._local.find(text_of(vhost), text_of(name), identity)
            if queue is not None:
                counts.append((identity, queue.figures.counts()))
        kind = bytes((frames.COUNTS,))
        self.peer.send(REMOTE_QUEUES_SERVICE, kind, frames.encode(counts))

    # Once a round

    def report_later(self, publishes: HostedPublishes, taken_bytes: int = 0) -> None:
        """Call `report` at the end of the round, and `report_taken` when much was taken."""
        self._reporting[publishes] = None
        self._untold[publishes] = None
        self._untold_bytes += taken_bytes
        self._local.turns.flush_later(self)

    def flush(self) -> None:
        """Send the outcomes of publishes in this round."""
        reporting, self._reporting = self._reporting, {}
        for publishes in reporting:
            publishes.report()
            if publishes.is_waiting:
                self._waiting[publishes] = None
        if self._untold_bytes >= TAKEN_BYTES_MIN:
            untold, self._untold, self._untold_bytes = self._untold, {}, 0
            for publishes in untold:
                publishes.report_taken()

    def resume(self) -> None:
        """Report bytes as taken again: the store no longer holds back publishers."""
        waiting, self._waiting = self._waiting, {}
        for publishes in waiting:
            publishes.resume()

    def drained(self) -> None:
        """Let queues deliver: the link has room again."""
        for consumer in tuple(self.consumers.values()):
            consumer.resume()

    # Ending

    def release(self) -> None:
        """Release all queues: the link is down (QH2)."""
        self._awaited.clear()
        queues, self._queues = self._queues, {}
        self._end(list(queues.values()))

    def _end(self, queues: list[HostedQueue]) -> None:
        """End queues: consumers leave all before an entry is requeued (`Channel.release`)."""
        giving_back = [hosted.release() for hosted in queues]
        what = f"giving back what {self.peer.name} held"
        LongWork(self._local.turns, what, _chained(giving_back)).start()


def _chained(parts: list[Iterator[int]]) -> Iterator[int]:
    for part in parts:
        yield from part
