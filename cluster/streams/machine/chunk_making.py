"""Makes chunks of the commands that the leader of a stream has got in a turn.

A command is taken once, in the order of its client's numbers: one that is in the log, or proposed,
is left out; so is one after a gap, which its client sends again. A named publisher's entry is left
out if its sequence number is not above the last one; the command counts as done all the same.

Publishes are gathered in chunks with messages, up to `CHUNK_BYTES` each. The joins and offsets
between them are in the trailer of the next chunk, so that the order of a client's commands is
that of the log.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from leveret.cluster.streams.machine.commands import (
    ENTRIES_MAX,
    Command,
    CommandError,
    Join,
    Publish,
)
from leveret.cluster.streams.machine.filters import BYTES_MIN, make_filter
from leveret.cluster.streams.machine.stream_machine import StreamMachine
from leveret.cluster.streams.machine.tracking import (
    JOIN,
    OFFSET,
    SENDER,
    SEQUENCE,
    TrackingRecord,
    encode_records,
    sender_id,
)
from leveret.storage.stream_log.chunks import TRACKING, USER, encode_chunk

CHUNK_BYTES: Final = 256 * 1024
"""A chunk has at most this many messages, unless one command has more."""
_SIZE = Struct(">I")
_BATCH = Struct(">BHII")
_IS_BATCH: Final = 0x80


class ChunkMaker:
    """The leader's chunks. It begins with the state that the machine has applied.

    term: the leader's. filter_bytes: the size of the Bloom filter of a chunk.
    """

    def __init__(self, machine: StreamMachine, term: int, filter_bytes: int = BYTES_MIN) -> None:
        self.filter_bytes = filter_bytes
        self._term = term
        self._next_offset = machine.next_offset
        self._time_ms = 0
        self._proposed = {number: sender.applied for number, sender in machine.senders.items()}
        self._newest = {sender.node: number for number, sender in machine.senders.items()}
        """The number of the last client of each node."""
        self._sequences: dict[bytes, int] = dict(machine.sequences)
        self._publishes: list[Publish] = []
        self._bytes = self._entries = 0
        self._records: list[TrackingRecord] = []
        self._senders: dict[int, int] = {}

    def make(self, commands: Iterable[Command], wall_ms: int) -> list[bytes]:
        """The chunks of commands. wall_ms: the leader's clock. Raises CommandError."""
        chunks: list[bytes] = []
        for command in commands:
            if isinstance(command, Join):
                self._join(command)
            if self._proposed.get(command.sender, command.number) != command.number - 1:
                continue
            if isinstance(command, Publish):
                self._add(chunks, command, wall_ms)
            elif not isinstance(command, Join):
                self._records.append(TrackingRecord(OFFSET, command.name, command.offset))
            self._proposed[command.sender] = self._senders[command.sender] = command.number
        self._end_chunk(chunks, wall_ms)
        return chunks

    def _join(self, command: Join) -> None:
        """Take a client that is later than all others of its node."""
        if command.sender > self._newest.get(command.node, -1):
            self._newest[command.node] = command.sender
            self._proposed[command.sender] = 0
            self._records.append(TrackingRecord(JOIN, command.node.encode(), command.sender))

    def _add(self, chunks: list[bytes], publish: Publish, wall_ms: int) -> None:
        fresh = self._without_duplicates(publish)
        if not fresh.entry_count:
            return
        entries_bytes = sum(map(len, fresh.entries))
        size = self._bytes + entries_bytes
        if self._publishes and (
            size > CHUNK_BYTES or self._entries + fresh.entry_count > ENTRIES_MAX
        ):
            self._end_chunk(chunks, wall_ms)
            size = entries_bytes
        self._publishes.append(fresh)
        self._bytes = size
        self._entries += fresh.entry_count
        if fresh.sequences:
            self._sequences[fresh.publisher] = fresh.sequences[-1]

    def _without_duplicates(self, publish: Publish) -> Publish:
        sequences = publish.sequences
        last = self._sequences.get(publish.publisher, -1) if sequences else -1
        if not sequences or sequences[0] > last:
            return publish
        first = sum(sequence <= last for sequence in sequences)
        entries = b"".join(publish.entries)
        at, messages = _skip(entries, first)
        return publish._replace(
            sequences=sequences[first:], filter_values=publish.filter_values[first:],
            entry_count=publish.entry_count - first, message_count=publish.message_count - messages,
            entries=(entries[at:],),
        )  # fmt: skip

    def _end_chunk(self, chunks: list[bytes], wall_ms: int) -> None:
        if not (self._publishes or self._records or self._senders):
            return
        publishes, self._publishes = self._publishes, []
        tracking = self._tracking(publishes)
        count = sum(one.message_count for one in publishes)
        self._time_ms = max(self._time_ms, wall_ms)
        chunks.append(
            encode_chunk(
                USER if publishes else TRACKING, self._next_offset, self._term, self._time_ms,
                self._entries, count, [piece for one in publishes for piece in one.entries],
                self._filter(publishes), tracking,
            )
        )  # fmt: skip
        self._next_offset += count
        self._bytes = self._entries = 0

    def _tracking(self, publishes: list[Publish]) -> bytes:
        records, self._records = self._records, []
        last = {one.publisher: one.sequences[-1] for one in publishes if one.sequences}
        records += [TrackingRecord(SEQUENCE, name, number) for name, number in last.items()]
        senders, self._senders = self._senders, {}
        records += [
            TrackingRecord(SENDER, sender_id(one), number) for one, number in senders.items()
        ]
        return encode_records(records)

    def _filter(self, publishes: list[Publish]) -> bytes:
        if not any(one.filter_values for one in publishes):
            return b""
        values = [value for one in publishes for value in one.filter_values or (b"",)]
        return make_filter(values, self.filter_bytes)


def _skip(entries: bytes, count: int) -> tuple[int, int]:
    """Where the entries after the first ones begin, and how many messages these have."""
    at = messages = 0
    for _ in range(count):
        if at >= len(entries):
            raise CommandError("a publish to a stream has fewer entries than sequence numbers")
        if entries[at] & _IS_BATCH:
            _, records, _, size = _BATCH.unpack_from(entries, at)
            at += _BATCH.size + size
            messages += records
        else:
            at += _SIZE.size + _SIZE.unpack_from(entries, at)[0]
            messages += 1
    return at, messages
