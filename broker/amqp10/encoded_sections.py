"""Finds the sections of an encoded message, and the values in them, without decoding these.

The functions raise what is in `DAMAGED` for bytes that are no message of AMQP 1.0.
"""

from collections.abc import Iterator
from struct import Struct, error
from typing import Final, NamedTuple

from leveret.broker.amqp10.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from leveret.broker.amqp10.values import Amqp10Error, decode, end_of_value

DAMAGED: Final = (IndexError, Amqp10Error, error)
_UINT: Final = Struct(">I")
_SMALL_ULONG: Final = 0x53
_EMPTY_LIST: Final = 0x45
_SMALL: Final = frozenset((0xC0, 0xC1))
_LARGE: Final = frozenset((0xD0, 0xD1))
_TEXT_HEADS: Final = {0xA1: 2, 0xA3: 2, 0xB1: 5, 0xB3: 5}
"""How many bytes are before those of a string or symbol."""
_NAMES: Final = {
    "amqp:header:list": HEADER, "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS, "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
}  # fmt: skip


class SectionPlaces(NamedTuple):
    """Where the sections of a message are.

    contents: of those before the body, by their codes. bare_at: where the first section behind the
    annotations begins, which intermediaries do not change.
    """

    contents: dict[int, int]
    bare_at: int


def find_sections(data: bytes, at: int, end: int) -> SectionPlaces:
    """The sections of the message from `at` to `end`."""
    contents: dict[int, int] = {}
    bare_at = -1
    while at < end:
        begin = at
        code, at = _code_of_section(data, at)
        if bare_at < 0 and code not in (HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS):
            bare_at = begin
        if not HEADER <= code < DATA:
            break
        contents[code] = at
        at = end_of_value(data, at)
    if at > end:
        raise IndexError
    return SectionPlaces(contents, end if bare_at < 0 else bare_at)


def _code_of_section(data: bytes, at: int) -> tuple[int, int]:
    """The code of a section, and where its content begins."""
    if data[at]:
        raise Amqp10Error("a section has no descriptor")
    if data[at + 1] == _SMALL_ULONG:
        return data[at + 2], at + 3
    descriptor, at = decode(data, at + 1)
    if descriptor.kind == "ulong":
        return descriptor.value, at
    return (_NAMES.get(descriptor.value, DATA) if descriptor.kind == "symbol" else DATA), at


def items_of(data: bytes, at: int) -> Iterator[int]:
    """Where each value of a list or map begins."""
    code = data[at]
    if code == _EMPTY_LIST:
        return
    if code in _SMALL:
        count, at = data[at + 2], at + 3
    elif code in _LARGE:
        count, at = _UINT.unpack_from(data, at + 5)[0], at + 9
    else:
        raise Amqp10Error("a section is neither a list nor a map")
    for _ in range(count):
        yield at
        at = end_of_value(data, at)


def text_at(data: bytes, at: int, end: int) -> bytes | None:
    """The bytes of the string or symbol from `at` to `end`; None if it is of another type."""
    head = _TEXT_HEADS.get(data[at])
    return None if head is None else data[at + head : end]


def find_entry(data: bytes, at: int, name: bytes) -> int:
    """Where the value with this name begins in the map at a place; -1 if there is none.

    Of several with one name, it is the last one.
    """
    found = -1
    places = items_of(data, at)
    for key_at in places:
        value_at = next(places)
        if text_at(data, key_at, value_at) == name:
            found = value_at
    return found
