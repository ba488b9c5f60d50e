"""The message store: large bodies, each written once, however many queues it is in.

Segments are for many small messages. A body of `queue_index_embed_msgs_below` bytes or more is put
here, and its entries in segments say where. Files are appended to and never changed.

Nobody counts references. When enough has become garbage, the sweeper (sweeper.py) looks into the
segments for what is still referred to, and the space of the rest is given back to the file system:
as a hole in a file, since bodies are large enough for that, or with the whole file. So nothing need
be known about bodies at a restart, nothing moves, and a crash between any two steps leaves only
garbage, which the next sweep finds.
"""

from pathlib import Path
from zlib import crc32

from storage.disk import Disk, StoreError
from storage.formats import BODIES_MAGIC, FILE_HEADER_BYTES
from storage.intervals import Intervals
from storage.message import Message, StoredBody
from storage.parts import Part

FILE_BYTES_MAX = 16 * 1024 * 1024
GARBAGE_BYTES_MIN = 64 * 1024 * 1024
"""Less garbage than this is not worth a sweep."""


def bodies_path(directory: Path, number: int) -> Path:
    """A file of the message store."""
    return directory / f"{number:010d}.bodies"


def bodies_numbers(disk: Disk, directory: Path) -> list[int]:
    """The numbers of the files that there are, in order."""
    names = [Path(name) for name in disk.names_in(directory)]
    return [int(name.stem) for name in names if name.suffix == ".bodies" and name.stem.isdigit()]


class MessageStore:
    """The large bodies of a node.

    total_bytes, garbage_bytes: of bodies, about; garbage that is shared may be counted twice.
    reads, writes: of bodies, since the start.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        numbers = bodies_numbers(disk, directory)
        # A file that a crash may have left unfinished is not appended to.
        self._number = numbers[-1] if numbers else 0
        self._size = FILE_BYTES_MAX
        self.total_bytes = sum(disk.size(bodies_path(directory, number)) for number in numbers)
        self.garbage_bytes = 0
        self.reads = self.writes = 0
        self._shared_from = 0

    def plan(self, message: Message) -> Part | None:
        """Choose a place for a message's body, and note it in the message.

        None if it is there already, for another queue, in a file that no sweep has looked at.
        """
        if message.stored is not None and message.stored.number >= self._shared_from:
            return None
        is_new = self._size >= FILE_BYTES_MAX
        if is_new:
            self._number += 1
            self._size = FILE_HEADER_BYTES
        body = message.body
        offset = self._size
        message.stored = StoredBody(self._number, offset, len(body), crc32(body))
        self._size += len(body)
        self.total_bytes += len(body)
        self.writes += 1
        path = bodies_path(self._directory, self._number)
        return Part(path, BODIES_MAGIC, self._number, is_new, offset, body)

    def read(self, stored: StoredBody) -> bytes | None:
        """A body; None if it is not what was written. Raises StoreError if it cannot be read."""
        self.reads += 1
        body = self._disk.read(self.path_of(stored), stored.offset, stored.size)
        return body if len(body) == stored.size and crc32(body) == stored.crc else None

    def path_of(self, stored: StoredBody) -> Path:
        """The file that a body is in."""
        return bodies_path(self._directory, stored.number)

    @property
    def wants_sweep(self) -> bool:
        """Half of what is there is garbage, and it is worth the trouble."""
        return self.garbage_bytes > max(GARBAGE_BYTES_MIN, self.total_bytes // 2)

    def begin_sweep(self) -> int:
        """Files below the number that is returned are finished and may be swept."""
        self._size = FILE_BYTES_MAX
        self.garbage_bytes = 0
        self._shared_from = self._number + 1
        return self._shared_from

    def sweep(self, below: int, needed: dict[int, Intervals]) -> int:
        """Free everything in the files below a number but the parts that are needed.

        For a worker's thread. Returns how many bytes are needed.
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
        """What is wrong with a body, in words; None if it is whole."""
        try:
            return None if self.read(stored) is not None else "its checksum does not fit"
        except StoreError as error:
            return str(error)
