"""Rebuilds the state of all groups at a restart: from the rows, and the log's records after them.

A record is applied to the groups whose rows do not cover it yet. Records have consecutive numbers.
If one is missing, it is unknown which groups it had writes of, so none of the groups that existed
then can be trusted. The last record of the log may have payloads that are torn, because the node
stopped while it wrote it. Nothing in it was reported as synced, so it is ignored, and its number is
used again.
"""

import struct
from operator import attrgetter
from typing import NamedTuple

import msgspec

from leveret.storage.group_log.entry_blocks import EntryBlock, decode_blocks, encode_blocks
from leveret.storage.group_log.group_records import (
    CRC_BYTES,
    CREATE,
    QUORUM_RECORDS,
    REMOVE,
    GroupWrite,
    RecordName,
    decode_group_record,
    is_intact,
)
from leveret.storage.group_log.group_state import GroupHead, GroupState, SnapshotName
from leveret.storage.group_log.rows import STATE, GroupRows, Key
from leveret.storage.log.log_files import LogFile
from leveret.storage.log.recovery import TORN
from leveret.storage.log.torn_end import torn_from
from leveret.storage.messages.formats import ScannedRecord

MACHINE = (1 << 63) - 1
"""The file number that stands for the row with the state of a group's machine."""
COVERED = Key(0, STATE)
"""The row with the number of the last record in the files that the log has removed."""

_PLACES = struct.Struct("<QQI")


class _Doubtful(NamedTuple):
    """A record with payloads that do not match their checksums: damaged, or torn at the end."""

    file: LogFile
    number: int
    items: list[GroupWrite]
    offsets: list[int]
    bad: set[int]
    may_be_torn: bool


class GroupRecovery:
    """The groups of a node, while `LogReader` reads their records. `end` is called after the last
    one.

    records: of its kind of groups. groups: by number. number: of the next record. last_numbers: the
    number of the last record in each log file that has any, oldest file first.
    """

    removing_kinds: frozenset[int] = frozenset()

    def __init__(
        self, rows: GroupRows, changes_files: bool = True, records: RecordName = QUORUM_RECORDS
    ) -> None:
        self.records = records
        self.kinds = frozenset({records.kind})
        self.groups: dict[int, GroupState] = {}
        self.last_numbers: dict[int, int] = {}
        self.number = 1
        self._doubtful: _Doubtful | None = None
        self._load(rows, changes_files)

    def _load(self, rows: GroupRows, changes_files: bool) -> None:
        found = rows.load(changes_files)
        for key, row in found.items():
            if key == COVERED:
                self.number = int.from_bytes(row, "little") + 1
            elif key.file == STATE:
                head = msgspec.msgpack.decode(row, type=GroupHead)
                self.groups[key.group] = GroupState.of_head(key.group, head)
        for key, row in sorted(found.items()):
            if key.file not in (STATE, MACHINE) and key.group in self.groups:
                load_places(self.groups[key.group], key.file, row)
        for group in rows.damaged:
            state = self.groups.setdefault(group, GroupState(group, "", b""))
            state.damage = f"a row of it in {rows.path} is damaged"
        if rows.is_doubtful:
            self._doubt_all(f"{rows.path} has lost changes of groups")

    def recover(self, file: LogFile, data: bytes, record: ScannedRecord) -> str | None:
        """Apply a record's items in their order. Returns a description of damage, or None."""
        number, items = decode_group_record(record, self.records.name)
        self._settle(number)
        problem = None
        if number > self.number:
            self._doubt_all(f"record {self.number} of {self.records.name} in the log is lost")
            problem = (
                f"has record {number} of {self.records.name} at offset {record.offset}, and record "
                f"{self.number} before it is lost"
            )
        self.number = number
        offsets, bad, place = [], set(), record.body_offset
        for size in [size for item in items for size in item.sizes]:
            place += CRC_BYTES
            offsets.append(place)
            if not is_intact(data, place, size):
                bad.add(place)
            place += size
        if not bad:
            self._take(file, items, offsets, bad)
            return problem
        may_be_torn = record.offset >= torn_from(data)
        self._doubtful = _Doubtful(file, number, items, offsets, bad, may_be_torn)
        return (
            f"has {len(bad)} damaged entries of {self.records.name} in its record at offset "
            f"{record.offset}"
        )

    def _settle(self, number: int) -> None:
        """Drop the record with bad payloads if the next one has the same number: it was torn."""
        doubtful, self._doubtful = self._doubtful, None
        if doubtful is not None and doubtful.number < number:
            self._take(doubtful.file, doubtful.items, doubtful.offsets, doubtful.bad)

    def _take(
        self, file: LogFile, items: list[GroupWrite], offsets: list[int], bad: set[int]
    ) -> None:
        at = 0
        for item in items:
            end = at + len(item.sizes)
            state = self.groups.get(item.group)
            if state is None or self.number > state.record:
                self._apply(item, file.number, offsets[at:end], bad)
            at = end
        self.last_numbers[file.number] = self.number
        self.number += 1
        file.records += 1
        file.messages += len(offsets)

    def _apply(self, item: GroupWrite, file: int, offsets: list[int], bad: set[int]) -> None:
        if item.what == REMOVE:
            self.groups.pop(item.group, None)
        elif item.what == CREATE:
            self.groups[item.group] = GroupState(item.group, item.text, item.data)
        state = self.groups.get(item.group)
        if state is None:
            return
        state.apply(item, file, offsets)
        for place, offset in enumerate(offsets):
            if offset in bad:
                state.bad.add(item.first + place)

    def _doubt_all(self, reason: str) -> None:
        for state in self.groups.values():
            state.damage = state.damage or reason

    def end(self) -> None:
        """Find out which groups cannot be used, after the last record was read."""
        doubtful, self._doubtful = self._doubtful, None
        if doubtful is not None and not (doubtful.may_be_torn and doubtful.file.size == TORN):
            self._take(doubtful.file, doubtful.items, doubtful.offsets, doubtful.bad)
        for state in self.groups.values():
            state.damage = state.damage or state.find_damage()
            # The log file that shows the damage may be removed.
            state.has_moved = state.has_moved or bool(state.damage)


def load_places(state: GroupState, file: int, row: bytes) -> None:
    """Load a row with the places of entries in one file."""
    try:
        index, term, places_bytes = _PLACES.unpack_from(row)
        places_end = _PLACES.size + places_bytes
        blocks = decode_blocks(row[_PLACES.size : places_end], file)
        received = decode_blocks(row[places_end:], file)
    except (ValueError, struct.error) as error:
        state.damage = f"the row with its entries in log file {file} is damaged: {error}"
        return
    state.blocks = sorted(state.blocks + blocks, key=attrgetter("first"))
    if received:
        state.received = SnapshotName(index, term)
        state.received_blocks += received
        state.received_blocks.sort(key=attrgetter("first"))


def places_row(state: GroupState, blocks: list[EntryBlock], file: int) -> bytes:
    """The row with the places of the entries in one file."""
    places = encode_blocks([block for block in blocks if block.file == file])
    received = encode_blocks([block for block in state.received_blocks if block.file == file])
    return _PLACES.pack(state.received.index, state.received.term, len(places)) + places + received
