"""Browsing a classic queue, and taking messages from anywhere in it, for operators.

Browsing does not change the queue. Taking makes messages unacked and is counted, as with basic.get:
the caller settles them, or puts them back without the redelivered flag, since no client has seen
them. Both run after the deliveries that the queue's next turn would make, so that waiting consumers
are served first.

The name of a message is its position in the queue (`BackingQueue.position_of`), as text. It is
valid while the message is in the queue.
"""

from collections.abc import Sequence

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.waiting_retries import (
    ChosenRetries,
    WaitingRetries,
    WaitingRetry,
)
from leveret.broker.queues.delivery.reading import read_on
from leveret.broker.runtime.pending import Answer
from leveret.storage.contract.backing_queue import Cursor
from leveret.storage.messages.message import Entry

NAME_DIGITS_MAX = 20


class Inspection:
    """The inspection of one queue."""

    def __init__(self, queue: ClassicQueue) -> None:
        self.queue = queue

    def cursor(self, position: int = 0) -> Cursor:
        """A cursor that reads from a position on. The caller must close it."""
        self.queue.settle_deliveries()
        return self.queue.backing.cursor(position)

    async def find(self, name: str) -> Entry | None:
        """The ready message of this name, left where it is. Raises Unreadable."""
        if not _is_name(name):
            return None
        cursor = self.cursor(int(name))
        try:
            found = await read_on(cursor, 1)
        finally:
            cursor.close()
        return next((entry for entry in found[:1] if self.name_of(entry) == name), None)

    def name_of(self, entry: Entry) -> str:
        """The name of a message."""
        return str(self.queue.backing.position_of(entry))

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """Take those of the messages read by a cursor that are ready, in queue order.

        They become unacked.
        """
        queue = self.queue
        if queue.is_deleted:
            return []
        queue.settle_deliveries()
        taken = queue.backing.take(entries)
        queue.counts.got += len(taken)
        queue.note_left(taken)
        queue.note_taken(taken)
        return taken

    @property
    def retries(self) -> WaitingRetries:
        """The messages that wait for their retry."""
        return RetriesOfQueue(self.queue)

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Return taken messages to their positions, ready, without the redelivered flag."""
        queue = self.queue
        if entries and not queue.is_deleted:
            queue.backing.requeue(entries, redelivered=False)
            queue.note_requeued(entries)
            queue.wake()


class RetriesOfQueue:
    """The `WaitingRetries` of a classic queue, which answers at once."""

    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue

    @property
    def count(self) -> int:
        """How many there are."""
        return self._queue.waiting_count

    def first(self, count_max: int, answer: Answer[list[WaitingRetry]]) -> None:
        """Answer with the first ones."""
        retries = self._queue.retries
        answer.give([] if retries is None else retries.listed(count_max))

    def end(self, chosen: ChosenRetries, is_discarded: bool, answer: Answer[int]) -> None:
        """Have messages delivered now, or drop them."""
        retries = self._queue.retries
        answer.give(0 if retries is None else retries.end_waiting(chosen, is_discarded))


def _is_name(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= NAME_DIGITS_MAX
