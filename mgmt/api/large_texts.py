"""Large texts in JSON: cut out of it, and decoded to slices.

Skipping a text of 17 MB, decoding, joining or copying it takes 10 ms each, and up to 30 if it has
characters of four bytes; the system takes most of that to allocate memory. So each step handles
`SLICE_BYTES` of it, and nothing joins it.

A text of more than `SLICE_BYTES` is large. `cut` replaces each by a random placeholder, which a
client cannot guess. The rest is decoded as any JSON, with the placeholder where the text was.
"""

import re
import secrets
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from leveret.mgmt.http.json_texts import SLICE_BYTES, end_of_text
from leveret.mgmt.slices import GiveWay

_CUT_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?$")
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?$")
_CHARACTER_BYTES_MAX = 4
_ESCAPE_BYTES_MAX = 12
"""Of a surrogate pair: two escapes of four digits."""


class LargeText:
    """A text in slices, none of which is empty."""

    __slots__ = ("slices",)

    def __init__(self, slices: Sequence[str]) -> None:
        self.slices = slices

    def __str__(self) -> str:
        """The whole text, in the time that the module states."""
        return "".join(self.slices)


class CutText(NamedTuple):
    """JSON without its large texts. rest: the remaining JSON; None if it is too long.

    places: the positions of the texts, by their placeholders.
    """

    rest: bytes | None
    places: dict[str, tuple[int, int]]


async def cut(raw: bytes, rest_bytes_max: int, give_way: GiveWay) -> CutText:
    """Cut large texts out of JSON. Raises msgspec.DecodeError if a text does not end."""
    mark = secrets.token_hex(16)
    pieces: list[bytes] = []
    places: dict[str, tuple[int, int]] = {}
    rest_bytes = copied = 0
    place = raw.find(b'"')
    while place >= 0:
        start, end = place + 1, await end_of_text(raw, place + 1, give_way)
        if end - start > SLICE_BYTES:
            name = f"{mark}{len(places)}"
            pieces += (raw[copied:start], name.encode())
            rest_bytes += start - copied + len(name)
            places[name] = start, end
            copied = end
        if rest_bytes + end - copied > rest_bytes_max:
            return CutText(None, places)
        place = raw.find(b'"', end + 1)
    if rest_bytes + len(raw) - copied > rest_bytes_max:
        return CutText(None, places)
    pieces.append(raw[copied:])
    return CutText(b"".join(pieces), places)


async def decode(raw: bytes, start: int, end: int, give_way: GiveWay) -> LargeText:
    """The text at a place. Raises msgspec.DecodeError."""
    encoded = memoryview(raw)
    slices = []
    while start < end:
        stop = end if end - start <= SLICE_BYTES else _place_to_cut(encoded, start)
        slices.append(msgspec.json.decode(b'"%b"' % bytes(encoded[start:stop]), type=str))
        start = stop
        await give_way()
    return LargeText(slices)


def _place_to_cut(encoded: memoryview, start: int) -> int:
    """Where a slice ends that begins at `start`: not in an escape, nor in a character."""
    place = start + SLICE_BYTES
    for _ in range(_CHARACTER_BYTES_MAX - 1):
        if encoded[place] & 0xC0 == 0x80:
            place -= 1
    before = encoded[place - _ESCAPE_BYTES_MAX : place]
    for pattern in (_HIGH_SURROGATE, _CUT_ESCAPE):
        found = pattern.search(before)
        if found is not None:
            escape = place - len(before) + found.start()
            if _is_unescaped(bytes(encoded[start:escape])):
                return escape
    return place


def _is_unescaped(before: bytes) -> bool:
    """Whether a backslash that follows this is not escaped itself."""
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 0
