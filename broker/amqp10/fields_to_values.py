"""Writes fields of tables as values of AMQP 1.0, without decoding them. Pure.

A value is copied behind the code of its type, in the shortest form that RabbitMQ uses.
"""

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, u8

from leveret.broker.amqp.table_scan import UNSIGNED, field_end
from leveret.broker.amqp10.short_copies import copy_part
from leveret.broker.amqp10.type_codes import (
    BINARY8,
    BOOLEAN,
    EMPTY_LIST,
    INT,
    LONG,
    NULL,
    SMALL_INT,
    SMALL_LONG,
    SMALL_UINT,
    STRING8,
    SYMBOL8,
    TIME,
    TO_LARGE,
    UINT,
    ZERO_UINT,
)

TEXT_BYTES_MAX: Final = 4096
"""Longer texts are binary in 4.0."""
NESTING_MAX: Final = 60
"""What is nested deeper in a header is null: readers refuse it (values.py)."""
_SECONDS_MAX: Final = ((1 << 63) - 1) // 1000
_COMPOUND_HEAD_BYTES: Final = 3
"""The code, the size and the count of a compound value in the short form."""
_SHORT_MAX: Final = 255

_LIST: Final = b"\xc0\x00\x00"
_MAP: Final = b"\xc1\x00\x00"


def _by_letter(codes: dict[str, int]) -> bytes:
    table = bytearray(256)
    for letter, code in codes.items():
        table[ord(letter)] = code
    return bytes(table)


_FIXED_CODES: Final = _by_letter({"b": 0x51, "B": 0x50, "s": 0x61, "u": 0x60, "f": 0x72, "d": 0x82})
"""By the letter of a field: the code of a value whose bytes are the same; otherwise 0."""
_FIXED_SIZES: Final = _by_letter({"b": 1, "B": 1, "s": 2, "u": 2, "f": 4, "d": 8})
_S: Final = ord("S")
_x: Final = ord("x")
_I: Final = ord("I")
_i: Final = ord("i")
_l: Final = ord("l")
_L: Final = ord("L")
_t: Final = ord("t")
_T: Final = ord("T")
_V: Final = ord("V")
_A: Final = ord("A")
_F: Final = ord("F")


def write_field(writer: BytesWriter, raw: bytes, at: i64, is_4: bool, depth: i64) -> i64:
    """Write the value of a field of a table; returns where the field ends. at: its letter."""
    letter: i64 = raw[at]
    at += 1
    if letter == _S:
        end: i64 = at + 4 + i64(read_i32_be(raw, at))
        if is_4 and not _is_text(raw[at + 4 : end]):
            _write_sized(writer, raw, BINARY8, at, end)
        else:
            _write_sized(writer, raw, STRING8, at, end)
        return end
    if letter == _I:
        number: i64 = i64(read_i32_be(raw, at))
        _write_signed(writer, raw, at, at + 4, number, SMALL_INT, INT)
        return at + 4
    if letter in (_l, _L):
        number = read_i64_be(raw, at)
        _write_signed(writer, raw, at, at + 8, number, SMALL_LONG, LONG)
        return at + 8
    size: i64 = _FIXED_SIZES[letter]
    if size:
        writer.append(_FIXED_CODES[letter])
        copy_part(writer, raw, at, at + size)
        return at + size
    return _write_rare_field(writer, raw, at, letter, is_4, depth)


def _write_rare_field(
    writer: BytesWriter, raw: bytes, at: i64, letter: i64, is_4: bool, depth: i64
) -> i64:
    """As `write_field`, for the types that few headers have. at: after the letter."""
    if letter == _t:
        writer.append(BOOLEAN)
        writer.append(1 if raw[at] else 0)
        return at + 1
    if letter == _i:
        write_uint(writer, i64(read_i32_be(raw, at)) & UNSIGNED)
        return at + 4
    if letter == _T:
        write_time(writer, raw, at)
        return at + 8
    if letter == _x:
        end: i64 = at + 4 + i64(read_i32_be(raw, at))
        _write_sized(writer, raw, BINARY8, at, end)
        return end
    if letter in (_A, _F) and depth < NESTING_MAX:
        return _write_compound(writer, raw, at, letter, is_4, depth)
    writer.append(NULL)
    return at if letter == _V else field_end(raw, at - 1)


def _write_compound(
    writer: BytesWriter, raw: bytes, at: i64, letter: i64, is_4: bool, depth: i64
) -> i64:
    """Write an array as a list, or a table as a map. at: its size."""
    end: i64 = at + 4 + i64(read_i32_be(raw, at))
    at += 4
    start: i64 = len(writer)
    if at == end and letter == _A:
        writer.append(EMPTY_LIST)
        return end
    writer.write(_LIST if letter == _A else _MAP)
    count: i64 = 0
    while at < end:
        if letter == _F:
            value_at: i64 = at + 1 + raw[at]
            writer.append(SYMBOL8)
            copy_part(writer, raw, at, value_at)
            at = value_at
            count += 1
        at = write_field(writer, raw, at, is_4, depth + 1)
        count += 1
    end_compound(writer, start, count)
    return end


def end_compound(writer: BytesWriter, start: i64, count: i64) -> None:
    """Set the size and the count of a value, whose bytes begin at `start` with its code."""
    size: i64 = len(writer) - start - 2
    if size <= _SHORT_MAX and count <= _SHORT_MAX:
        writer[start + 1] = u8(size)
        writer[start + 2] = u8(count)
        return
    written = writer.getvalue()
    writer.truncate(start)
    writer.append(written[start] + TO_LARGE)
    write_i32_be(writer, i32(size + 3))
    write_i32_be(writer, i32(count))
    writer.write(written[start + _COMPOUND_HEAD_BYTES :])


def _write_sized(writer: BytesWriter, raw: bytes, code: int, at: i64, end: i64) -> None:
    """Write the long string from `at`, its size, to `end`. code: of the short form."""
    if end - at - 4 <= _SHORT_MAX:
        writer.append(code)
        copy_part(writer, raw, at + 3, end)
    else:
        writer.append(code + TO_LARGE)
        copy_part(writer, raw, at, end)


def _write_signed(
    writer: BytesWriter, raw: bytes, at: i64, end: i64, number: i64, small: int, large: int
) -> None:
    """Write a number whose bytes are from `at` to `end`, in one byte if that is enough."""
    if -128 <= number < 128:
        writer.append(small)
        writer.append(raw[end - 1])
    else:
        writer.append(large)
        copy_part(writer, raw, at, end)


def write_uint(writer: BytesWriter, number: i64) -> None:
    """Write a number of at most 32 bits."""
    if number == 0:
        writer.append(ZERO_UINT)
    elif number <= _SHORT_MAX:
        writer.append(SMALL_UINT)
        writer.append(u8(number))
    else:
        writer.append(UINT)
        writer.write(int(number).to_bytes(4, "big"))


def write_time(writer: BytesWriter, raw: bytes, at: i64) -> None:
    """Write a time in seconds as one in milliseconds."""
    seconds: i64 = read_i64_be(raw, at)
    if seconds < 0 or seconds > _SECONDS_MAX:
        seconds = _SECONDS_MAX
    writer.append(TIME)
    write_i64_be(writer, seconds * 1000)


def _is_text(data: bytes) -> bool:
    """Whether 4.0 takes these bytes for a text."""
    if len(data) > TEXT_BYTES_MAX or b"\0" in data:
        return False
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
