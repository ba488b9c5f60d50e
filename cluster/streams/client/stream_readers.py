"""The readers of a stream on one node, and what other nodes without a member ask this one.

With a member on this node, readers read its log; without one they ask other nodes. A question that
is lost is asked again when there is a leader, or after a while.

Replicas are asked for chunks, so that readers cost the leader nothing. One that has none for a
while may be behind, or cut off from the leader: then the leader is asked for the same offset.
"""

from collections.abc import Callable
from typing import Final

from leveret.broker.amqp.errors import Fault, internal_error
from leveret.broker.queues.contract.offset_specification import OffsetSpecification
from leveret.broker.queues.contract.stream import ReaderUser
from leveret.broker.queues.contract.stream_arguments import StreamFilter
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.pending import Answer
from leveret.cluster.streams.client.chunk_reader import ChunkReader
from leveret.cluster.streams.client.member_questions import (
    HELD_MS,
    AskStats,
    Chunks,
    MemberQuestion,
    MemberQuestionError,
    Offsets,
    ReadChunks,
    ResolveOffset,
    Stats,
    decode_offset,
    decode_stats,
    encode,
)
from leveret.cluster.streams.client.offset_search import find_last_chunk, find_offset
from leveret.cluster.streams.client.stream_group import OwnLog, StreamGroup
from leveret.storage.disk.disk import StoreError

RETRY_MS: Final = 500
"""The delay before a lost question is asked again, if there is a leader."""
CHUNKS_MAX: Final = 512
"""The number of chunks of one read of a log."""

BytesAnswer = Callable[[bytes | None], object]


class StreamReaders:
    """The readers of one stream on this node. group: replaced when the stream has ended."""

    def __init__(self, group: StreamGroup, clock: Clock) -> None:
        self.group: StreamGroup = group
        self._clock = clock
        self._readers: dict[ChunkReader, None] = {}
        self._waiting: dict[ChunkReader, None] = {}
        self._retries: list[Callable[[], object]] = []
        self._watched: OwnLog | None = None
        self._known = Offsets(0, 0)
        self._asked_replicas: dict[ChunkReader, int] = {}
        """The offset of the last question to a replica."""

    # What readers read

    @property
    def own_log(self) -> OwnLog | None:
        """The member on this node; None if it has none."""
        return self.group.own_log

    @property
    def offsets(self) -> Offsets:
        """The offsets of the stream; without a member here, the last ones that were told."""
        own = self.group.own_log
        if own is None:
            return self._known
        return Offsets(min(own.log.first_offset, own.committed_offset), own.committed_offset)

    @property
    def end_offset(self) -> int:
        """The offset after the last committed message that is known here."""
        return self.offsets.end

    @property
    def count(self) -> int:
        """The number of readers."""
        return len(self._readers)

    def open(
        self, offset: int, wanted: StreamFilter, user: ReaderUser, *, sends_files: bool = False
    ) -> ChunkReader:
        """A reader from this offset on."""
        reader = ChunkReader(self, offset, wanted, user, sends_files=sends_files)
        self._readers[reader] = None
        self._watch()
        return reader

    def forget(self, reader: ChunkReader) -> None:
        """A reader has ended."""
        self._readers.pop(reader, None)
        self._asked_replicas.pop(reader, None)
        self._waiting.pop(reader, None)
        if not self._readers and self._watched is not None:
            self._watched.watch(None)
            self._watched = None

    def await_chunks(self, reader: ChunkReader) -> None:
        """Call `committed` when chunks are committed on this node."""
        self._waiting[reader] = None

    def _watch(self) -> None:
        own = self.group.own_log
        if self._readers and own is not self._watched:
            self._watched = own
            if own is not None:
                own.watch(self._committed)

    def _committed(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for reader in waiting:
            reader.committed()

    def member_changed(self) -> None:
        """Read the other member that this node has, or ask other nodes."""
        self._watch()
        self._committed()

    def leader_found(self) -> None:
        """There is a leader: ask the questions that could not be asked."""
        retries, self._retries = self._retries, []
        for retry in retries:
            retry()

    def close(self, error: Exception) -> None:
        """The stream has ended: so have all readers."""
        for reader in list(self._readers):
            reader.failed(error)
        self.leader_found()

    # Questions to other nodes

    def ask_for_chunks(self, reader: ChunkReader, question: bytes) -> None:
        """Ask a member for chunks; calls `answered` in the end, or `retry`."""
        replicas, offset = self.group.replicas, reader.next_offset
        if not replicas or self._asked_replicas.pop(reader, None) == offset:
            self._ask(question, reader.answered, reader.retry)
            return
        self._asked_replicas[reader] = offset

        def take(data: bytes | None) -> None:
            if data is not None:
                reader.answered(data)
            else:
                self._clock.call_later_ms(0, reader.retry)

        node = replicas[hash(reader) % len(replicas)]
        self.group.ask_member(node, question, take)

    def took_chunks(self, chunks: Chunks) -> None:
        """Chunks of another node have arrived."""
        self._known = chunks.offsets

    def _ask(
        self, question: bytes, answered: Callable[[bytes], object], retry: Callable[[], object]
    ) -> None:
        """Ask the leader's node. retry: called if the question has to be asked again."""

        def take(data: bytes | None) -> None:
            if data is not None:
                answered(data)
            else:
                self.retry(retry)

        if self.group.leader:
            self.group.ask_member(self.group.leader, question, take)
        else:
            self.retry(retry)

    def retry(self, ask: Callable[[], object]) -> None:
        """Ask again when there is a leader, or after a while."""
        if self.group.leader:
            self._clock.call_later_ms(RETRY_MS, ask)
        else:
            self._retries.append(ask)

    def resolve(self, start: OffsetSpecification, answer: Answer[int]) -> None:
        """Answer with the offset of the first message that a reader gets. Refused with 541."""
        own = self.group.own_log
        if own is not None:
            found: Answer[int] = Answer()
            find_offset(own, start, found)
            found.when_given(lambda: _pass_on(found, answer))
            return
        question = encode(ResolveOffset(start.kind, start.value))

        def take(data: bytes) -> None:
            try:
                answer.give(decode_offset(data))
            except MemberQuestionError as error:
                answer.refuse(internal_error(str(error)))

        self._ask(question, take, lambda: self._resolve_again(start, answer))

    def _resolve_again(self, start: OffsetSpecification, answer: Answer[int]) -> None:
        if not answer.is_given:
            self.resolve(start, answer)

    def stats(self, answer: Answer[Stats]) -> None:
        """Answer with all offsets. Refused with 541."""
        own = self.group.own_log
        if own is not None:
            self._own_stats(own, answer)
            return

        def take(data: bytes) -> None:
            try:
                stats = decode_stats(data)
            except MemberQuestionError as error:
                answer.refuse(internal_error(str(error)))
                return
            self._known = stats.offsets
            answer.give(stats)

        self._ask(encode(AskStats()), take, lambda: self._stats_again(answer))

    def _stats_again(self, answer: Answer[Stats]) -> None:
        if not answer.is_given:
            self.stats(answer)

    def _own_stats(self, own: OwnLog, answer: Answer[Stats]) -> None:
        last_chunk: Answer[int] = Answer()
        find_last_chunk(own, last_chunk)

        def found() -> None:
            try:
                answer.give(Stats(self.offsets, last_chunk.result()))
            except StoreError as error:
                answer.refuse(_unreadable(error))

        last_chunk.when_given(found)

    # Questions of other nodes

    def asked(self, asked: MemberQuestion, answer: BytesAnswer) -> None:
        """Answer a node without a member. None if this node has no member either."""
        if self.group.own_log is None:
            answer(None)
        elif isinstance(asked, ReadChunks):
            HeldRead(self, self._clock, asked, answer).look()
        elif isinstance(asked, ResolveOffset):
            found: Answer[int] = Answer()
            self.resolve(OffsetSpecification(asked.kind, asked.value), found)
            found.when_given(lambda: _send(found, answer))
        else:
            stats: Answer[Stats] = Answer()
            self.stats(stats)
            stats.when_given(lambda: _send(stats, answer))


class HeldRead:
    """A question of another node for chunks, which waits for some. It is a `ReaderUser`."""

    def __init__(
        self, readers: StreamReaders, clock: Clock, asked: ReadChunks, answer: BytesAnswer
    ) -> None:
        self._readers = readers
        self._answer: BytesAnswer | None = answer
        self._bytes_max = asked.bytes_max
        wanted = StreamFilter(asked.filter_values, asked.matches_unfiltered)
        self._reader = readers.open(asked.offset, wanted, self)
        self._timer = clock.call_later_ms(HELD_MS, lambda: self._give([]))

    def look(self) -> None:
        """Answer if there are chunks."""
        chunks = self._reader.take_stored(CHUNKS_MAX, self._bytes_max)
        if chunks:
            self._give(chunks)

    def ready(self) -> None:
        """There are chunks to take."""
        self.look()

    def failed(self, error: Exception) -> None:
        """The log cannot be read: another member may be able to."""
        self._end(None)

    def _give(self, chunks: list[bytes]) -> None:
        self._end(encode(Chunks(self._readers.offsets, self._reader.next_offset, chunks)))

    def _end(self, data: bytes | None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            self._timer.cancel()
            self._reader.close()
            answer(data)


def _pass_on(found: Answer[int], answer: Answer[int]) -> None:
    try:
        answer.give(found.result())
    except StoreError as error:
        answer.refuse(_unreadable(error))


def _send(found: Answer[int] | Answer[Stats], answer: BytesAnswer) -> None:
    try:
        answer(encode(found.result()))
    except Fault:
        # The error was told where it was found; the asking node tries another member.
        answer(None)


def _unreadable(error: Exception) -> Exception:
    return internal_error(f"a stream cannot be read: {error}")
