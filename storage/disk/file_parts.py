"""Parts of files that the system sends to sockets itself (sendfile): they take no memory here.

A part that the system does not have in memory is read by the thread of `FileReads` first, so that
the event loop does not wait for the disk. A file stays open as long as a part of it is referred to,
also when it is removed meanwhile.
"""

from pathlib import Path

from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import READ_AHEAD_BYTES, FileReads

SENT_BYTES_MAX = 512 * 1024
"""What is sent at once: it takes a tenth of a millisecond."""
PIECE_BYTES = 256 * 1024
"""A thread reads in pieces of this size, to bring a part of a file into the system's memory."""


class OpenFile:
    """A file that is open for reading, until nothing refers to it."""

    __slots__ = ("descriptor", "disk", "path", "reads")

    def __init__(self, path: Path, descriptor: int, disk: Disk, reads: FileReads) -> None:
        """descriptor: one that `Disk.keep_open` has counted."""
        self.path = path
        self.descriptor = descriptor
        self.disk = disk
        self.reads = reads

    def __del__(self) -> None:
        self.disk.close_kept(self.descriptor)

    def read(self, offset: int, size: int) -> bytes:
        """Read from the file. Raises StoreError."""
        return self.disk.read_from(self.descriptor, self.path, offset, size)


def open_kept(path: Path, disk: Disk, reads: FileReads) -> OpenFile | None:
    """Open a file, in a thread. None if too many are open. Raises StoreError."""
    descriptor = disk.open(path)
    return OpenFile(path, descriptor, disk, reads) if disk.keep_open(descriptor) else None


class FilePart:
    """A part of a file that is to be sent to one socket. size: of the rest of it."""

    __slots__ = ("_file", "_offset", "_read_to", "size")

    def __init__(self, file: OpenFile, offset: int, size: int) -> None:
        self.size = size
        self._file = file
        self._offset = self._read_to = offset

    def send(self, socket: int) -> int:
        """Send a piece of it. Returns how many bytes the socket has taken.

        Raises BlockingIOError if the socket takes nothing now; BeingRead until the disk was read;
        StoreError; ConnectionError, TimeoutError.
        """
        size = min(self.size, SENT_BYTES_MAX)
        if self._offset + size > self._read_to:
            self._bring_in(size)
        file = self._file
        sent = file.disk.send(file.descriptor, file.path, socket, self._offset, size)
        self._offset += sent
        self.size -= sent
        return sent

    def _bring_in(self, size: int) -> None:
        """Have the system read the next bytes of the file. Raises BeingRead until it has."""
        file, offset = self._file, self._offset
        if not file.disk.is_cached(file.descriptor, offset, size):
            key = file.path, offset, size, "to be sent"
            file.reads.done_by_thread(key, lambda: self._read(offset, size), file.path, offset)
            self._read_to = offset + size

    def _read(self, offset: int, size: int) -> None:
        """In the thread: read, and have the system read ahead."""
        end = offset + size
        for place in range(offset, end, PIECE_BYTES):
            self._file.read(place, min(PIECE_BYTES, end - place))
        self._file.disk.will_read(self._file.descriptor, end, READ_AHEAD_BYTES)
