"""Checking the entries of Raft groups: the rows, and the log files that are kept for their entries.

The same code as at a restart reads the rows and the log's records (group_recovery.py). Each entry
that the rows place in a kept file is read. A function of the caller counts the messages in it, as
only the owner of a group can decode an entry. Leftovers of a round that a crash has cut are not
needed: names of kept files that no row refers to, and those of files that the log still has.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from leveret.storage.check.check_segments import MESSAGES, FileReport, unneeded
from leveret.storage.check.declared_groups import GroupEntry
from leveret.storage.disk.disk import Disk
from leveret.storage.group_log.entry_blocks import EntryBlock
from leveret.storage.group_log.group_records import (
    CRC_BYTES,
    QUORUM_RECORDS,
    RecordName,
    decode_group_record,
    is_intact,
)
from leveret.storage.group_log.group_recovery import GroupRecovery
from leveret.storage.group_log.group_state import GroupState
from leveret.storage.group_log.kept_files import kept_numbers, kept_path
from leveret.storage.group_log.rows import GroupRows
from leveret.storage.log.log_files import LogFile, log_path
from leveret.storage.messages.formats import ScannedRecord

WITH_MESSAGES = 0
"""The kind of entries that may have messages."""
MessagesIn = Callable[[bytes], int]
"""The number of messages in an entry; 0 if there are none, or it is damaged."""


class EntryFiles:
    """The entries of groups, in the files of the log and in kept files.

    log, kept: their directories.
    """

    def __init__(self, disk: Disk, log: Path, kept: Path) -> None:
        self._disk = disk
        self._log = log
        self._kept = kept
        self._number, self._data = 0, b""

    def path(self, number: int) -> Path:
        """The path of a file, which may be missing."""
        path = log_path(self._log, number)
        return path if path.exists() else kept_path(self._kept, number)

    def payload(self, block: EntryBlock, index: int) -> bytes | None:
        """The payload of an entry; None if it is damaged."""
        if block.file != self._number:
            path = self.path(block.file)
            self._data = self._disk.read_all(path) if path.exists() else b""
            self._number = block.file
        offset, size = block.offsets[index - block.first], block.sizes[index - block.first]
        is_whole = is_intact(self._data, offset, size)
        return self._data[offset : offset + size] if is_whole else None

    def damaged(self, state: GroupState) -> Iterator[tuple[EntryBlock, int]]:
        """The damaged entries of a group, with the blocks that they are in."""
        for block in state.blocks:
            for index in range(block.first, block.last + 1):
                if self.payload(block, index) is None:
                    yield block, index


class GroupsCheck:
    """Checks the files of groups in a directory, and is a `RecordReader` of the log's records.

    records: of the kind of groups. counts: the entries and messages of groups in each log file, by
    its number. recovery: has the groups. entries: what is in their files.
    """

    removing_kinds = GroupRecovery.removing_kinds

    def __init__(
        self, disk: Disk, log: Path, directory: Path, messages_in: MessagesIn,
        records: RecordName = QUORUM_RECORDS,
    ) -> None:  # fmt: skip
        self._disk = disk
        self._messages_in = messages_in
        self.counts: dict[int, dict[str, int]] = {}
        self._directory = directory
        self._rows = GroupRows(directory, disk)
        self.recovery = GroupRecovery(self._rows, changes_files=False, records=records)
        self.entries = EntryFiles(disk, log, directory)
        self._name = f"entries of {records.name}"
        self.kinds = self.recovery.kinds

    @property
    def damaged(self) -> list[GroupState]:
        """The groups that cannot be used, or have a damaged entry."""
        return [
            state
            for state in self.recovery.groups.values()
            if state.damage or next(self.entries.damaged(state), None) is not None
        ]

    def entries_without_messages(self, state: GroupState) -> Iterator[GroupEntry]:
        """Those of a group, such as its configurations."""
        for block in state.blocks:
            if block.kind != WITH_MESSAGES:
                for index in range(block.first, block.last + 1):
                    yield GroupEntry(block.kind, self.entries.payload(block, index))

    def recover(self, file: LogFile, data: bytes, record: ScannedRecord) -> str | None:
        """Accept and count a record. Returns a description of damage in it, or None."""
        counts = self.counts.setdefault(file.number, {MESSAGES: 0, self._name: 0})
        place = record.body_offset
        for item in decode_group_record(record, self.recovery.records.name)[1]:
            for size in item.sizes:
                place += CRC_BYTES
                counts[self._name] += 1
                counts[MESSAGES] += self._messages_in(data[place : place + size])
                place += size
        return self.recovery.recover(file, data, record)

    def reports(self, oldest_log: int) -> Iterator[FileReport]:
        """The reports of all files, after the log was read. oldest_log: its first file."""
        self.recovery.end()
        groups = self.recovery.groups.values()
        if groups or self._rows.keys:
            problems = self._rows.problems + [
                f"the member of group {state.group} cannot be used: {state.damage}"
                for state in groups
                if state.damage
            ]
            path = self._rows.path if self._rows.keys else self._directory
            yield FileReport(
                path,
                self._disk.size(path),
                {f"members of {self.recovery.records.name}": len(groups)},
                problems,
            )
        needed: dict[int, list[EntryBlock]] = {}
        for state in groups:
            for block in (*state.blocks, *state.received_blocks):
                if block.file < oldest_log:
                    needed.setdefault(block.file, []).append(block)
        for number in sorted({*needed, *kept_numbers(self._disk, self._directory)}):
            if number in needed:
                yield self._check_file(number, needed[number])
            else:
                yield unneeded(self._disk, kept_path(self._directory, number))

    def _check_file(self, number: int, blocks: list[EntryBlock]) -> FileReport:
        path = kept_path(self._directory, number)
        count = sum(len(block.sizes) for block in blocks)
        if not path.exists():
            problem = f"{path} is missing: {count} entries of quorum queues are lost"
            return FileReport(path, 0, {}, [problem])
        data = self._disk.read_all(path)
        damaged, messages = [], 0
        for block in blocks:
            for offset, size in zip(block.offsets, block.sizes, strict=True):
                messages += self._messages_in(data[offset : offset + size])
                if not is_intact(data, offset, size):
                    damaged.append(offset)
        problems = [f"{path} has a damaged entry at offset {offset}" for offset in sorted(damaged)]
        return FileReport(path, len(data), {MESSAGES: messages, self._name: count}, problems)
