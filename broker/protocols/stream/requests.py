"""The requests of clients of the stream protocol, as values. All integers are big-endian.

    4 bytes   size of the rest
    2 bytes   key of the command; its highest bit is set in a response
    2 bytes   version
    the rest  fields. Most requests begin with a correlation id, which the response repeats

The entries of a publish are read by published.py.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from leveret.broker.protocols.stream import codes
from leveret.broker.queues.contract.offset_specification import (
    FIRST,
    LAST,
    NEXT,
    OFFSET,
    TIMESTAMP,
    OffsetSpecification,
)

HEAD_BYTES: Final = 4
"""The key and the version of a command."""
ITEMS_MAX: Final = 100_000
"""A list that claims more items is refused before any item is read."""

Properties = dict[str, str]


class FrameError(ValueError):
    """The bytes are not a command of a client: the connection is closed with `UNKNOWN_FRAME`."""


class ClientRequest(NamedTuple):
    """A command of a client. key: one of codes.py. version: the version of the command.

    correlation: the id that the response repeats; None if there is no response. fields: the other
    fields, in order.
    """

    key: int
    version: int
    correlation: int | None
    fields: tuple[Any, ...]


class Fields:
    """Reads the fields of a command, one after the other. Raises FrameError."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    @property
    def is_at_end(self) -> bool:
        """Whether all fields were read."""
        return self._at >= len(self._data)

    def number(self, form: struct.Struct) -> int:
        """A number."""
        try:
            number: int = form.unpack_from(self._data, self._at)[0]
        except struct.error:
            raise FrameError("a command ends in the middle of a field") from None
        self._at += form.size
        return number

    def octets(self, size: int) -> bytes:
        """A fixed number of bytes."""
        data = self._data[self._at : self._at + size]
        if len(data) < size:
            raise FrameError("a command ends in the middle of a field")
        self._at += size
        return data

    def string(self) -> str:
        """A text."""
        size = self.number(SHORT)
        if size < 0:
            raise FrameError("a text is null")
        return self.octets(size).decode("utf-8", "surrogateescape")

    def data(self) -> bytes:
        """Bytes; empty if they are null or missing."""
        size = -1 if self.is_at_end else self.number(INT)
        return self.octets(size) if size >= 0 else b""

    def list_of(self, read: Callable[[], Any]) -> list[Any]:
        """A list of items, each of which `read` reads."""
        count = self.number(INT)
        if not 0 <= count <= ITEMS_MAX:
            raise FrameError(f"a list has {count} items")
        return [read() for _ in range(count)]

    def properties(self) -> Properties:
        """Pairs of texts; empty if they are missing."""
        return {} if self.is_at_end else dict(self.list_of(lambda: (self.string(), self.string())))

    def offset(self) -> OffsetSpecification | None:
        """The start of a reader; None if the broker may choose it."""
        kind = self.number(USHORT)
        if kind == _BY_OFFSET:
            return OffsetSpecification(OFFSET, self.number(ULONG))
        if kind == _BY_TIME:
            return OffsetSpecification(TIMESTAMP, max(0, self.number(LONG)))
        if kind not in _OFFSETS:
            raise FrameError(f"there is no type {kind} of an offset")
        return _OFFSETS[kind]

    def versions(self) -> tuple[int, int, int]:
        """A command with its lowest and highest version."""
        return self.number(USHORT), self.number(USHORT), self.number(USHORT)


def decode_request(data: bytes) -> ClientRequest:
    """The command in a frame without its size. Raises FrameError."""
    fields = Fields(data)
    key, version = fields.number(USHORT), fields.number(USHORT)
    lowest, highest = codes.VERSIONS.get(key & ~codes.RESPONSE, (1, 0))
    reader = _READERS.get(key)
    if reader is None or not lowest <= version <= highest:
        raise FrameError(f"a client sends no command {key:#06x} of version {version}")
    correlation = fields.number(UINT) if key not in _WITHOUT_CORRELATION else None
    return ClientRequest(key, version, correlation, reader(fields))


UBYTE = struct.Struct(">B")
USHORT = struct.Struct(">H")
SHORT = struct.Struct(">h")
UINT = struct.Struct(">I")
INT = struct.Struct(">i")
ULONG = struct.Struct(">Q")
LONG = struct.Struct(">q")
_BY_OFFSET: Final = 4
_BY_TIME: Final = 5
_OFFSETS: Final = {0: None, 1: FIRST, 2: LAST, 3: NEXT}

_WITHOUT_CORRELATION: Final = frozenset(
    (
        codes.PUBLISH, codes.CREDIT, codes.STORE_OFFSET, codes.HEARTBEAT, codes.TUNE,
        codes.TUNE | codes.RESPONSE,
    )
)  # fmt: skip
_READERS: Final[dict[int, Callable[[Fields], tuple[Any, ...]]]] = {
    codes.DECLARE_PUBLISHER: lambda read: (read.number(UBYTE), read.string(), read.string()),
    codes.PUBLISH: lambda read: (read.number(UBYTE), read.number(UINT)),
    codes.QUERY_PUBLISHER_SEQUENCE: lambda read: (read.string(), read.string()),
    codes.DELETE_PUBLISHER: lambda read: (read.number(UBYTE),),
    codes.SUBSCRIBE: lambda read: (
        read.number(UBYTE), read.string(), read.offset(), read.number(USHORT), read.properties(),
    ),
    codes.CREDIT: lambda read: (read.number(UBYTE), read.number(SHORT)),
    codes.STORE_OFFSET: lambda read: (read.string(), read.string(), read.number(ULONG)),
    codes.QUERY_OFFSET: lambda read: (read.string(), read.string()),
    codes.UNSUBSCRIBE: lambda read: (read.number(UBYTE),),
    codes.CREATE: lambda read: (read.string(), read.properties()),
    codes.DELETE: lambda read: (read.string(),),
    codes.METADATA: lambda read: (read.list_of(read.string),),
    codes.PEER_PROPERTIES: lambda read: (read.properties(),),
    codes.SASL_HANDSHAKE: lambda read: (),
    codes.SASL_AUTHENTICATE: lambda read: (read.string(), read.data()),
    codes.TUNE: lambda read: (read.number(UINT), read.number(UINT)),
    codes.TUNE | codes.RESPONSE: lambda read: (read.number(UINT), read.number(UINT)),
    codes.OPEN: lambda read: (read.string(),),
    codes.CLOSE: lambda read: (read.number(USHORT), read.string()),
    codes.CLOSE | codes.RESPONSE: lambda read: (read.number(USHORT),),
    codes.HEARTBEAT: lambda read: (),
    codes.ROUTE: lambda read: (read.string(), read.string()),
    codes.PARTITIONS: lambda read: (read.string(),),
    codes.CONSUMER_UPDATE | codes.RESPONSE: lambda read: (read.number(USHORT), read.offset()),
    codes.EXCHANGE_COMMAND_VERSIONS: lambda read: (read.list_of(read.versions),),
    codes.STREAM_STATS: lambda read: (read.string(),),
    codes.CREATE_SUPER_STREAM: lambda read: (
        read.string(), read.list_of(read.string), read.list_of(read.string), read.properties(),
    ),
    codes.DELETE_SUPER_STREAM: lambda read: (read.string(),),
    codes.RESOLVE_OFFSET: lambda read: (read.string(), read.offset(), read.properties()),
}  # fmt: skip
