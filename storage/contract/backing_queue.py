"""The interface between a queue and the store of its messages.

A queue (broker/queues) knows consumers, limits and dead letters. A backing queue knows the order of
the messages and where they are kept: in memory (transient_queue.py), in memory and on disk
(tiered_queue.py), by priority (broker/queues/classic/priority.py). A decorator that implements this
interface around another backing queue, and broadcasts each call, is a mirrored queue. The interface
is that of RabbitMQ's `rabbit_backing_queue`, with runs in place of single messages.

An entry is in one of three states. Ready: published and not fetched; ready entries have an order.
Unacked: fetched or taken, not yet settled; they still count as held. Gone: acked, dropped or
purged.

**Promises**, for every implementation (tests/storage/backing_contract runs on all of them)

BQ1  Ready entries are fetched in the order of their positions. A position is given once, and the
    positions of one priority grow.
BQ2  `fetch(n)` returns exactly the first min(n, ready_count) entries, in memory or on disk. So
    the same calls, in the same order, take the same messages from two backing queues that began
    alike: a mirror that applies the leader's broadcasts stays equal to it.
BQ3  A requeued entry returns to its old position.
BQ4  Entries are recognised by position, never by object identity. A mirror that fetched the same
    messages settles them with entries of its own, which it keeps by position (`position_of`).
BQ5  Each call updates the counts before it returns. Later writes and reads do not change them,
    except when the checksum of a message on disk is wrong, or its file is gone, and it is lost.
BQ6  A cursor changes nothing, and reads no more from disk than requested.
BQ7  A call that raises `Unreadable` takes nothing. Only calls that may read raise it: `peek`,
    `fetchable`, `unexpired`, `fetch`, `drop`, `take_at` and `Cursor.read`. Each may raise
    `BeingRead`.

**Not promised.** A message that was published without an error is not safe yet: see `when_safe`.
When a message moves between memory and disk is undefined. There is no locking: all calls
are made in the event loop's thread, and none waits for the disk.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from mypy_extensions import mypyc_attr

from leveret.storage.contract.queue_status import StorageCounts
from leveret.storage.messages.message import Entry, Message
from leveret.storage.messages.message_run import MessageRun


class Unreadable(Exception):
    """A message on disk cannot be read now: no file handle is free, or the disk reports an error.

    It stays in the queue, which can be read again once the cause is gone. The text names the file.
    """


class BeingRead(Unreadable):
    """A thread is reading the file of the next message from disk.

    when_done: registers a callback for the end of the read, also of a failed one. A caller that
    asks again in the callback gets the message; a later call starts another read.
    """

    def __init__(self, what: str, when_done: Callable[[Callable[[], object]], object]) -> None:
        super().__init__(f"{what} is being read")
        self.when_done = when_done


class Purged(NamedTuple):
    """The result of a purge. dropped: the number of entries. freeing: the steps of freeing their
    memory, which takes long for very many entries; each step yields its number of entries. Steps
    not taken are done when the iterator is freed.
    """

    dropped: int
    freeing: Iterator[int]


class Waiter(Protocol):
    """A publisher that waits until its messages are safe."""

    def confirm(self, first: int, holder: object) -> None:
        """The holder's run whose first message has this number is safe."""


class FirstReady(NamedTuple):
    """The first ready entry of a priority. entry: None if it is on disk only."""

    priority: int
    position: int
    entry: Entry | None


class Cursor(Protocol):
    """Reads the ready entries of a queue from a position on, and leaves them where they are.

    It may be kept for many turns of the event loop while the queue changes. Each read returns the
    entries that are ready at that time: gone entries are skipped; newly published ones are at the
    end; a requeued entry is returned if its position is not below `position`, and missed otherwise.
    In a priority queue, messages published with a higher priority than the cursor has
    reached are missed.

    position: the start of the next read, in the sense of `BackingQueue.position_of`.
    """

    @property
    def position(self) -> int:
        """The start of the next read."""

    def read(self, bytes_max: int) -> list[Entry]:
        """The next entries, in order; none if there are no more, for now.

        bytes_max: the limit of their memory, counting ENTRY_BYTES and the body of each. The last
        entry may exceed it, so at least one is returned if there is one. Messages on disk are read
        in blocks of at most 256 KiB or one run. A damaged message is skipped; it is reported when
        a fetch reaches it. If it raises Unreadable, the position is that of the unreadable message.
        """

    def close(self) -> None:
        """Close the files that are open for reading. The cursor must not be used afterwards."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BackingQueue:
    """The messages of one queue. The head of this file has the promises of all implementations.

    This is a class, not a Protocol: compiled code calls methods of a class directly, and looking up
    a Protocol's methods by name took a twentieth of the instructions for a single message.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def ready_count(self) -> int:
        """The number of ready entries."""

    @property
    @abstractmethod
    def ready_bytes(self) -> int:
        """The bytes of the bodies of ready entries."""

    @property
    @abstractmethod
    def unacked_count(self) -> int:
        """The number of entries that were fetched or taken, and are not settled."""

    @property
    @abstractmethod
    def unacked_bytes(self) -> int:
        """The bytes of the bodies of unacked entries."""

    @property
    @abstractmethod
    def has_expiring(self) -> bool:
        """Whether there may be entries that expire."""

    @abstractmethod
    def next_position_of(self, message: Message) -> int:
        """The `Entry.position` of this message if it is published next.

        Positions may be skipped: an empty queue may continue at a later one (but see `go_on_at`).
        """

    @abstractmethod
    def position_of(self, entry: Entry) -> int:
        """The position of an entry in this queue: unique, and growing in the order of fetching.

        `Entry.position`, except in a priority queue, where each priority counts from 0.
        """

    @abstractmethod
    def given_positions(self) -> list[tuple[int, int]]:
        """The (start, end) of the positions given, for each priority.

        A priority without messages so far may be missing.
        """

    @abstractmethod
    def go_on_at(self, position: int) -> None:
        """Have the next message of a priority get this position, in the sense of `position_of`.

        It is not below the next position; the positions between are skipped. From then on the
        queue itself skips no position of this priority. So a mirror's queue has the same positions
        as its leader's, even if one of the two is empty at times, or on disk.
        """

    @abstractmethod
    def set_lazy(self, is_lazy: bool) -> None:
        """Set whether messages are kept on disk rather than in memory from now on."""

    @abstractmethod
    def set_loose(self, is_loose: bool) -> None:
        """Set whether entries are often taken from the middle, with `take_at`, from now on."""

    # Publishing

    @abstractmethod
    def publish(self, run: MessageRun, expires_at_ms: int) -> bool:
        """Append messages, in order. Returns whether they become safe only later (`when_safe`).

        expires_at_ms: on the broker's clock, 0 if they do not expire.
        """

    def publish_each(self, run: MessageRun, expire_at_ms: list[int]) -> bool:
        """Append messages that expire at different times, in order. Returns as `publish` does."""
        is_later = False
        number, messages = run.number, run.messages
        for place in range(len(messages)):
            message = messages[place]
            part = MessageRun([message], len(message.body), run.sender, number + place)
            is_later |= self.publish(part, expire_at_ms[place])
        return is_later

    @abstractmethod
    def when_safe(self, waiter: Waiter, first: int, holder: object) -> None:
        """Confirm the holder's run to the waiter when all messages published so far are safe.

        first: the publisher's number of the run's first message.
        """

    # Taking

    @abstractmethod
    def peek(self) -> Entry | None:
        """The first ready entry, without taking it; None if there is none. May read from disk."""

    @abstractmethod
    def heads(self) -> list[FirstReady]:
        """The first ready entry of each priority that has any, the highest first; reads nothing.

        A queue without priorities has one priority, 0.
        """

    @abstractmethod
    def firsts(self) -> list[int]:
        """The position of the first ready entry of each priority, in the sense of `position_of`.

        Reads nothing.
        """

    @abstractmethod
    def fetchable(self, count: int) -> int:
        """How many of the next `count` entries can be fetched with one read from disk at most.

        At least 1 if `count` is and an entry is ready. A caller that must bound its reads in one
        turn of the event loop fetches no more than this. The call itself may do that one read.
        """

    @abstractmethod
    def unexpired(self, count: int, now_ms: int) -> int:
        """How many of the next `count` entries, at least, precede the first that has expired.

        At least 1 if `count` is and the first entry has not expired; 0 if it has. now_ms: entries
        with an earlier expiry have expired. The call may read the first entry.
        """

    @abstractmethod
    def fetch(self, count: int, ack_required: bool) -> list[Entry]:
        """Take the first min(count, ready_count) entries, in order (BQ2).

        If an ack is required they are unacked until settled, otherwise they are gone. A damaged
        message is lost and no longer counts as ready; intact ones are returned. Raises Unreadable
        if the first one cannot be read; if a later one cannot, the entries before it are returned.
        """

    @abstractmethod
    def drop(self) -> Entry | None:
        """Remove the first ready entry and return it; None if there is none."""

    @abstractmethod
    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """Take entries that a cursor has read, in the order of `position_of`.

        Entries that are no longer ready are skipped. The returned entries are unacked until
        settled. Nothing is read. Unlike a fetch it takes time in proportion to the entries in
        memory, and is for management.
        """

    @abstractmethod
    def take_at(self, positions: Sequence[int]) -> list[Entry]:
        """Take the entries at these positions, in the sense of `position_of`, which are in order.

        Positions of entries that are not ready are skipped. The returned entries, in order, are
        unacked until settled. Messages that are on disk only are read; damaged ones are skipped.
        """

    @abstractmethod
    def ready_between(self, start: int, end: int) -> list[Entry] | None:
        """The ready entries at positions from `start` up to, not including, `end`, in the sense of
        `position_of`, in no order; they stay where they are.

        Both positions are of one priority. None if some entries are on disk only: nothing is read.
        """

    # Settling

    @abstractmethod
    def ack(self, entries: Sequence[Entry]) -> None:
        """Settle unacked entries: they are gone."""

    @abstractmethod
    def requeue(self, entries: Sequence[Entry], redelivered: bool = True) -> None:
        """Make unacked entries ready again, each at its old position (BQ3).

        redelivered: mark them as redelivered. False if no client has received them.
        """

    @abstractmethod
    def purge(self) -> Purged:
        """Drop all ready entries at once; their memory is freed in steps."""

    # Inspecting

    @abstractmethod
    def cursor(self, position: int = 0) -> Cursor:
        """A cursor that reads from this position on (see `position_of`)."""

    @abstractmethod
    def counts(self) -> StorageCounts:
        """The numbers of messages that the queue holds, by place."""

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """RabbitMQ's `backing_queue_status`: see queue_status.py."""

    @abstractmethod
    def delete(self) -> Iterator[int]:
        """Remove the files of the deleted queue. Returns the steps of freeing its memory, as in
        `Purged`.
        """
