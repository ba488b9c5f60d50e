"""The dead letters that a quorum queue keeps until they are confirmed (strategy at-least-once).

Promise: a message that dies is, at any moment and after a crash, in the queue, among its dead
letters, or safe in every queue that it was routed to. It may be in two of these places.

Not promised: that a letter arrives once, or in order with letters that are published again.

Mechanism: the letters are a backing queue of their own, beside those of the queue's messages and
under the same storage id. A message that dies is published to it and taken out of the queue in the
same batch of the log. Its properties, as they are stored, have a header with the reason of its
death. A worker takes letters, up to its prefetch limit, and settles them when they are confirmed.
Letters that were taken when the node stops are taken again after the start.

Letters count as messages of the queue (`messages_dlx`) and for its limits. They are dropped with
the queue, and when policies or arguments ask for another strategy; a purge leaves them.

Source: RabbitMQ's `rabbit_fifo_dlx`.
"""

import logging
from typing import NamedTuple, Protocol

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.contract.retained_dead_letters import (
    DeadLetterWorker,
    RetainedDeadLetter,
)
from leveret.broker.queues.delivery.dispatch import ConsumerRing
from leveret.broker.queues.delivery.failed_reads import FailedReads
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.names import QUEUE, resource
from leveret.storage.contract.backing_queue import BackingQueue, Unreadable
from leveret.storage.messages.message import Entry, Header, Message
from leveret.storage.messages.message_run import run_of

DEATH = "x-leveret-death"
KEEP_WORK = 50
"""The work of keeping a letter, in the units of broker/runtime/turns.py."""

logger = logging.getLogger("leveret.queue")


class Kept(NamedTuple):
    """The mark of a letter's properties, as they are stored.

    original: the properties that the message was published with. reason: why it died.
    """

    original: ContentHeader
    reason: str


class OwnedQueue(QueueClient, Protocol):
    """The queue that the letters belong to."""

    vhost_name: str


class RetainedDeadLetters:
    """The dead letters of one queue, for its worker.

    is_wanted: messages that die are kept here. reads: the failed reads of letters.
    """

    __slots__ = ("_backing", "_owner", "_queue", "_taken", "_worker", "is_wanted", "reads")

    def __init__(self, queue: OwnedQueue, owner: QueueOwner) -> None:
        self._queue = queue
        self._owner = owner
        self._taken: dict[int, Entry] = {}
        self._backing: BackingQueue | None = None
        self._worker: DeadLetterWorker | None = None
        self.reads: FailedReads | None = None
        self.is_wanted = False
        if owner.has_letters(queue):
            self._open().wake()

    def _open(self) -> DeadLetterWorker:
        """The backing queue and the worker exist from the first letter on."""
        if self._worker is None:
            queue, owner = self._queue, self._owner
            self._backing = owner.make_letters_backing(queue)
            self._worker = owner.make_dead_letter_worker(queue, self)
            what = f"the dead letters of {resource(QUEUE, queue.name, queue.vhost_name)}"
            ring, wake = ConsumerRing(False, False), self._worker.wake
            self.reads = FailedReads(owner.clock, what, self._backing, ring, wake)
        return self._worker

    # Figures for management

    @property
    def count(self) -> int:
        """The number of letters, including those that were taken."""
        backing = self._backing
        return 0 if backing is None else backing.ready_count + backing.unacked_count

    @property
    def body_bytes(self) -> int:
        """The bytes of their bodies."""
        backing = self._backing
        return 0 if backing is None else backing.ready_bytes + backing.unacked_bytes

    # The queue's side

    def set_wanted(self, is_wanted: bool) -> None:
        """Set whether messages that die are retained. If not, the retained ones are dropped."""
        if self.is_wanted and not is_wanted and self.count:
            self._drop()
        self.is_wanted = is_wanted
        if self._worker is not None:
            self._worker.look_again()

    def add(self, message: Message, reason: str) -> None:
        """A message has died. It is given as it was published."""
        worker, backing = self._open(), self._backing
        assert backing is not None, "a worker has a backing queue"
        self._owner.turns.work_left -= KEEP_WORK
        self._owner.note_kept(self._queue, reason, 1)
        backing.publish(run_of([_kept(message, reason)]), 0)
        worker.wake()

    def _drop(self) -> None:
        """Drop all letters, as `rabbit_fifo_dlx:switch_from` does when the strategy changes."""
        worker, backing = self._open(), self._backing
        assert backing is not None, "a worker has a backing queue"
        logger.info(
            "%r no longer has the dead-letter strategy at-least-once: its %d retained dead "
            "letters, with bodies of %d bytes, are dropped",
            self._queue, self.count, self.body_bytes,
        )  # fmt: skip
        worker.forget()
        _, freeing = backing.purge()
        taken, self._taken = self._taken, {}
        backing.ack(list(taken.values()))
        LongWork(self._owner.turns, f"dropping dead letters of {self._queue!r}", freeing).start()

    def close(self) -> None:
        """Release everything but data on disk, because the node stops or the queue is deleted."""
        self.is_wanted = False
        self._taken.clear()
        if self._worker is not None and self.reads is not None:
            self._worker.close()
            self.reads.close()
            # The worker and the reads refer to the letters: breaking these cycles frees all three.
            self._worker = self.reads = None

    def delete(self) -> None:
        """Delete the letters of a deleted queue. Call `close`, too."""
        if self._backing is not None:
            what = f"the deletion of dead letters of {self._queue!r}"
            LongWork(self._owner.turns, what, self._backing.delete()).start()

    # The worker's side

    @property
    def has_ready(self) -> bool:
        """Whether there are letters that were not taken."""
        return self._backing is not None and self._backing.ready_count > 0

    def take(self) -> RetainedDeadLetter | None:
        """The next letter; None if there is none, or if it cannot be read now."""
        backing, reads = self._backing, self.reads
        assert backing is not None, "a worker has a backing queue"
        assert reads is not None, "a backing queue may fail to read"
        while backing.ready_count and not reads.is_failing:
            try:
                entries = backing.fetch(1, ack_required=True)
            except Unreadable as error:
                reads.note(error)
                return None
            # A damaged message is lost, and none is returned.
            for entry in entries:
                self._taken[entry.position] = entry
                return _read(entry)
        return None

    def settle(self, letter: RetainedDeadLetter) -> None:
        """A letter that was taken is safe at its targets."""
        assert self._backing is not None, "a worker has a backing queue"
        self._backing.ack([self._taken.pop(letter.entry.position)])


class NoRetainedDeadLetters(RetainedDeadLetters):
    """The keeper of a queue that has ended: it keeps none. All ended queues share one object."""

    __slots__ = ()

    def __init__(self) -> None:
        self._taken = {}
        self._backing = self._worker = self.reads = None
        self.is_wanted = False

    def set_wanted(self, is_wanted: bool) -> None:
        """Do nothing."""


NO_RETAINED_DEAD_LETTERS = NoRetainedDeadLetters()


def _kept(message: Message, reason: str) -> Message:
    """A letter as it is stored."""
    header = message.header
    assert isinstance(header, ContentHeader), "messages are made with content headers"
    marked = header.replace(headers={**header.headers, DEATH: ("S", reason)})
    return _with(message, marked.marked(Kept(header, reason)))


def _read(entry: Entry) -> RetainedDeadLetter:
    message = entry.message
    header = message.header
    assert isinstance(header, ContentHeader), "messages are restored with content headers"
    kept = header.mark
    if isinstance(kept, Kept):
        return RetainedDeadLetter(entry, _with(message, kept.original), kept.reason)
    headers = dict(header.headers)
    _, reason = headers.pop(DEATH)
    return RetainedDeadLetter(
        entry, _with(message, header.replace(headers=headers or None)), reason
    )


def _with(message: Message, header: Header) -> Message:
    return Message(message.address, header, message.body, message.stored, message.number)
