"""Which bytes at the end of a log file may be torn, because the node stopped while it wrote them.

A batch is written after the sync of the batch before it (log.py, LG1), and it begins with an OLDEST
record (LG6). So a whole OLDEST record proves that all bytes before it were synced. Only bytes after
the last one may be torn: any part of them may be missing, since a disk writes the sectors of one
batch in any order. No record in them was confirmed.

A log that was closed ends with a CLOSED record, after whose sync nothing was written. Files before
format version BATCHES_SINCE have no OLDEST records at the beginning of batches; in these only bytes
after the last whole record count as torn.
"""

from leveret.storage.messages.formats import (
    CLOSED,
    FILE_HEADER_BYTES,
    LOG_MAGIC,
    OLDEST,
    FormatError,
    ScannedRecord,
    decode_file_header,
    read_records,
)

BATCHES_SINCE = 4


def torn_from(data: bytes) -> int:
    """The offset of the first byte of a log file that is not known to have been synced."""
    last_batch = end = FILE_HEADER_BYTES
    is_closed = False
    for record in read_records(data, FILE_HEADER_BYTES):
        if not isinstance(record, ScannedRecord):
            continue
        end = record.end
        is_closed = record.kind == CLOSED
        if record.kind == OLDEST:
            last_batch = record.offset
    return end if is_closed or not _has_batches(data) else last_batch


def _has_batches(data: bytes) -> bool:
    try:
        return decode_file_header(data, LOG_MAGIC).version >= BATCHES_SINCE
    except FormatError:
        # The header may be torn, too, in the file that was begun last.
        return True
