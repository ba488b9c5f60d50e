"""The message store: large bodies, each written once for any number of queues.

Segments have the bodies of small messages. A body of `queue_index_embed_msgs_below` bytes or more
is written here, and its entries in segments have the file and offset. Files are appended to and
never changed.

There are no reference counts. When half of the store is garbage, the sweeper (sweeper.py) finds in
the segments which bodies are still referred to. The space of all other bodies is returned to the
file system: as a hole in a file, or with the whole file. So a restart needs no index of bodies, no
body moves, and a crash between any two steps leaves only garbage, which the next sweep finds.

Invariants:

MS1  A body's place (`Message.stored`) never changes while a segment refers to it, and its bytes are
     not overwritten.
MS2  A body is planned before the segment entry that refers to it, so it is written before it (PW2).
MS3  A sweep looks only at files below the number that `begin_sweep` returned. Such a file is not
     appended to, and no new entry refers to a body in it.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from leveret.storage.bodies.planned_writes import PlannedWrite
from leveret.storage.disk.disk import Disk, StoreError
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.log.large_records import LARGE_BODIES_BYTES
from leveret.storage.messages.checksum import crc32
from leveret.storage.messages.formats import BODIES_MAGIC, FILE_HEADER_BYTES
from leveret.storage.messages.intervals import Intervals
from leveret.storage.messages.message import NO_CRC, Message, StoredBody

FILE_BYTES_MAX = 16 * 1024 * 1024
GARBAGE_BYTES_MIN, GARBAGE_SHARE = 64 * 1024 * 1024, 0.5
"""With less garbage than this there is no sweep, unless the node is idle or its disk is short."""


OPEN_MAX = 32
"""Files that are kept open for reading."""


def bodies_path(directory: Path, number: int) -> Path:
    """The path of a file of the message store."""
    return directory / f"{number:010d}.bodies"


def bodies_numbers(disk: Disk, directory: Path) -> list[int]:
    """The numbers of the files of the message store in a directory, in order."""
    names = [Path(name) for name in disk.names_in(directory)]
    return [int(name.stem) for name in names if name.suffix == ".bodies" and name.stem.isdigit()]


class MessageStore:
    """The large bodies of a node.

    total_bytes, garbage_bytes: of bodies, estimated; a body that several queues shared may count
    twice as garbage. reads, writes: numbers of bodies since the start.
    """

    def __init__(self, directory: Path, disk: Disk, reads: FileReads) -> None:
        """reads: used by `read_soon`."""
        self._reads = reads
        self._directory = directory
        self._disk = disk
        self._open: dict[int, int] = {}
        numbers = bodies_numbers(disk, directory)
        # A file that a crash may have left unfinished is not appended to.
        self._number = numbers[-1] if numbers else 0
        self._size = FILE_BYTES_MAX
        self.total_bytes = sum(
            disk.used_bytes(bodies_path(directory, number)) for number in numbers
        )
        self.garbage_bytes = 0
        self.reads = self.writes = 0
        self._shared_from = 0

    def plan(self, message: Message) -> PlannedWrite | None:
        """Choose a place for a message's body, and set it in the message.

        Returns the write; None if the body was written for another queue, to a file that no sweep
        has examined.
        """
        if message.stored is not None and message.stored.number >= self._shared_from:
            return None
        is_new = self._size >= FILE_BYTES_MAX
        if is_new:
            self._number += 1
            self._size = FILE_HEADER_BYTES
        body = message.body
        offset = self._size
        assert self._number >= self._shared_from, "MS3: a file that is swept is not appended to"
        # The checksum of a large body takes long: the writing thread computes it.
        crc = crc32(body) if len(body) < LARGE_BODIES_BYTES else NO_CRC
        message.stored = StoredBody(self._number, offset, len(body), crc)
        self._size += len(body)
        self.total_bytes += len(body)
        self.writes += 1
        path = bodies_path(self._directory, self._number)
        return PlannedWrite(path, BODIES_MAGIC, self._number, is_new, offset, [body])

    def read(self, stored: StoredBody) -> bytes | None:
        """A body; None if its checksum is wrong. Raises StoreError if it cannot be read.

        Blocks for a time in proportion to the body's size, unlike `read_soon`.
        """
        self.reads += 1
        body = self._disk.read(self.path_of(stored), stored.offset, stored.size)
        return _checked(body, 0, stored)

    def read_soon(self, bodies: Sequence[StoredBody]) -> list[bytes | None]:
        """As `read`, for the event loop: raises BeingRead instead of waiting (file_reads.py).

        bodies: of one file, in the order of their offsets; all are read together. A large body is
        the only one: the thread checks it, too.
        """
        first, last = bodies[0], bodies[-1]
        number, path = first.number, self.path_of(first)
        if first.size >= LARGE_BODIES_BYTES:
            body = self._reads.done_by_thread(first, partial(self.read, first), path, first.offset)
            return [body]
        descriptor = self._open.get(number, -1)
        size = last.offset + last.size - first.offset
        data = self._reads.read(path, descriptor, first.offset, size)
        if descriptor < 0:
            self._keep_open(number, path)
        self.reads += len(bodies)
        return [_checked(data, stored.offset - first.offset, stored) for stored in bodies]

    def _keep_open(self, number: int, path: Path) -> None:
        """Keep a file open that a thread has read from (LR2), and close the one opened first."""
        if len(self._open) >= OPEN_MAX:
            self._disk.close_kept(self._open.pop(next(iter(self._open))))
        # The file is read all the same; only the open descriptor would have saved time.
        with suppress(StoreError):
            descriptor = self._disk.open(path)
            if self._disk.keep_open(descriptor):
                self._open[number] = descriptor

    def close_files(self) -> None:
        """Close all files: some may have been removed, and an open one keeps its space."""
        for descriptor in self._open.values():
            self._disk.close_kept(descriptor)
        self._open.clear()

    def path_of(self, stored: StoredBody) -> Path:
        """The file that a body is in."""
        return bodies_path(self._directory, stored.number)

    def wants_sweep(self, bytes_min: int, share: float) -> bool:
        """Whether more than this share of the store, and more than `bytes_min`, is garbage."""
        return self.garbage_bytes > max(bytes_min, int(self.total_bytes * share))

    def begin_sweep(self) -> int:
        """Finish the current file. Returns the number below which files may be swept (MS3)."""
        self._size = FILE_BYTES_MAX
        self.garbage_bytes = 0
        self._shared_from = self._number + 1
        return self._shared_from

    def sweep(self, below: int, needed: dict[int, Intervals]) -> int:
        """Free everything but the needed byte ranges in all files below a number.

        needed: the ranges by file number. For a worker's thread. Returns the number of needed
        bytes. Raises StoreError.
        """
        kept_bytes = 0
        for number in bodies_numbers(self._disk, self._directory):
            if number >= below:
                break
            kept_bytes += self._sweep_file(number, needed.get(number))
        return kept_bytes

    def _sweep_file(self, number: int, needed: Intervals | None) -> int:
        path = bodies_path(self._directory, number)
        if needed is None:
            self._disk.remove(path)
            self._disk.passed("bodies.removed")
            return 0
        descriptor = self._disk.open(path)
        try:
            for start, end in needed.gaps(FILE_HEADER_BYTES, self._disk.size(path)):
                self._disk.punch(descriptor, start, end)
        finally:
            self._disk.close(descriptor)
        self._disk.passed("bodies.punched")
        return needed.count

    def check(self, stored: StoredBody) -> str | None:
        """A description of the damage to a body; None if it is intact."""
        try:
            return None if self.read(stored) is not None else "its checksum is wrong"
        except StoreError as error:
            return str(error)


def _checked(data: bytes, start: int, stored: StoredBody) -> bytes | None:
    """A body that is in the data; None if its checksum is wrong, or the data end before it."""
    body = data[start : start + stored.size]
    return body if len(body) == stored.size and crc32(body) == stored.crc else None
