"""A witness of how many changes the metadata have, beside SQLite's write-ahead log.

SQLite ends its log, when it reads it after a crash, at the first frame whose checksum is wrong: it
cannot tell a write that was cut short from damage, and all that follows is gone without a word.
This file remembers how far the log went, so that damage is seen. It does not repair anything.

    slot at 0    number of changes that are committed; counts while the machine has not restarted
    slot at 64   number of changes that are synced; counts always

Each slot: the machine's boot id (36 bytes), the metadata's identity (u64), the number (u64), and
the CRC-32 of all that. A slot that is damaged or of another file counts as none.

The number is written after the commit (the sync), without waiting for the disk, so it is never too
high: kill -9 leaves what was written, and a power cut an older slot, none, or this one. A slot is
smaller than a sector. Each is written whole. Threads that sync at the same time may leave the lower
number, which only makes the witness know less. Metadata that are closed have no witness: SQLite has
then moved its log away.
"""

import os
import struct
from pathlib import Path
from zlib import crc32

_FIELDS = struct.Struct("<36sQQ")
_CHECKSUM = struct.Struct("<I")
_SLOT_BYTES = _FIELDS.size + _CHECKSUM.size
_COMMITTED_AT, _SYNCED_AT = 0, 64
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Witness:
    """What the file beside `path` says, and what is to be said next time."""

    def __init__(self, path: Path, mode: int) -> None:
        self._path = path.with_name(path.name + "-witness")
        self._boot_id = _read_boot_id()
        self._identity = 0
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)

    def changes_of(self, identity: int) -> int:
        """How many changes there have to be. From now on it witnesses for this identity."""
        self._identity = identity
        boot_id, committed = self._read(_COMMITTED_AT)
        _, synced = self._read(_SYNCED_AT)
        is_same_boot = boot_id == self._boot_id != b""
        return max(synced, committed if is_same_boot else 0)

    def _read(self, offset: int) -> tuple[bytes, int]:
        try:
            data = os.pread(self._descriptor, _SLOT_BYTES, offset)
        except OSError:
            # What cannot be read witnesses nothing; the metadata themselves are as they were.
            return b"", 0
        if len(data) == _SLOT_BYTES:
            fields = data[: _FIELDS.size]
            boot_id, identity, changes = _FIELDS.unpack(fields)
            if identity == self._identity and _CHECKSUM.pack(crc32(fields)) == data[len(fields) :]:
                return boot_id.rstrip(b"\0"), changes
        return b"", 0

    def note_committed(self, changes: int) -> None:
        """So many changes survive kill -9."""
        self._write(_COMMITTED_AT, changes)

    def note_synced(self, changes: int) -> None:
        """So many changes survive a power cut. For any thread."""
        self._write(_SYNCED_AT, changes)

    def _write(self, offset: int, changes: int) -> None:
        fields = _FIELDS.pack(self._boot_id, self._identity, changes)
        try:
            os.pwrite(self._descriptor, fields + _CHECKSUM.pack(crc32(fields)), offset)
        except OSError:
            # The disk is full. The change itself is kept; its loss would not be noticed.
            return

    def close(self, *, remove: bool) -> None:
        """No more changes. Remove it if SQLite's log is gone, of which it witnesses."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
        if remove:
            self._path.unlink(missing_ok=True)


def _read_boot_id() -> bytes:
    """Another after each start of the machine; empty where the system has none."""
    try:
        return _BOOT_ID.read_bytes().strip()[:36]
    except OSError:
        return b""
