"""Compression of frames: the available methods, and compressing and decompressing payloads.

In the handshake, a node names the methods that it can read, and the one that it prefers to send. It
uses that method if the peer can read it, else deflate, which every node can read. So each direction
of a link has its own method, and a cluster can be reconfigured node by node. A method whose package
is not installed is not offered.

A compressed payload is its original size (4 octets) and the compressed bytes. Only payloads from
OCTETS_MIN to OCTETS_MAX are compressed, and only if that makes them smaller. So no frame takes more
than a few milliseconds or yields more than OCTETS_MAX octets, whatever a peer sends.
"""

import struct
import zlib
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from isal import isal_zlib

from leveret.cluster.links.frames import FRAME_OCTETS_MAX

NONE, LZ4, ZSTD, DEFLATE = "none", "lz4", "zstd", "deflate"
PACKAGES = {LZ4: "lz4", ZSTD: "zstandard"}
"""The packages of the methods that Leveret does not require."""

OCTETS_MIN = 512
"""Below this the calls cost more than the bytes that they save."""
OCTETS_MAX = 2 * 1024 * 1024
"""5 to 10 ms of one processor with the slowest method."""
DEFLATE_LEVEL, ZSTD_LEVEL = 1, 1
"""The fastest levels that find repetitions."""

SIZE = struct.Struct(">I")
assert OCTETS_MAX < FRAME_OCTETS_MAX


class CompressionError(Exception):
    """A payload cannot be decompressed. The text describes the defect."""


class Method(Protocol):
    """A method of compression."""

    def compress(self, data: bytes) -> bytes:
        """The data in fewer bytes, or in more."""

    def decompress(self, data: bytes, octets: int) -> bytes:
        """The original data, which have at most this number of octets.

        Raises any exception for data that are damaged.
        """


class Deflate:
    """Compresses with isal, several times faster than zlib; decompresses with zlib, which has a
    limit.
    """

    def compress(self, data: bytes) -> bytes:
        """The data in fewer bytes, or in more."""
        return isal_zlib.compress(data, DEFLATE_LEVEL)

    def decompress(self, data: bytes, octets: int) -> bytes:
        """The original data."""
        reader = zlib.decompressobj()
        made = reader.decompress(data, octets)
        if not reader.eof:
            raise zlib.error("it has more bytes than it states, or an end that is missing")
        return made


class Lz4:
    """The block format, without a frame: the size is stated in front of it."""

    def __init__(self) -> None:
        self._block: Any = import_module("lz4.block")

    def compress(self, data: bytes) -> bytes:
        """The data in fewer bytes, or in more."""
        made: bytes = self._block.compress(data, store_size=False)
        return made

    def decompress(self, data: bytes, octets: int) -> bytes:
        """The original data."""
        made: bytes = self._block.decompress(data, uncompressed_size=octets)
        return made


class Zstd:
    """Zstandard frames that state the size of their content."""

    def __init__(self) -> None:
        self._package: Any = import_module("zstandard")
        self._writer = self._package.ZstdCompressor(level=ZSTD_LEVEL)
        self._reader = self._package.ZstdDecompressor()

    def compress(self, data: bytes) -> bytes:
        """The data in fewer bytes, or in more."""
        made: bytes = self._writer.compress(data)
        return made

    def decompress(self, data: bytes, octets: int) -> bytes:
        """The original data."""
        # The size in the frame takes precedence over any limit that is passed.
        if self._package.get_frame_parameters(data).content_size != octets:
            raise CompressionError("its size is not the one that is stated")
        made: bytes = self._reader.decompress(data, max_output_size=octets)
        return made


METHODS: dict[str, Callable[[], Method]] = {LZ4: Lz4, ZSTD: Zstd, DEFLATE: Deflate}


def readable_methods() -> tuple[str, ...]:
    """The methods that this node can read and write, by name."""
    return tuple(name for name in METHODS if is_installed(name))


def is_installed(method: str) -> bool:
    """Whether a method can be used here."""
    package = PACKAGES.get(method)
    return package is None or find_spec(package) is not None


def chosen_method(configured: str, readable: tuple[str, ...]) -> str:
    """The method for a peer. readable: the methods that the peer can read."""
    if configured in (NONE, *readable):
        return configured
    return DEFLATE if DEFLATE in readable else NONE


class Compressor:
    """Compresses the payloads of one link. method: not NONE."""

    __slots__ = ("_compress",)

    def __init__(self, method: str) -> None:
        self._compress = METHODS[method]().compress

    def compressed(self, payload: bytes) -> bytes | None:
        """The compressed payload with its size in front; None to send it uncompressed."""
        size = len(payload)
        if not OCTETS_MIN <= size <= OCTETS_MAX:
            return None
        made = SIZE.pack(size) + self._compress(payload)
        return made if len(made) < size else None


class Decompressor:
    """Decompresses the payloads of one link. method: not NONE."""

    __slots__ = ("_decompress",)

    def __init__(self, method: str) -> None:
        self._decompress = METHODS[method]().decompress

    def original(self, compressed: bytes) -> bytes:
        """The payload that was compressed. Raises CompressionError."""
        if len(compressed) < SIZE.size:
            raise CompressionError("it has no size")
        (size,) = SIZE.unpack_from(compressed)
        if size > OCTETS_MAX:
            raise CompressionError(f"it states {size} octets, at most {OCTETS_MAX} are valid")
        try:
            made = self._decompress(compressed[SIZE.size :], size)
        except Exception as error:
            # The packages have their own exceptions, none of which is more specific.
            raise CompressionError(f"its content is damaged: {error}") from error
        if len(made) != size:
            raise CompressionError(f"it states {size} octets and has {len(made)}")
        return made
