"""Reads the committed chunks of a stream in order, from the member on this node or another one.

A reader knows its place by the offset of the next message, so it may go on with another member. In
the log on this node it also knows the entry of the next chunk. The chunks of a read are kept until
they are taken. The next read begins when the user wants more, so a user that takes nothing costs no
memory. Chunks whose filter has none of the wanted values are skipped, where the log is. A user that
sends files gets large chunks as places in the log's files.

A reader that retention has overtaken goes on with the first message that is left (STR6).
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from leveret.broker.queues.contract.queue_client import UNLIMITED
from leveret.broker.queues.contract.stream import Chunk, ReaderUser
from leveret.broker.queues.contract.stream_arguments import StreamFilter
from leveret.cluster.streams.client.member_questions import (
    Chunks,
    MemberQuestionError,
    ReadChunks,
    decode_chunks,
    encode,
)
from leveret.cluster.streams.client.stream_group import OwnLog
from leveret.cluster.streams.machine.filters import may_have
from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import StoreError
from leveret.storage.stream_log.chunks import (
    USER,
    ChunkError,
    ChunkHead,
    filter_of,
    for_clients,
    read_head,
)
from leveret.storage.stream_log.stored_chunks import StoredChunk
from leveret.storage.stream_log.stream_log import StreamLog

READ_BYTES: Final = 512 * 1024
"""The size of one read, in bytes."""
_UNKNOWN: Final = -1


class FetchedChunk(NamedTuple):
    """A chunk that was read, or found in a file."""

    head: ChunkHead
    chunk: bytes | StoredChunk


class ReadStream(Protocol):
    """The stream that is read (stream_readers.py)."""

    @property
    def own_log(self) -> OwnLog | None:
        """The member on this node; None if it has none."""

    @property
    def end_offset(self) -> int:
        """The offset after the last committed message that is known here."""

    def await_chunks(self, reader: "ChunkReader") -> None:
        """Call `committed` when chunks are committed on this node."""

    def ask_for_chunks(self, reader: "ChunkReader", question: bytes) -> None:
        """Ask a member. Calls `answered` with the result."""

    def took_chunks(self, chunks: Chunks) -> None:
        """Chunks of another node have arrived."""

    def forget(self, reader: "ChunkReader") -> None:
        """A reader has ended."""


class ChunkReader:
    """The `StreamReader` of one subscription. next_offset: that of the next message to take."""

    __slots__ = (
        "_entry", "_fetched", "_filter", "_has_ended", "_is_reading", "_is_wanted", "_last", "_log",
        "_sends_files", "_stream", "_user", "next_offset", "taken_ms",
    )  # fmt: skip

    def __init__(
        self, stream: ReadStream, offset: int, wanted: StreamFilter, user: ReaderUser,
        *, sends_files: bool = False,
    ) -> None:  # fmt: skip
        self.next_offset = offset
        self.taken_ms = 0
        self._stream = stream
        self._filter = wanted
        self._user = user
        self._sends_files = sends_files
        self._fetched: deque[FetchedChunk] = deque()
        self._log: StreamLog | None = None
        self._entry = self._last = _UNKNOWN
        self._is_reading = self._is_wanted = self._has_ended = False

    @property
    def lag(self) -> int:
        """How many committed messages it has not taken yet."""
        return max(0, self._stream.end_offset - self.next_offset)

    def take(self, chunks_max: int, bytes_max: int) -> Sequence[Chunk]:
        """The next chunks as clients get them. See `StreamReader.take`."""
        return [
            for_clients(chunk, head) if isinstance(chunk, bytes) else chunk
            for head, chunk in self._take(chunks_max, bytes_max)
        ]

    def take_stored(self, chunks_max: int, bytes_max: int = UNLIMITED) -> list[bytes]:
        """The next chunks as they are stored, for a user that sends no files. See `take`."""
        chunks: list[bytes] = []
        for _, chunk in self._take(chunks_max, bytes_max):
            assert isinstance(chunk, bytes), "nothing was found in a file"
            chunks.append(chunk)
        return chunks

    def _take(self, chunks_max: int, bytes_max: int) -> list[FetchedChunk]:
        taken: list[FetchedChunk] = []
        while len(taken) < chunks_max and bytes_max > 0:
            if not self._fetched and not self._fetch():
                break
            fetched = self._fetched[0]
            bytes_max -= fetched.head.size
            if bytes_max < 0 and taken:
                break
            self._fetched.popleft()
            self.next_offset, self.taken_ms = fetched.head.next_offset, fetched.head.time_ms
            taken.append(fetched)
        self._is_wanted = not taken
        return taken

    def close(self) -> None:
        """Stop reading."""
        self._has_ended = True
        self._fetched.clear()
        self._log = None
        self._stream.forget(self)

    def failed(self, error: Exception) -> None:
        """End with an error, which the user is told."""
        if not self._has_ended:
            self.close()
            self._user.failed(error)

    # Reading

    def _fetch(self) -> bool:
        """Fetch chunks, if that is possible at once; returns whether there are any."""
        if self._is_reading or self._has_ended:
            return False
        own = self._stream.own_log
        if own is None:
            self._ask()
        else:
            self._read(own)
        return bool(self._fetched)

    def _read(self, own: OwnLog) -> None:
        """Fetch chunks from the log on this node."""
        log = own.log
        if log is not self._log:
            self._log, self._entry = log, _UNKNOWN
        try:
            while not self._fetched and not self._has_ended:
                if self._entry == _UNKNOWN:
                    self._entry = self._first_entry(own)
                if self._entry < log.first_entry:
                    self._overtaken(log)
                if self._entry > own.committed_entry:
                    self._stream.await_chunks(self)
                    return
                if self._last < self._entry:
                    self._last = own.committed_entry
                read = log.find if self._sends_files else log.read
                self._took(read(self._entry, self._last, READ_BYTES))
                self._last = _UNKNOWN
        except BeingRead as reading:
            # The same read is asked for again when it is done, although more is written meanwhile.
            self._last = min(self._last, log.last_written)
            self._is_reading = True
            reading.when_done(self._read_done)
        except (StoreError, KeyError) as error:
            self._read_failed(log, error)

    def _first_entry(self, own: OwnLog) -> int:
        """The entry of the next message. Raises BeingRead and StoreError."""
        if self.next_offset >= own.committed_offset:
            return own.committed_entry + 1
        return own.log.find_entry(self.next_offset)

    def _overtaken(self, log: StreamLog) -> None:
        """Go on with the first message that is left."""
        self._entry, self._last = log.first_entry, _UNKNOWN
        self.next_offset = max(self.next_offset, log.first_offset)

    def _read_done(self) -> None:
        """A thread has read: take the chunks at once, since they are not kept."""
        self._is_reading = False
        if self._fetch():
            self._tell_ready()

    def _read_failed(self, log: StreamLog, error: Exception) -> None:
        if self._entry == _UNKNOWN:
            is_gone = self.next_offset < log.first_offset
        else:
            is_gone = self._entry < log.first_entry
        if is_gone:
            # The segment was removed while a thread read it.
            self._overtaken(log)
            self._stream.await_chunks(self)
            self._tell_ready()
        else:
            self.failed(error)

    def _took(self, chunks: Sequence[bytes | StoredChunk]) -> None:
        values, matches_unfiltered = self._filter
        for chunk in chunks:
            self._entry += 1
            head = read_head(chunk) if isinstance(chunk, bytes) else chunk.head
            if head.kind != USER or head.next_offset <= self.next_offset:
                continue
            if values:
                bits = filter_of(chunk, head) if isinstance(chunk, bytes) else chunk.filter_bits
                if not may_have(bits, values, match_unfiltered=matches_unfiltered):
                    if not self._fetched:
                        self.next_offset = head.next_offset
                    continue
            self._fetched.append(FetchedChunk(head, chunk))

    def _ask(self) -> None:
        """Ask a member on another node for chunks."""
        self._is_reading = True
        values, matches_unfiltered = self._filter
        question = ReadChunks(self.next_offset, READ_BYTES, values, matches_unfiltered)
        self._stream.ask_for_chunks(self, encode(question))

    def answered(self, data: bytes) -> None:
        """A member has answered."""
        self._is_reading = False
        if self._has_ended:
            return
        try:
            chunks = decode_chunks(data)
            fetched = [FetchedChunk(read_head(chunk), chunk) for chunk in chunks.chunks]
        except (MemberQuestionError, ChunkError) as error:
            self.failed(error)
            return
        self._stream.took_chunks(chunks)
        self._fetched += fetched
        if not self._fetched:
            self.next_offset = max(self.next_offset, chunks.next_offset)
        if self._fetched or self._is_wanted:
            self._tell_ready()

    def retry(self) -> None:
        """A question was not answered: another member may answer."""
        self._is_reading = False
        self._tell_ready()

    def committed(self) -> None:
        """Chunks were committed on this node, or it has another member, or none."""
        self._tell_ready()

    def _tell_ready(self) -> None:
        if self._is_wanted and not self._has_ended:
            self._is_wanted = False
            self._user.ready()
