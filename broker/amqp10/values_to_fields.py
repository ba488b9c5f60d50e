"""Writes values of AMQP 1.0 as fields of tables, without decoding them. Pure."""

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, u8

from leveret.broker.amqp10.short_copies import copy_part
from leveret.broker.amqp10.type_codes import (
    BINARY8,
    BINARY32,
    BOOLEAN,
    FALSE,
    NULL,
    SMALL_INT,
    SMALL_LONG,
    SMALL_UINT,
    SMALL_ULONG,
    STRING8,
    STRING32,
    SYMBOL8,
    SYMBOL32,
    TIME,
    TRUE,
    ZERO_UINT,
    ZERO_ULONG,
)

OTHER: Final = -1
"""Stands for a place after a value of a form that is not understood here."""
_x: Final = ord("x")
_b: Final = ord("b")
_B: Final = ord("B")
_d: Final = ord("d")
_f: Final = ord("f")
_i: Final = ord("i")
_I: Final = ord("I")
_l: Final = ord("l")
_s: Final = ord("s")
_S: Final = ord("S")
_t: Final = ord("t")
_T: Final = ord("T")
_u: Final = ord("u")
_V: Final = ord("V")


def _by_code(octets: dict[int, int]) -> bytes:
    table = bytearray(256)
    for code, octet in octets.items():
        table[code] = octet
    return bytes(table)


_FIXED_LETTERS: Final = _by_code(
    {
        0x50: _B, 0x51: _b, 0x60: _u, 0x61: _s, 0x70: _i, 0x71: _I, 0x72: _f, 0x80: _l, 0x81: _l,
        0x82: _d,
    }
)  # fmt: skip
"""By the code of a value whose bytes are the same in a table: the letter; otherwise 0."""
_FIXED_SIZES: Final = _by_code(
    {0x50: 1, 0x51: 1, 0x60: 2, 0x61: 2, 0x70: 4, 0x71: 4, 0x72: 4, 0x80: 8, 0x81: 8, 0x82: 8}
)


def write_field(writer: BytesWriter, data: bytes, at: i64, is_4: bool) -> i64:
    """Write the value at `at` as a field of a table; returns where it ends, or `OTHER`."""
    code: i64 = data[at]
    at += 1
    if code in (STRING8, SYMBOL8, BINARY8):
        writer.append(_S if is_4 or code != BINARY8 else _x)
        writer.write(b"\0\0\0")
        end: i64 = at + 1 + data[at]
        copy_part(writer, data, at, end)
        return end
    if code == SMALL_INT:
        writer.append(_I)
        write_i32_be(writer, i32(_signed(data[at])))
        return at + 1
    letter: i64 = _FIXED_LETTERS[code]
    if letter:
        end = at + _FIXED_SIZES[code]
        writer.append(u8(letter))
        copy_part(writer, data, at, end)
        return end
    return _write_rare_field(writer, data, at, code, is_4)


def _write_rare_field(writer: BytesWriter, data: bytes, at: i64, code: i64, is_4: bool) -> i64:
    """As `write_field`, for types that few headers have. at: after the code."""
    if code in (BOOLEAN, TRUE, FALSE):
        writer.append(_t)
        if code == BOOLEAN:
            writer.append(1 if data[at] else 0)
            return at + 1
        writer.append(1 if code == TRUE else 0)
        return at
    if code in (STRING32, SYMBOL32, BINARY32):
        end: i64 = at + 4 + i64(read_i32_be(data, at))
        if end < at or end > len(data):
            return OTHER
        writer.append(_S if is_4 or code != BINARY32 else _x)
        copy_part(writer, data, at, end)
        return end
    if code in (SMALL_UINT, ZERO_UINT):
        writer.append(_i)
        writer.write(b"\0\0\0")
        writer.append(data[at] if code == SMALL_UINT else 0)
        return at + 1 if code == SMALL_UINT else at
    if code == SMALL_LONG:
        writer.append(_l)
        write_i64_be(writer, _signed(data[at]))
        return at + 1
    if code in (SMALL_ULONG, ZERO_ULONG):
        writer.append(_l)
        write_i64_be(writer, i64(data[at]) if code == SMALL_ULONG else 0)
        return at + 1 if code == SMALL_ULONG else at
    if code == TIME:
        writer.append(_T)
        milliseconds: i64 = read_i64_be(data, at)
        write_i64_be(writer, milliseconds // 1000 if milliseconds > 0 else 0)
        return at + 8
    if code == NULL:
        writer.append(_V)
        return at
    return OTHER


def _signed(octet: i64) -> i64:
    return octet - 256 if octet > 127 else octet
