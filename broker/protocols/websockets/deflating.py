"""Compressed messages of WebSockets (permessage-deflate, RFC 7692), each on its own. Pure.

No context is kept between messages: a client costs no memory for it, but similar messages compress
a little less. A message is inflated as its bytes come. The inflated size of one read is limited,
because a few bytes can inflate to very many.
"""

import zlib
from typing import Final

DEFLATED_BYTES_MIN: Final = 64
"""Compression does not make shorter messages smaller."""
INFLATED_BYTES_MAX: Final = 16 * 1024 * 1024
"""The limit of the inflated bytes of one read."""
_WINDOW_BITS: Final = -15
_LEVEL: Final = 1
_TAIL: Final = b"\x00\x00\xff\xff"
"""The end of a block, which senders leave out (7.2.1)."""


class InflatingRefused(Exception):
    """The bytes are not a compressed message, or inflate to too many bytes."""

    def __init__(self, is_too_large: bool) -> None:
        super().__init__(is_too_large)
        self.is_too_large = is_too_large


class Inflating:
    """One compressed message."""

    __slots__ = ("_zlib",)

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(_WINDOW_BITS)

    def add(self, data: bytes, is_last: bool, room: int) -> bytes:
        """Inflate the next bytes, to at most `room`. Raises InflatingRefused."""
        try:
            inflated = self._zlib.decompress(data + _TAIL if is_last else data, room + 1)
        except zlib.error:
            raise InflatingRefused(is_too_large=False) from None
        if len(inflated) > room:
            raise InflatingRefused(is_too_large=True)
        return inflated


def deflate(data: bytes) -> bytes:
    """A message compressed."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS)
    return (compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH))[: -len(_TAIL)]
