"""Begins and ends the retries of a queue when its options change, and finds those that waited.

After a restart or a change of leaders, messages that waited (retries.py) are ready messages with a
time in their header. The queue is read once, in turns, and they are put aside, so that they are
counted and shown. A consumer that is faster does the same for the messages that it fetches. A
message that cannot be read is left to consumers.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.queues.dead_letters.dead_lettering import DeadLettering
from leveret.broker.queues.delivery.reading import read_all
from leveret.broker.queues.retries.retries import Retries, ReturningQueue, are_wanted
from leveret.broker.runtime.long_work import LongWork, Step
from leveret.storage.contract.backing_queue import Unreadable
from leveret.storage.messages.message import Entry

READ_BYTES = 256 * 1024
READ_WORK = 4
"""The work of looking at one message."""


class ConfiguredQueue(ReturningQueue, Protocol):
    """The queue."""

    @property
    def retries(self) -> Retries | None:
        """Its retries; None if it has none."""


def configured(
    queue: ConfiguredQueue, owner: QueueOwner, deaths: DeadLettering, retries: Retries | None
) -> Retries | None:
    """The retries of a queue with its present options; None if they ask for none.

    retries: those that it has had so far.
    """
    options = queue.options
    if retries is not None:
        retries.configure(options)
        return None if retries.is_idle and not are_wanted(options) else retries
    if not are_wanted(options):
        return None
    retries = Retries(queue, owner, deaths)
    retries.configure(options)
    if queue.may_redeliver and queue.backing.ready_count:
        end = max([end for _, end in queue.backing.given_positions()], default=0)
        work = LongWork(
            owner.turns, f"finding the retries of {queue!r}", _Search(queue, end).steps()
        )
        owner.turns.wake(work)
    return retries


class _Search:
    """Reads the messages below the position `end` (`ReadyReader`)."""

    def __init__(self, queue: ConfiguredQueue, end: int) -> None:
        self._queue = queue
        self._end = end
        self._position = 0

    def steps(self) -> Iterator[Step]:
        """Each step reads a piece of the queue, or waits for the disk."""
        if not self.wants_more:
            return
        cursor = self._queue.backing.cursor()
        try:
            yield from read_all(self, cursor, READ_BYTES, READ_WORK)
        except Unreadable:
            return
        finally:
            cursor.close()

    @property
    def wants_more(self) -> bool:
        """Whether there may be more of them, and the queue still has retries."""
        queue = self._queue
        return self._position < self._end and queue.retries is not None and not queue.is_deleted

    def read(self, entries: Sequence[Entry]) -> None:
        """Put those of these aside that wait."""
        self._position = self._queue.backing.position_of(entries[-1]) + 1
        retries = self._queue.retries
        if retries is not None:
            retries.found(entries)
