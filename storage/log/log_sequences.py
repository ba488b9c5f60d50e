"""Sequences of entries in the log, for a feature that replicates: append, read, truncate, discard.

A feature (Raft, the nodes' own records) has as many sequences as it likes, all in one log client.
An entry gets a number when it is appended. Numbers grow by one across all sequences of the client
and across restarts; no two entries that a restart returns have the same number.

Promise: a restart returns the client's state after some operation: the last one that was reported
as synced, or a later one. So every entry that was synced and neither truncated nor discarded is
returned, in order. Once a truncation is synced, no entry that it voided is returned, regardless of
later appends and of the moment when the node stopped.

Not promised: whether a truncation that was not synced takes effect. But an entry appended after it
is never returned without the truncation. Discarded entries may be returned.

Mechanism: all operations of the client in one batch of the log are one record with one checksum,
and a batch is written after the one before it is synced. So the records on disk are a prefix of
the written records. A gap in the numbers means that a record in the middle was damaged: the
records after the gap are left out and reported, until one has the expected number. A truncation is
after the entries that it voids, and files are removed from the oldest on (LF3), so it stays in the
log as long as any of these entries.

Invariants:

SQ1  The numbers in a record, and from a record to the next that is accepted, are consecutive.
SQ2  The entries of a sequence are in the order of their numbers.
SQ3  A file is needed while it has an entry that is neither truncated nor discarded, or the client's
     last record, from which a restart gets the next number.
"""

from bisect import bisect_left
from operator import attrgetter
from typing import NamedTuple, Protocol

from leveret.storage.disk.disk import StoreError
from leveret.storage.log.large_records import LogRecord
from leveret.storage.log.log import Log
from leveret.storage.log.log_client import LogPosition
from leveret.storage.log.log_files import LogFile, LogFiles
from leveret.storage.log.sequence_records import (
    ENTRY,
    SequenceItem,
    decode_items,
    encode_items,
    truncation,
    void_from,
)
from leveret.storage.messages.checksum import crc32
from leveret.storage.messages.formats import ScannedRecord


class SequenceEntry(NamedTuple):
    """An entry that a restart found. position: the place of its data in the log."""

    sequence: int
    number: int
    data: bytes
    position: LogPosition


class Compactor(Protocol):
    """The feature that the sequences belong to."""

    async def compact(self, sequence: int, through: int) -> None:
        """Replace the entries of a sequence up to this number, and discard them.

        On return `discard` was called, and the replacement is on disk.
        """


class _Entry:
    """A needed entry. data: kept until it is on disk, and after a restart until it is taken."""

    __slots__ = ("crc", "data", "file_number", "number", "offset", "size")

    def __init__(self, number: int, data: bytes) -> None:
        self.number = number
        self.data: bytes | None = data
        self.size, self.crc = len(data), crc32(data)
        self.file_number, self.offset = -1, 0


class LogSequences:
    """A `LogClient`. All methods are for the event loop's thread.

    kind: its records' kind, a named one (formats.py).
    """

    def __init__(
        self, log: Log, files: LogFiles, name: str, kind: int, compactor: Compactor
    ) -> None:
        self.name = name
        self.kinds = frozenset({kind})
        self.removing_kinds: frozenset[int] = frozenset()
        self._kind = kind
        self._log = log
        self._files = files
        self._compactor = compactor
        self._sequences: dict[int, list[_Entry]] = {}
        self._pending: list[tuple[SequenceItem, _Entry | None]] = []
        self._next_number = 1
        self._last_file = -1

    # Changing

    def append(self, sequence: int, data: bytes) -> int:
        """Append an entry to a sequence. Returns its number. `Log.when_safe` reports its sync."""
        number = self._next_number
        entry = _Entry(number, data)
        self._sequences.setdefault(sequence, []).append(entry)
        self._add(SequenceItem(ENTRY, sequence, number, data), entry)
        return number

    def truncate(self, sequence: int, number: int) -> None:
        """Void every entry of a sequence that has this number or a higher one."""
        entries = self._sequences.get(sequence, [])
        del entries[_index(entries, number) :]
        self._add(truncation(sequence, self._next_number, number), None)

    def discard(self, sequence: int, through: int) -> None:
        """Discard the entries of a sequence up to and including this number.

        Nothing is recorded: a restart may return them.
        """
        entries = self._sequences.get(sequence, [])
        del entries[: _index(entries, through + 1)]
        if not entries:
            self._sequences.pop(sequence, None)

    def _add(self, item: SequenceItem, entry: _Entry | None) -> None:
        self._next_number += 1
        self._pending.append((item, entry))
        self._log.write_later(len(item.data))

    def take_records(self, file: LogFile, offset: int) -> list[LogRecord]:
        """All pending operations, as one record."""
        if not self._pending:
            return []
        pending, self._pending = self._pending, []
        items = [item for item, _ in pending]
        assert items[-1].number - items[0].number == len(items) - 1, "SQ1: numbers are consecutive"
        record, offsets = encode_items(self._kind, self.name, items)
        written = []
        for (_, entry), place in zip(pending, offsets, strict=True):
            if entry is not None:
                entry.file_number, entry.offset = file.number, offset + place
                written.append(entry)
        self._last_file = file.number
        file.records += 1
        file.messages += len(items)
        self._log.after_sync(lambda: _forget_data(written))
        return [record]

    # Reading

    def numbers(self, sequence: int) -> list[int]:
        """The numbers of the entries of a sequence that are neither truncated nor discarded."""
        return [entry.number for entry in self._sequences.get(sequence, [])]

    def read(self, sequence: int, number: int) -> bytes:
        """The data of an entry, from memory or from the log.

        Raises KeyError if the sequence does not have it, StoreError if it cannot be read.
        """
        entries = self._sequences.get(sequence, [])
        index = _index(entries, number)
        if index == len(entries) or entries[index].number != number:
            raise KeyError(number)
        entry = entries[index]
        if entry.data is not None:
            return entry.data
        data = self._files.read(entry.file_number, entry.offset, entry.size)
        if crc32(data) != entry.crc:
            raise StoreError(
                f"{self._files.path(entry.file_number)} is damaged at offset {entry.offset}: entry "
                f"{number} of sequence {sequence} of {self.name!r} cannot be read"
            )
        return data

    # Restarting

    def recover(self, file: LogFile, data: bytes, record: ScannedRecord) -> str | None:
        """Apply a record's operations in their order. Returns a description of damage, or None."""
        items, offsets = decode_items(record.head, self.name)
        first = items[0].number
        if self._last_file >= 0 and first > self._next_number:
            return (
                f"has entries {first} to {items[-1].number} of {self.name!r} at offset "
                f"{record.offset}, which are left out: entry {self._next_number} before them is "
                "lost"
            )
        # An earlier restart left out records with these numbers, which follow a gap.
        for sequence in self._sequences.values():
            del sequence[_index(sequence, first) :]
        for item, place in zip(items, offsets, strict=True):
            self._apply(item, LogPosition(file.number, record.offset + place))
        self._next_number = items[-1].number + 1
        self._last_file = file.number
        file.records += 1
        file.messages += len(items)
        return None

    def _apply(self, item: SequenceItem, position: LogPosition) -> None:
        entries = self._sequences.setdefault(item.sequence, [])
        if item.what != ENTRY:
            del entries[_index(entries, void_from(item)) :]
            return
        assert not entries or entries[-1].number < item.number, "SQ2: entries are in order"
        entry = _Entry(item.number, item.data)
        entry.file_number, entry.offset = position
        entries.append(entry)

    def take_recovered(self) -> list[SequenceEntry]:
        """The entries that a restart found, by sequence and number. Call it once, after reading."""
        found = [
            SequenceEntry(
                sequence, entry.number, entry.data, LogPosition(entry.file_number, entry.offset)
            )
            for sequence, entries in sorted(self._sequences.items())
            for entry in entries
            if entry.data is not None
        ]
        for entries in self._sequences.values():
            _forget_data(entries)
        return found

    # Moving on from a file

    def oldest_needed(self) -> int | None:
        """The oldest file with a needed entry or the client's last record (SQ3)."""
        needed = [
            entries[0].file_number
            for entries in self._sequences.values()
            if entries and entries[0].file_number >= 0
        ]
        if self._last_file >= 0 and not self._pending:
            needed.append(self._last_file)
        return min(needed, default=None)

    async def move_on(self, file: LogFile) -> None:
        """Compact each sequence with entries in the file, and record the next number again."""
        for sequence in list(self._sequences):
            through = self._last_number_in(sequence, file)
            if through is not None:
                await self._compactor.compact(sequence, through)
        if self._last_file <= file.number and not self._pending:
            self.truncate(0, self._next_number)

    def _last_number_in(self, sequence: int, file: LogFile) -> int | None:
        """The highest number of a sequence in a file or an older one; None if there is none."""
        last = None
        for entry in self._sequences.get(sequence, []):
            if not 0 <= entry.file_number <= file.number:
                break
            last = entry.number
        return last


def _index(entries: list[_Entry], number: int) -> int:
    """The index of the first entry that has this number or a higher one."""
    return bisect_left(entries, number, key=attrgetter("number"))


def _forget_data(entries: list[_Entry]) -> None:
    """Mark these entries as on disk."""
    for entry in entries:
        entry.data = None
