"""Counts and times of the store's operations since the node started, for statistics and metrics."""

import msgspec

from leveret.storage.disk.disk import DiskCounts


class StoreFigures(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Totals since the start, deleted queues included.

    messages_read, messages_written: messages that were paged in and out. bodies_read,
    bodies_written: large bodies in the message store. All other fields are file operations, their
    bytes, and the seconds that their callers waited.
    """

    messages_read: int
    messages_written: int
    bodies_read: int
    bodies_written: int
    reads: int
    read_bytes: int
    read_seconds: float
    writes: int
    write_bytes: int
    write_seconds: float
    syncs: int
    sync_seconds: float


def store_figures(
    disk: DiskCounts, messages: tuple[int, int], bodies: tuple[int, int]
) -> StoreFigures:
    """The current figures. messages, bodies: the numbers read, and written."""
    return StoreFigures(
        messages_read=messages[0],
        messages_written=messages[1],
        bodies_read=bodies[0],
        bodies_written=bodies[1],
        reads=disk.reads,
        read_bytes=disk.read_bytes,
        read_seconds=disk.read_seconds,
        writes=disk.writes,
        write_bytes=disk.write_bytes,
        write_seconds=disk.write_seconds,
        syncs=disk.syncs,
        sync_seconds=disk.sync_seconds,
    )
