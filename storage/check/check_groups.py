"""Checking the entries of Raft groups: the rows, and the log files that are kept for their entries.

The same code as at a restart reads the rows and the log's records (group_recovery.py). Each entry
that the rows place in a kept file is read. Leftovers of a round that a crash has cut are not
needed: names of kept files that no row refers to, and those of files that the log still has.
"""

from collections.abc import Iterator
from pathlib import Path

from leveret.storage.check.check_segments import FileReport, unneeded
from leveret.storage.disk.disk import Disk
from leveret.storage.group_log.entry_blocks import Block
from leveret.storage.group_log.group_records import is_intact
from leveret.storage.group_log.group_recovery import GroupRecovery
from leveret.storage.group_log.kept_files import kept_numbers, kept_path
from leveret.storage.group_log.rows import Rows

GROUPS, ENTRIES = "members of quorum queues", "entries of quorum queues"


class GroupsCheck:
    """Checks the files of groups in a directory. recovery: has to be given the log's records."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._rows = Rows(directory, disk)
        self.recovery = GroupRecovery(self._rows, changes_files=False)

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
            yield FileReport(path, self._disk.size(path), {GROUPS: len(groups)}, problems)
        needed: dict[int, list[Block]] = {}
        for state in groups:
            for block in (*state.blocks, *state.received_blocks):
                if block.file < oldest_log:
                    needed.setdefault(block.file, []).append(block)
        for number in sorted({*needed, *kept_numbers(self._disk, self._directory)}):
            if number in needed:
                yield self._check_file(number, needed[number])
            else:
                yield unneeded(self._disk, kept_path(self._directory, number))

    def _check_file(self, number: int, blocks: list[Block]) -> FileReport:
        path = kept_path(self._directory, number)
        count = sum(len(block.sizes) for block in blocks)
        if not path.exists():
            problem = f"{path} is missing: {count} entries of quorum queues are lost"
            return FileReport(path, 0, {}, [problem])
        data = self._disk.read_all(path)
        damaged = [
            offset
            for block in blocks
            for offset, size in zip(block.offsets, block.sizes, strict=True)
            if not is_intact(data, offset, size)
        ]
        problems = [f"{path} has a damaged entry at offset {offset}" for offset in sorted(damaged)]
        return FileReport(path, len(data), {ENTRIES: count}, problems)
