"""Numbers of 32 bits without a sign, from bytes and as bytes. Pure. Compiled."""

from typing import Final

from librt.strings import BytesWriter, read_i32_be, write_i32_be
from mypy_extensions import i32, i64

UINT_MAX: Final = 0xFFFF_FFFF
_SIGNED_MAX: Final = 0x7FFF_FFFF
_RANGE: Final = 1 << 32


def read_uint32(data: bytes, at: i64) -> i64:
    """The number in the four bytes at a place. Raises IndexError."""
    return i64(read_i32_be(data, at)) & UINT_MAX


def write_uint32(writer: BytesWriter, number: i64) -> None:
    """Write a number."""
    write_i32_be(writer, i32(number - _RANGE if number > _SIGNED_MAX else number))
