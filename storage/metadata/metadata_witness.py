"""A file beside SQLite's write-ahead log that holds the metadata's number of changes.

After a crash SQLite reads its log up to the first frame with a wrong checksum. It cannot tell a
write that was cut short from damage, and drops everything after it without an error. With the
number of changes in this file such damage is detected. Nothing is repaired.

    slot at 0    number of changes that are committed; counts while the machine has not restarted
    slot at 64   number of changes that are synced; counts always

Each slot: the machine's boot id (36 bytes), the metadata's identity (u64), the number (u64), and
the CRC-32 of these. A slot that is damaged or belongs to another metadata file is ignored.

Invariant MW1: a slot never has a higher number than SQLite has on disk. It is written after the
commit (the sync) without waiting for the disk: `kill -9` leaves the written slot, and a power cut
leaves this slot, an older one or none. A slot is smaller than a sector, so it is written whole.
Closed metadata have no such file, because SQLite has moved its log into the database file.
"""

import os
import struct
from pathlib import Path

from leveret.storage.messages.checksum import crc32

_FIELDS = struct.Struct("<36sQQ")
_CHECKSUM = struct.Struct("<I")
_SLOT_BYTES = _FIELDS.size + _CHECKSUM.size
_COMMITTED_AT, _SYNCED_AT = 0, 64
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Witness:
    """The slots in the file beside `path`."""

    def __init__(self, path: Path, mode: int) -> None:
        self._path = path.with_name(path.name + "-witness")
        self._boot_id = _read_boot_id()
        self._identity = 0
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)

    def changes_of(self, identity: int) -> int:
        """The number of changes that the metadata must have. Later writes are for this identity."""
        self._identity = identity
        boot_id, committed = self._read(_COMMITTED_AT)
        _, synced = self._read(_SYNCED_AT)
        is_same_boot = boot_id == self._boot_id != b""
        return max(synced, committed if is_same_boot else 0)

    def _read(self, offset: int) -> tuple[bytes, int]:
        try:
            data = os.pread(self._descriptor, _SLOT_BYTES, offset)
        except OSError:
            # A slot that cannot be read is ignored; it proves nothing about the metadata.
            return b"", 0
        if len(data) == _SLOT_BYTES:
            fields = data[: _FIELDS.size]
            boot_id, identity, changes = _FIELDS.unpack(fields)
            if identity == self._identity and _CHECKSUM.pack(crc32(fields)) == data[len(fields) :]:
                return boot_id.rstrip(b"\0"), changes
        return b"", 0

    def note_committed(self, changes: int) -> None:
        """Set the number of changes that survive `kill -9`."""
        self._write(_COMMITTED_AT, changes)

    def note_synced(self, changes: int) -> None:
        """Set the number of changes that survive a power cut. For any thread."""
        self._write(_SYNCED_AT, changes)

    def _write(self, offset: int, changes: int) -> None:
        fields = _FIELDS.pack(self._boot_id, self._identity, changes)
        try:
            os.pwrite(self._descriptor, fields + _CHECKSUM.pack(crc32(fields)), offset)
        except OSError:
            # The disk is full. The change itself is kept; only its loss would not be detected.
            return

    def close(self, *, remove: bool) -> None:
        """Close the file. remove: SQLite has removed its log, so the file is not needed."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)
        if remove:
            self._remove()

    def _remove(self) -> None:
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            # The file system may be read-only. The file's numbers stay true (MW1).
            return


def _read_boot_id() -> bytes:
    """An id that changes with each start of the machine; empty where the system has none."""
    try:
        return _BOOT_ID.read_bytes().strip()[:36]
    except OSError:
        return b""
