"""Reads entries of groups from the files of the node's log and from kept files.

One read takes consecutive entries of one block, and the entries of other groups between them. The
event loop does not wait for the disk (file_reads.py). A kept file stays open after a thread has
read from it.
"""

from contextlib import suppress
from pathlib import Path

from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.group_log.entry_blocks import EntryBlock
from leveret.storage.group_log.group_records import CRC_BYTES, is_intact
from leveret.storage.group_log.kept_files import KeptFiles
from leveret.storage.log.log_files import LogFiles

READ_SPAN_BYTES = 1024 * 1024
"""One read has at most this many bytes, except for a larger entry."""
OPEN_MAX = 32


class EntryDamaged(StoreError):
    """An entry does not match its checksum."""


class EntryReader:
    """Reads of one node. All methods are for the event loop's thread."""

    def __init__(self, files: LogFiles, kept: KeptFiles, reads: FileReads, disk: Disk) -> None:
        self._files = files
        self._kept = kept
        self._reads = reads
        self._disk = disk
        self._open: dict[int, int] = {}

    def read(self, block: EntryBlock, first: int, last: int, bytes_max: int) -> list[bytes]:
        """Payloads of entries of a block from the first one on. There is at least one.

        Raises BeingRead if a thread has to read them; EntryDamaged; StoreError.
        """
        offsets, sizes = block.offsets, block.sizes
        place, end = first - block.first, last + 1 - block.first
        start = offsets[place] - CRC_BYTES
        bytes_left = bytes_max - sizes[place]
        after = place + 1
        while after < end:
            bytes_left -= sizes[after]
            if bytes_left < 0 or offsets[after] + sizes[after] - start > READ_SPAN_BYTES:
                break
            after += 1
        data = self._read(block.file, start, offsets[after - 1] + sizes[after - 1] - start)
        return [self._checked(block, at, data, start) for at in range(place, after)]

    def read_now(self, block: EntryBlock, index: int) -> bytes:
        """The payload of an entry, for a caller that may wait for the disk."""
        place = index - block.first
        start = block.offsets[place] - CRC_BYTES
        data = self._disk.read(self.path(block.file), start, CRC_BYTES + block.sizes[place])
        return self._checked(block, place, data, start)

    def _checked(self, block: EntryBlock, place: int, data: bytes, start: int) -> bytes:
        """The payload of an entry. data: bytes of its file from the offset `start` on."""
        offset, size = block.offsets[place] - start, block.sizes[place]
        if not is_intact(data, offset, size):
            raise EntryDamaged(
                f"{self.path(block.file)} is damaged at offset {block.offsets[place]}: the entry "
                f"{block.first + place} of a quorum queue does not match its checksum"
            )
        return data[offset : offset + size]

    def path(self, number: int) -> Path:
        """The path of a file with entries."""
        is_kept = number in self._kept.numbers
        return self._kept.path(number) if is_kept else self._files.path(number)

    def _read(self, number: int, offset: int, size: int) -> bytes:
        descriptor = self._open.get(number, -1)
        data = self._reads.read(self.path(number), descriptor, offset, size)
        if descriptor < 0 and number in self._kept.numbers:
            self._keep_open(number)
        return data

    def _keep_open(self, number: int) -> None:
        if len(self._open) >= OPEN_MAX:
            self.close(next(iter(self._open)))
        # The read has succeeded already. The file is just not kept open.
        with suppress(StoreError):
            descriptor = self._disk.open(self._kept.path(number))
            if self._disk.keep_open(descriptor):
                self._open[number] = descriptor

    def close(self, number: int) -> None:
        """Close a file that is about to be removed: while it is open, its space is not freed."""
        descriptor = self._open.pop(number, -1)
        if descriptor >= 0:
            self._disk.close_kept(descriptor)

    def close_all(self) -> None:
        """Close all files."""
        for number in list(self._open):
            self.close(number)
