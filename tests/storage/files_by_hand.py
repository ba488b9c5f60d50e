"""Makes files of a store by hand: of one queue, whose key is 256."""

from zlib import crc32

from leveret.storage.messages.formats import (
    BODIES_MAGIC,
    FILE_HEADER_BYTES,
    LOG_MAGIC,
    PERSISTENT,
    SEGMENT_MAGIC,
    StateRecord,
    encode_file_header,
    encode_run,
    encode_state,
    encode_stored_run,
)
from leveret.storage.messages.intervals import Intervals

ADDRESS = b"\1x\1k"


def run(*messages, position=0, key=256):
    """The RUN of persistent messages, with their bodies."""
    return encode_run(0, PERSISTENT, [(key, position)], ADDRESS, b"", list(messages)) + b"".join(
        messages
    )


def stored(*places, position=0):
    """The RUN of messages with bodies in the message store. places: (file, offset, body)."""
    found = [(number, offset, len(body), crc32(body)) for number, offset, body in places]
    return encode_stored_run(0, PERSISTENT, (256, position), ADDRESS, b"", found)


def state(flushed_to, records, number=0, gone=(), key=256):
    """The STATE of a queue whose last segment has these records."""
    tail_bytes = FILE_HEADER_BYTES + len(records)
    return encode_state(
        StateRecord(key, flushed_to, 0, 0, number, tail_bytes, False, [], Intervals(gone))
    )


def write(directory, name, magic, *records, previous=0):
    """Write a file; without a magic number one without a header. Returns its path."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    number = int(path.stem)
    header = encode_file_header(magic, number, 1, previous) if magic else b""
    path.write_bytes(header + b"".join(records))
    return path


def log(directory, number, *records, previous=0):
    """Write a log file."""
    return write(directory, f"log/{number:010d}.log", LOG_MAGIC, *records, previous=previous)


def segment(directory, *records, number=0):
    """Write a segment."""
    return write(directory, f"queues/256/{number:010d}.segment", SEGMENT_MAGIC, *records)


def bodies(directory, number, *found):
    """Write a file of the message store."""
    return write(directory, f"bodies/{number:010d}.bodies", BODIES_MAGIC, *found)
