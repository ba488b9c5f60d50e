"""Decompresses HTTP bodies that their sender has compressed (RFC 9110, 8.4), in slices.

aiohttp would decompress a body before its size is known, so that is switched off. Here the
compressed body is complete, and each step decompresses `SLICE_BYTES` of it. It stops at the size
limit, and at data that expand more than any text that people write: a few kilobytes of compressed
zeros stand for megabytes. Gzip data may have several members in sequence (RFC 1952, 2.2), as
`cat a.gz b.gz` and programs that compress in pieces make them; the limits are for all members
together.
"""

import zlib
from collections.abc import Generator, Iterator, Sequence
from io import BytesIO

from leveret.mgmt.slices import GiveWay

GZIP, DEFLATE = "gzip", "deflate"
CODINGS = (GZIP, DEFLATE)
"""The supported codings, as the header `Accept-Encoding` lists them."""
ALIASES = {"x-gzip": GZIP}
SLICE_BYTES = 64 * 1024
"""Takes a tenth of a millisecond, or half of one with data that are hard to decompress."""
EXPANSION_MAX = 100
"""Definitions of 50,000 queues with almost the same names expand by 25."""
EXPANSION_BYTES_MIN = 1_000_000
"""Smaller data may expand by any factor."""
GZIP_MARK = b"\x1f\x8b"
"""The first bytes of a gzip member."""
MEMBERS_MAX = 10_000
"""An empty member has 20 bytes, and takes as long to decompress as a slice."""
GZIP_WINDOW, ZLIB_WINDOW, RAW_WINDOW = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS


class CodingError(ValueError):
    """A body cannot be decompressed. The text says why, as a sentence about the body."""


class TooLargeError(CodingError):
    """The decompressed body is over the limit."""


def codings_of(values: Sequence[str]) -> list[str]:
    """The codings that headers `Content-Encoding` name, without `identity`, which is none."""
    named = (name.strip().lower() for value in values for name in value.split(","))
    return [ALIASES.get(name, name) for name in named if name not in ("", "identity")]


async def decoded(raw: bytes, codings: Sequence[str], bytes_max: int, give_way: GiveWay) -> bytes:
    """The body that was compressed. Raises CodingError, and TooLargeError above `bytes_max`."""
    if not codings:
        return raw
    if len(codings) > 1:
        raise CodingError(f"it is compressed {len(codings)} times ({', '.join(codings)})")
    if codings[0] not in CODINGS:
        raise CodingError(f"its coding '{codings[0]}' is not one of {', '.join(CODINGS)}")
    try:
        return await _decompressed(raw, _window(codings[0], raw), bytes_max, give_way)
    except zlib.error as error:
        raise CodingError(f"it is not valid {codings[0]} ({error})") from None


def _window(coding: str, raw: bytes) -> int:
    """The `wbits` of zlib. Some senders of `deflate` leave out its head, which has method 8."""
    if coding == GZIP:
        return GZIP_WINDOW
    return ZLIB_WINDOW if raw[:1] and raw[0] & 0x0F == 8 else RAW_WINDOW


async def _decompressed(raw: bytes, window: int, bytes_max: int, give_way: GiveWay) -> bytes:
    gathered = BytesIO()
    expanded_max = max(EXPANSION_BYTES_MIN, EXPANSION_MAX * len(raw))
    for piece in _pieces(raw, window):
        gathered.write(piece)
        if gathered.tell() > bytes_max:
            raise TooLargeError(f"it has more than {bytes_max} bytes when it is decompressed")
        if gathered.tell() > expanded_max:
            raise CodingError(f"it expands to more than {EXPANSION_MAX} times its size")
        await give_way()
    return gathered.getvalue()


def _pieces(raw: bytes, window: int) -> Iterator[bytes]:
    """The decompressed data, `SLICE_BYTES` at a time. Raises CodingError, zlib.error."""
    taken, members = (yield from _member(raw, 0, window)), 1
    while window == GZIP_WINDOW and raw.startswith(GZIP_MARK, taken):
        if members == MEMBERS_MAX:
            raise CodingError(f"it has more than {MEMBERS_MAX} members of gzip")
        taken, members = (yield from _member(raw, taken, window)), members + 1
    if taken < len(raw):
        raise CodingError("bytes follow the end of the compressed data")


def _member(raw: bytes, taken: int, window: int) -> Generator[bytes, None, int]:
    """The decompressed data of the member that begins at a place. Returns the place of its end."""
    reader = zlib.decompressobj(window)
    while taken < len(raw) and not reader.eof:
        part = raw[taken : taken + SLICE_BYTES]
        yield reader.decompress(part, SLICE_BYTES)
        rest = reader.unused_data if reader.eof else reader.unconsumed_tail
        taken += len(part) - len(rest)
    # The reader may have taken all data and hold back what did not fit into the last piece.
    while not reader.eof:
        piece = reader.decompress(b"", SLICE_BYTES)
        if not piece:
            raise CodingError("the end of the compressed data is missing")
        yield piece
    return taken
