"""Copies short parts of bytes to a writer. Pure.

A slice is an object: to make and to free it is most of the work of a value. Eight bytes at a time
need none.
"""

from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64

_BYTES_MAX: Final = 64
"""Longer parts are sliced."""
_STEP: Final = 8


def copy_part(writer: BytesWriter, data: bytes, at: i64, end: i64) -> None:
    """Write the bytes from `at` to `end`, or as many of them as there are."""
    if end - at > _BYTES_MAX or end + _STEP > len(data):
        writer.write(data[at:end])
        return
    size: i64 = len(writer) + end - at
    while at < end:
        write_i64_be(writer, read_i64_be(data, at))
        at += _STEP
    writer.truncate(size)


def copy_short(writer: BytesWriter, data: bytes, at: i64) -> None:
    """Write the short string at `at`, with its size."""
    copy_part(writer, data, at, at + 1 + data[at])
