"""Erlang's `phash2`: a hash of a term that is the same on every machine and in every release.

RabbitMQ names a binding in a URL by the hash of its arguments, so tools that compute or store such
a name need the same number here. Erlang's manual documents `phash2` in the module `erlang`. The
numbers here are those of Erlang/OTP 25 for a range of 2^32.

Promise: `phash2(term)` is `erlang:phash2(Term, 1 bsl 32)` for every term that `terms` names, at any
depth. Not promised: maps, which AMQP does not have.

Mechanism: the hash is one number of 32 bits. The leaves of the term are mixed into it from left to
right, each with a constant of its kind, so each step depends on all that came before. The mixing is
that of Bob Jenkins' hash `lookup2`. The terms that are not mixed yet are on a stack, as a client
chooses how deep a term is.

Invariants: 1. The hash is between 0 and 2^32 - 1 after each step.
2. The top of the stack is the leftmost term that is not in the hash.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from leveret.broker.erlang.terms import Atom, String

_BITS_32 = 0xFFFFFFFF
_GOLDEN_RATIO = 0x9E3779B9


def _constant(number: int) -> int:
    """The constant of a kind of term: a multiple of the golden ratio."""
    return _GOLDEN_RATIO * number & _BITS_32


_SMALL_INTEGER = _constant(1)
_LIST_END = _constant(2)
_ATOM = _constant(3)
_CHARACTERS = _constant(4)
_TUPLE = _constant(9)
_NEGATIVE = _constant(10)
_POSITIVE = _constant(11)
_FLOAT = _constant(12)
_BINARY = _constant(13)

_SMALL_INTEGER_END = 1 << 27
"""Integers from minus this to below it are mixed as one word."""
_EMPTY_LIST = 3468870702
"""The hash of an empty list on its own."""
_END = 2
"""The number that is mixed for the end of a list."""
_BLOCK = struct.Struct("<III")
_DOUBLE = struct.Struct(">d")
_WORDS = struct.Struct(">II")


class _Rest(NamedTuple):
    """The elements of a list from a position on."""

    elements: Sequence[Any]
    start: int


def phash2(term: Any) -> int:
    """The hash of a term, below 2^32. Raises TypeError for other values, and for maps."""
    mixed = 0
    due: list[Any] = [term]
    while due:
        one = due.pop()
        match one:
            case _Rest(elements, start):
                mixed = _mix_list(mixed, elements, start, due)
            case String():
                mixed = _mix_list(mixed, [ord(character) for character in one], 0, due)
            case list():
                mixed = _mix_list(mixed, one, 0, due)
            case tuple():
                mixed = _mix_words(len(one), 0, _TUPLE, mixed)
                due.extend(reversed(one))
            case _:
                mixed = _mix_leaf(mixed, one)
        assert 0 <= mixed <= _BITS_32, "invariant 1"
    return mixed


def _mix_list(mixed: int, elements: Sequence[Any], start: int, due: list[Any]) -> int:
    """Mix the rest of a list up to its first element that is not a byte; what follows is due.

    Bytes are mixed as characters, four at once.
    """
    end = start
    while end < len(elements) and _is_byte(elements[end]):
        end += 1
    for place in range(start, end, 4):
        word = int.from_bytes(bytes(elements[place : min(place + 4, end)]), "big")
        mixed = _mix_words(word, 0, _CHARACTERS, mixed)
    if end < len(elements):
        due += [_Rest(elements, end + 1), elements[end]]
        return mixed
    return _mix_words(_END, 0, _LIST_END, mixed) if mixed else _EMPTY_LIST


def _is_byte(term: Any) -> bool:
    return isinstance(term, int) and not isinstance(term, bool) and 0 <= term <= 255


def _mix_leaf(mixed: int, term: Any) -> int:
    """Mix a term that has no terms in it."""
    match term:
        case Atom():
            return _mix_atom(mixed, term)
        case bool():
            return _mix_atom(mixed, "true" if term else "false")
        case None:
            return _mix_atom(mixed, "null")
        case str():
            return _mix_binary(mixed, term.encode("utf-8", "surrogateescape"))
        case bytes():
            return _mix_binary(mixed, term)
        case float():
            # The negative zero equals the positive one, and has its hash.
            high, low = _WORDS.unpack(_DOUBLE.pack(term or 0.0))
            return _mix_words(high, low, _FLOAT, mixed)
        case int():
            return _mix_integer(mixed, term)
        case _:
            raise TypeError(f"phash2 of {type(term).__name__}: it has to be a term, and not a map")


def _mix_integer(mixed: int, number: int) -> int:
    if -_SMALL_INTEGER_END <= number < _SMALL_INTEGER_END:
        if number < 0:
            mixed = _mix_words(-number, 0, _SMALL_INTEGER, mixed)
        return _mix_words(number, 0, _SMALL_INTEGER, mixed)
    kind, left = (_NEGATIVE, -number) if number < 0 else (_POSITIVE, number)
    while left:
        mixed = _mix_words(left & _BITS_32, left >> 32 & _BITS_32, kind, mixed)
        left >>= 64
    return mixed


def _mix_atom(mixed: int, name: str) -> int:
    """Mix an atom; if it is the first term, the result is its own hash."""
    number = 0
    for character in _characters(name):
        number = (number << 4) + character
        high = number & 0xF0000000
        number ^= high >> 24 ^ high
    return _mix_words(number, 0, _ATOM, mixed) if mixed else number


def _characters(name: str) -> list[int]:
    """The numbers that an atom is hashed by: characters of Latin-1, or bytes of UTF-8."""
    numbers: list[int] = []
    for character in name:
        numbers += [ord(character)] if character <= "\xff" else character.encode()
    return numbers


def _mix_binary(mixed: int, data: bytes) -> int:
    """Mix a binary by blocks of 12 bytes; the last one is filled up with zeros and the length."""
    c = _BINARY + mixed & _BITS_32
    if not data:
        return c
    a = b = _GOLDEN_RATIO
    whole = len(data) - len(data) % _BLOCK.size
    for one, two, three in _BLOCK.iter_unpack(data[:whole]):
        a, b, c = _mix(a + one, b + two, c + three & _BITS_32)
    # The lowest byte of the third word is the length's.
    end = data[whole:]
    one, two, three = _BLOCK.unpack((end[:8].ljust(8, b"\0") + b"\0" + end[8:]).ljust(12, b"\0"))
    return _mix(a + one, b + two, c + three + len(data) & _BITS_32)[2]


def _mix_words(one: int, other: int, kind: int, mixed: int) -> int:
    return _mix(kind + one, kind + other, mixed)[2]


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Mix three words, of which `c` has 32 bits and the others are taken modulo 2^32."""
    a = (a - b - c ^ c >> 13) & _BITS_32
    b = (b - c - a ^ a << 8) & _BITS_32
    c = (c - a - b ^ b >> 13) & _BITS_32
    a = (a - b - c ^ c >> 12) & _BITS_32
    b = (b - c - a ^ a << 16) & _BITS_32
    c = (c - a - b ^ b >> 5) & _BITS_32
    a = (a - b - c ^ c >> 3) & _BITS_32
    b = (b - c - a ^ a << 10) & _BITS_32
    c = (c - a - b ^ b >> 15) & _BITS_32
    return a, b, c
