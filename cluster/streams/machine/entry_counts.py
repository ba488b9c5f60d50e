"""Whether the entries of a publish are those that its counts say. Pure, and compiled.

A chunk with wrong counts could not be read. So the leader checks a publish from another node before
it makes a chunk of it. A publish of its own node was counted when it was read from its client.
"""

from itertools import pairwise
from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from leveret.cluster.streams.machine.commands import CommandError, Publish

_IS_BATCH: Final = 0x80
_BATCH_BYTES: Final = 11
"""The head of a batch: its type, 2 bytes for its messages, 4 for its size before compression, and 4
for its size."""


def check_publish(publish: Publish) -> None:
    """Check the counts and the order of a publish. Raises CommandError."""
    entries = b"".join(publish.entries)
    messages = count_messages(entries, publish.entry_count)
    if messages != publish.message_count:
        raise CommandError(
            f"{len(entries)} bytes are not {publish.entry_count} entries with "
            f"{publish.message_count} messages"
        )
    if not all(one < after for one, after in pairwise(publish.sequences)):
        raise CommandError("the sequence numbers of a publish do not increase")


def count_messages(entries: bytes, count: i64) -> i64:
    """The number of messages. count: of the entries; returns -1 if there are more, or fewer."""
    at: i64 = 0
    end: i64 = len(entries)
    messages: i64 = 0
    while count > 0 and at + 4 <= end:
        count -= 1
        if entries[at] & _IS_BATCH:
            if at + _BATCH_BYTES > end:
                return -1
            messages += (i64(entries[at + 1]) << 8) + i64(entries[at + 2])
            at += _BATCH_BYTES
            size: i64 = i64(read_i32_be(entries, at - 4))
            if size < 0:
                return -1
            at += size
        else:
            messages += 1
            at += 4 + i64(read_i32_be(entries, at))
    return messages if count == 0 and at == end else -1
