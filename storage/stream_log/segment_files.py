"""The files of a stream's segments: their names, and all that changes them, in a thread.

    DIR/00000000000000000042.segment   a head (segment_heads.py), and chunks from offset 42 on
    DIR/00000000000000000042.index     a record for each of these chunks (chunk_index.py)
    DIR/00000000000000000042.begun     a head that is being written, and becomes a segment
    DIR/00000000000000000042.reset     a head that replaces all segments

The event loop gathers steps (stream_log.py). A thread carries them out in order, then syncs. It
carries them out again if a write finds the disk full: each step has the same result the second
time. After a sync that fails it does not: the system may have dropped what earlier steps wrote.
The last segment and its index stay open for the next steps (written_files.py).

Invariants:

SLG2  A segment begins with a whole segment head.
SLG4  Steps are reported as done when all files and directory entries that they changed are on disk.
SLG7  A segment and its index are on disk before a later segment exists.
SLG8  The index of the last segment has no record of a chunk that was cut off, after any power cut.
"""

from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path

from leveret.storage.disk.disk import Disk, DiskFull, StoreError
from leveret.storage.stream_log.chunk_index import RECORD_BYTES
from leveret.storage.stream_log.written_files import WrittenFiles

SEGMENT, INDEX, BEGUN, RESET = ".segment", ".index", ".begun", ".reset"
JOINED_BYTES_MAX = 32 * 1024
"""Pieces that are smaller on average are joined: copying costs less than a call for each."""


class SegmentSyncFailed(StoreError):
    """A sync failed; it must not be tried again."""


class SegmentPaths:
    """The two files of a segment."""

    __slots__ = ("index", "segment")

    def __init__(self, directory: Path, first_offset: int) -> None:
        name = f"{first_offset:020}"
        self.segment = directory / (name + SEGMENT)
        self.index = directory / (name + INDEX)


class Step:
    """A change of the files."""

    __slots__ = ()

    @abstractmethod
    def carry_out(self, files: "StreamFiles") -> None:
        """Change the files. Raises StoreError."""


class Create(Step):
    """Create the directory of a stream."""

    __slots__ = ()

    def carry_out(self, files: "StreamFiles") -> None:
        """Create it, and sync its name."""
        files.disk.make_synced_directory(files.directory)


class RemoveAll(Step):
    """Remove the directory of a stream with all that is in it."""

    __slots__ = ()

    def carry_out(self, files: "StreamFiles") -> None:
        """Remove it. Files that a power cut leaves belong to no stream."""
        files.forget_all()
        files.disk.remove_tree(files.directory)


class BeginSegment(Step):
    """Begin a segment after another one. head: the bytes of its head."""

    __slots__ = ("ended", "head", "paths")

    def __init__(self, paths: SegmentPaths, head: bytes, ended: SegmentPaths) -> None:
        self.paths = paths
        self.head = head
        self.ended = ended

    def carry_out(self, files: "StreamFiles") -> None:
        """Write the head under another name first (SLG2)."""
        files.written(self.ended.index)
        files.sync()  # SLG7
        files.ended(self.ended)
        disk, begun = files.disk, self.paths.segment.with_suffix(BEGUN)
        write_head(disk, begun, self.head)
        disk.passed("stream.begun")
        disk.close(disk.create(self.paths.index))
        disk.rename(begun, self.paths.segment)
        files.has_new_names = True


class ResetSegments(Step):
    """Replace all segments by an empty one. head: the bytes of its head."""

    __slots__ = ("head", "paths", "removed")

    def __init__(self, paths: SegmentPaths, head: bytes, removed: Iterable[SegmentPaths]) -> None:
        self.paths = paths
        self.head = head
        self.removed = tuple(removed)

    def carry_out(self, files: "StreamFiles") -> None:
        """Write the head under another name first: a start that finds it goes on from there."""
        disk, reset = files.disk, self.paths.segment.with_suffix(RESET)
        write_head(disk, reset, self.head)
        disk.sync_directory(files.directory)
        disk.passed("stream.reset")
        files.forget_all()
        finish_reset(disk, reset, self.head, self.removed)


class Write(Step):
    """Write chunks after the others of a segment, and their records in the index.

    place, position: of the first chunk, in bytes and in chunks. kept: how many of the chunks were
    not truncated since.
    """

    __slots__ = ("chunks", "kept", "paths", "place", "position", "records")

    def __init__(self, paths: SegmentPaths, place: int, position: int) -> None:
        self.paths = paths
        self.place = place
        self.position = position
        self.chunks: list[bytes] = []
        self.records: list[bytes] = []
        self.kept = 0

    def add(self, chunk: bytes, record: bytes) -> None:
        """Add the next chunk."""
        self.chunks.append(chunk)
        self.records.append(record)
        self.kept += 1

    def carry_out(self, files: "StreamFiles") -> None:
        """Write the chunks, then their records."""
        files.write(self.paths.segment, self.place, self.chunks)
        files.disk.passed("stream.written")
        files.write(self.paths.index, self.position * RECORD_BYTES, self.records)
        files.disk.passed("stream.indexed")
        files.written(self.paths.segment)


class CutSegment(Step):
    """Cut a segment off after a number of chunks. size_bytes: what stays of it."""

    __slots__ = ("count", "paths", "size_bytes")

    def __init__(self, paths: SegmentPaths, size_bytes: int, count: int) -> None:
        self.paths = paths
        self.size_bytes = size_bytes
        self.count = count

    def carry_out(self, files: "StreamFiles") -> None:
        """Cut it off and sync: nothing of the old chunks may come back after later ones (SLG8)."""
        files.disk.truncate(self.paths.segment, self.size_bytes)
        files.disk.truncate(self.paths.index, self.count * RECORD_BYTES)
        files.written(self.paths.segment)
        files.written(self.paths.index)
        files.sync()
        files.disk.passed("stream.cut")


class Remove(Step):
    """Remove segments, in this order."""

    __slots__ = ("removed",)

    def __init__(self, removed: Iterable[SegmentPaths]) -> None:
        self.removed = tuple(removed)

    def carry_out(self, files: "StreamFiles") -> None:
        """Remove the segment before its index, which a start removes if it is left alone."""
        for paths in self.removed:
            files.forget(paths.segment)
            files.forget(paths.index)
            files.disk.remove(paths.segment)
            files.disk.passed("stream.removed")
            files.disk.remove(paths.index)
        files.has_new_names = True
        files.sync()


class RemoveOldest(Remove):
    """Remove the oldest segments, which are on disk. This makes room on a full disk."""

    __slots__ = ()


class StreamFiles:
    """The files of one stream, in the thread. has_new_names: its directory has to be synced."""

    def __init__(
        self, directory: Path, disk: Disk, written_files: WrittenFiles | None = None
    ) -> None:
        """written_files: those of its thread, which other streams share."""
        self.directory = directory
        self.disk = disk
        self.has_new_names = False
        self._open = WrittenFiles(disk) if written_files is None else written_files
        self._unsynced: dict[Path, None] = {}

    def carry_out(self, steps: Iterable[Step]) -> None:
        """Carry out steps, and sync (SLG4).

        Raises DiskFull if a write finds no room, StoreError after any other error.
        """
        for step in steps:
            step.carry_out(self)
        self.sync()

    def write(self, path: Path, place: int, pieces: list[bytes]) -> None:
        """Write pieces one after the other from a place on."""
        if sum(map(len, pieces)) <= JOINED_BYTES_MAX * len(pieces):
            pieces = [b"".join(pieces)]
        descriptor = self._open.open(path)
        for piece in pieces:
            self.disk.write(descriptor, path, piece, place)
            place += len(piece)

    def written(self, path: Path) -> None:
        """A file has to be synced."""
        self._unsynced[path] = None

    def forget(self, path: Path) -> None:
        """A file is removed."""
        self._unsynced.pop(path, None)
        self._open.close(path)

    def forget_all(self) -> None:
        """All segments are removed."""
        self._unsynced.clear()
        self._open.close_in(self.directory)

    def ended(self, paths: SegmentPaths) -> None:
        """A segment is complete and synced."""
        self._open.close(paths.segment)
        self._open.close(paths.index)

    def sync(self) -> None:
        """Sync all files that were written."""
        for path in tuple(self._unsynced):
            try:
                self.disk.sync(self._open.open(path), path)
            except DiskFull as error:
                raise SegmentSyncFailed(str(error)) from error
            del self._unsynced[path]
            self.disk.passed("stream.synced")
        if self.has_new_names:
            self.disk.sync_directory(self.directory)
            self.has_new_names = False


def write_head(disk: Disk, path: Path, head: bytes) -> None:
    """Write the head of a segment under a name, and sync it."""
    descriptor = disk.create(path)
    try:
        disk.write(descriptor, path, head, 0)
        disk.sync(descriptor, path)
    finally:
        disk.close(descriptor)


def finish_reset(disk: Disk, reset: Path, head: bytes, removed: Iterable[SegmentPaths]) -> None:
    """Remove segments, and begin one with the head in the file of a reset, which is removed."""
    for paths in removed:
        disk.remove(paths.segment)
        disk.passed("stream.removed")
        disk.remove(paths.index)
    write_head(disk, reset.with_suffix(SEGMENT), head)
    disk.close(disk.create(reset.with_suffix(INDEX)))
    disk.sync_directory(reset.parent)
    disk.remove(reset)
    disk.sync_directory(reset.parent)
