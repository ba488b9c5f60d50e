"""Damage to bytes: what a mutator changes, from a seed, so that any case can be made again."""

import random

INTERESTING_BYTES = (0, 1, 2, 0x7F, 0x80, 0xCE, 0xFF, *b"AFISVxtd")
INTERESTING_NUMBERS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64)
CHANGES_MAX = 4


def mutated(chance: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """The data with one to four changes, after which it differs.

    other: a piece of it may be put into the data.
    """
    changed = bytearray(data)
    while changed == data:
        for _ in range(int(chance.random() ** 3 * CHANGES_MAX) + 1):
            _CHANGES[int(chance.random() * len(_CHANGES))](chance, changed, other)
    return bytes(changed)


def _place(chance: random.Random, data: bytearray) -> int:
    return int(chance.random() * len(data))


def _set_byte(chance: random.Random, data: bytearray, _other: bytes) -> None:
    if data:
        data[_place(chance, data)] = INTERESTING_BYTES[
            int(chance.random() * len(INTERESTING_BYTES))
        ]


def _flip_bit(chance: random.Random, data: bytearray, _other: bytes) -> None:
    if data:
        data[_place(chance, data)] ^= 1 << int(chance.random() * 8)


def _set_number(chance: random.Random, data: bytearray, _other: bytes) -> None:
    """A number of 2, 4 or 8 bytes, as sizes and counts are; near its largest or the real size."""
    size = (2, 4, 8)[int(chance.random() * 3)]
    number = (*INTERESTING_NUMBERS, len(data))[int(chance.random() * 12)]
    number += int(chance.random() * 5) - 2
    order = "big" if chance.random() < 0.5 else "little"
    place = _place(chance, data)
    data[place : place + size] = (number % 2 ** (8 * size)).to_bytes(size, order)


def _cut_off(chance: random.Random, data: bytearray, _other: bytes) -> None:
    del data[_place(chance, data) :]


def _remove(chance: random.Random, data: bytearray, _other: bytes) -> None:
    place = _place(chance, data)
    del data[place : place + 1 + int(chance.random() * 8)]


def _insert(chance: random.Random, data: bytearray, _other: bytes) -> None:
    place = _place(chance, data)
    data[place:place] = chance.randbytes(1 + int(chance.random() * 8))


def _repeat(chance: random.Random, data: bytearray, _other: bytes) -> None:
    place = _place(chance, data)
    data[place:place] = data[place : place + 1 + int(chance.random() * 40)]


def _put_other(chance: random.Random, data: bytearray, other: bytes) -> None:
    start = int(chance.random() * len(other))
    place = _place(chance, data)
    piece = other[start : start + 1 + int(chance.random() * 40)]
    data[place : place + len(piece)] = piece


_CHANGES = (
    _set_byte, _set_byte, _set_byte, _flip_bit, _flip_bit, _set_number, _set_number, _cut_off,
    _remove, _insert, _repeat, _put_other,
)  # fmt: skip
