"""The interface between a queue and whatever keeps its messages.

A queue (broker/queues) knows consumers, limits and dead letters; a backing queue knows only the
order of messages and where they are kept: in memory alone, in the tiered store, or on other nodes
too. A wrapper that implements this interface around another backing queue adds replication
without the queue knowing.

An entry is in one of three states. Ready: published and not fetched; ready entries have an order.
Unacked: fetched, not yet settled; they still count as held. Gone: acked, dropped or purged.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from storage.message import Entry, Message


class Waiter(Protocol):
    """One who published, and waits until it is safe."""

    def confirm(self, sequence: int) -> None:
        """The run whose first message has this number is safe."""


class Head(NamedTuple):
    """The first ready entry of a priority. entry: None if it is on disk only."""

    priority: int
    position: int
    entry: Entry | None


class BackingQueue(Protocol):
    """The messages of one queue."""

    @property
    def ready_count(self) -> int:
        """Entries that are ready."""

    @property
    def ready_bytes(self) -> int:
        """The bytes of their bodies."""

    @property
    def unacked_count(self) -> int:
        """Entries that are fetched and not settled."""

    @property
    def unacked_bytes(self) -> int:
        """The bytes of their bodies."""

    @property
    def has_expiring(self) -> bool:
        """There may be entries that expire."""

    @property
    def next_position(self) -> int:
        """The position that the next message gets; of a priority queue, in a new priority."""

    def set_lazy(self, is_lazy: bool) -> None:
        """From now on messages are to be on disk rather than in memory, or not."""

    def publish(self, messages: list[Message], body_bytes: int, expires_at_ms: int) -> bool:
        """Append messages, in order; whether they will be safe only later (see `when_safe`).

        The messages are alike in address and properties, and the list is not changed any more.
        body_bytes: the sum of their bodies' sizes.
        """

    def when_safe(self, waiter: Waiter, sequence: int) -> None:
        """Confirm this sequence to the waiter when all published until now is safe."""

    def peek(self) -> Entry | None:
        """The first ready entry, left where it is; None if there is none."""

    def heads(self) -> list[Head]:
        """The first ready entry of each priority that has any, the highest first; nothing is read.

        A queue without priorities has one, 0.
        """

    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        """Take entries off the head: at least one if there is any, and up to `count`.

        If an ack is required they are unacked until settled, otherwise they are gone.
        """

    def drop(self) -> Entry:
        """Take the first ready entry off the head for good. There must be one."""

    def ack(self, entry: Entry) -> None:
        """An unacked entry is done with."""

    def requeue(self, entries: Iterable[Entry]) -> None:
        """Unacked entries become ready again, each at its old place, marked as redelivered."""

    def purge(self) -> int:
        """Drop every ready entry; how many there were."""

    def entries(self) -> Iterable[Entry]:
        """The ready entries in order, for those who only look."""

    def status(self) -> dict[str, Any]:
        """What it holds and where: see queue_status.py."""

    def delete(self) -> None:
        """The queue is gone: free all that is kept of it."""
