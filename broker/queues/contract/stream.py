"""The interface of a stream to the stream protocol, beside that of all queues (queue_client.py).

A stream's messages are in chunks (storage/stream_log/chunks.py), which its clients send and get as
they are stored. The stream may be led by another node: a method that needs its leader takes an
`Answer`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from leveret.broker.queues.contract.offset_specification import OffsetSpecification
from leveret.broker.queues.contract.queue_kind import QueueKind
from leveret.broker.runtime.pending import Answer
from leveret.storage.stream_log.stored_chunks import StoredChunk

Chunk: TypeAlias = bytes | memoryview | StoredChunk
"""A chunk as clients get it: its bytes, or where they are in a file."""


class StreamEntries(NamedTuple):
    """Entries of one publisher, in the form of a chunk: at most 65,535, as a chunk can have.

    publisher: its name; empty if it has none. ids: the publishing ids of the entries, in increasing
    order; only for a publisher with a name, whose ids a stream stores once. filter_values: of the
    entries; empty if none has one. message_count: of all entries.
    """

    publisher: bytes
    ids: tuple[int, ...]
    filter_values: tuple[bytes, ...]
    message_count: int
    entries: list[bytes]


class StreamStats(NamedTuple):
    """Offsets of a stream; -1 where it has none.

    first_offset: of the first message. committed_chunk_offset: of the first message of the last
    chunk that readers may read. committed_offset: of the last message in it.
    """

    first_offset: int
    committed_chunk_offset: int
    committed_offset: int


class StreamReader(Protocol):
    """Reads the committed chunks of a stream in order, for one subscription.

    next_offset: of the next message that it reads. taken_ms: the time of the last chunk that was
    taken; 0 if none was. lag: how many messages are behind the last one that was taken.
    """

    next_offset: int
    taken_ms: int

    @property
    def lag(self) -> int:
        """How many committed messages it has not taken yet."""

    def take(self, chunks_max: int, bytes_max: int) -> Sequence[Chunk]:
        """The next chunks with messages; at least one if there are any now.

        They have neither filter nor trailer, as clients get them. If there are none, the user's
        `ready` is called when there are more, once.
        """

    def close(self) -> None:
        """Stop reading."""


class ReaderUser(Protocol):
    """What a reader tells its user."""

    def ready(self) -> None:
        """There are chunks to take."""

    def failed(self, error: Exception) -> None:
        """The reader has ended: what it reads is damaged, or the stream was deleted."""


class StreamUser(Protocol):
    """A connection that publishes to a stream, or reads it."""

    def stream_deleted(self, stream: "Stream") -> None:
        """The stream is deleted: publishers and subscriptions of it are gone."""


class GroupConsumer(Protocol):
    """A consumer in a group of single active consumers."""

    def update(self, is_active: bool) -> None:
        """It begins, or has to stop; then it calls `Stream.stopped`."""


class Stream(Protocol):
    """One stream, as the stream protocol uses it. Its `QueueClient` has these methods, too."""

    name: str
    kind: QueueKind
    is_deleted: bool

    def add_user(self, user: StreamUser) -> None:
        """Tell this user when the stream is deleted, until `remove_user`."""

    def remove_user(self, user: StreamUser) -> None:
        """The user no longer publishes or reads. Does nothing if it was not added."""

    def append(self, entries: StreamEntries, confirmed: Callable[[bool], object]) -> None:
        """Append entries, which are confirmed when a majority has them on disk.

        confirmed: called once, in the order of appends; with False if the stream is deleted first.
        """

    def open_reader(
        self, start: OffsetSpecification, filter_values: tuple[bytes, ...], match_unfiltered: bool,
        user: ReaderUser, answer: Answer[StreamReader], *, sends_files: bool = False,
    ) -> None:  # fmt: skip
        """Read from here on. With filter values, chunks that have none of them are left out.

        sends_files: the user can send a `StoredChunk` from its file.
        """

    def resolve_offset(self, start: OffsetSpecification, answer: Answer[int]) -> None:
        """The offset of the first message that a reader would get."""

    def stats(self, answer: Answer[StreamStats]) -> None:
        """The offsets of the stream."""

    def store_offset(self, name: bytes, offset: int) -> None:
        """Store the offset of a consumer under a name."""

    def stored_offset(self, name: bytes, answer: Answer[int | None]) -> None:
        """The offset that is stored under a name; None if there is none."""

    def sequence(self, publisher: bytes, answer: Answer[int]) -> None:
        """The last publishing id of a named publisher that is stored; 0 if there is none."""

    def join_group(self, name: bytes, partition: int, consumer: GroupConsumer) -> None:
        """Enter a group of single active consumers.

        partition: the number of the stream in its super stream; -1 if it is in none.
        """

    def leave_group(self, name: bytes, consumer: GroupConsumer) -> None:
        """Leave a group."""

    def stopped(self, name: bytes, consumer: GroupConsumer) -> None:
        """A consumer that was told to stop has stopped, and has stored its offset."""
