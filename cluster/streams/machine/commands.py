"""The commands of a node's client to a stream, as bytes.

    join            the first command of a client
    publish         entries of one publisher
    store offset    for a consumer

The commands of a client are numbered 1, 2, 3 ... The leader makes chunks of them (chunk_making.py).
"""

import struct
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from leveret.cluster.streams.machine.tracking import ID_BYTES_MAX

_JOIN: Final = 0
_PUBLISH: Final = 1
_STORE_OFFSET: Final = 2

_HEAD = Struct(">BQQ")
_SIZE = Struct(">B")
_COUNTS = Struct(">HIBI")
_NUMBER = Struct(">Q")
_VALUE_SIZE = Struct(">H")
_HAS_FILTERS: Final = 1
ENTRIES_MAX: Final = 65_535
"""The head of a chunk counts entries in two bytes."""


class CommandError(ValueError):
    """The bytes are not a command of this version."""


class Join(NamedTuple):
    """The first command of a client on a node. sender: the number of the client."""

    sender: int
    number: int
    node: str


class Publish(NamedTuple):
    """Entries of one publisher.

    publisher: its name; empty if it has none. sequences: of the entries, in increasing order; only
    for a publisher with a name. filter_values: of the entries; empty if none has one. entries: in
    the form of a chunk, in any pieces; one that was decoded is a part of the command's bytes, since
    copies cost more than all else. message_count: of all entries.
    """

    sender: int
    number: int
    publisher: bytes
    sequences: tuple[int, ...]
    filter_values: tuple[bytes, ...]
    entry_count: int
    message_count: int
    entries: Sequence[bytes | memoryview]


class StoreOffset(NamedTuple):
    """An offset that a consumer stores under a name."""

    sender: int
    number: int
    name: bytes
    offset: int


Command: TypeAlias = Join | Publish | StoreOffset


def encode_command(command: Command) -> bytes:
    """A command as bytes."""
    if isinstance(command, Join):
        return _HEAD.pack(_JOIN, command.sender, command.number) + command.node.encode()
    if isinstance(command, StoreOffset):
        head = _HEAD.pack(_STORE_OFFSET, command.sender, command.number)
        return head + _NUMBER.pack(command.offset) + command.name
    pieces: list[bytes | memoryview] = [
        _HEAD.pack(_PUBLISH, command.sender, command.number),
        _SIZE.pack(len(command.publisher)),
        command.publisher,
        _COUNTS.pack(
            command.entry_count, command.message_count,
            _HAS_FILTERS if command.filter_values else 0, len(command.sequences),
        ),
        struct.pack(f">{len(command.sequences)}Q", *command.sequences),
    ]  # fmt: skip
    for value in command.filter_values:
        pieces += (_VALUE_SIZE.pack(len(value)), value)
    pieces += command.entries
    return b"".join(pieces)


def renumbered(data: bytes, sender: int, number: int) -> bytes:
    """An encoded command as that of another sender."""
    return _HEAD.pack(data[0], sender, number) + data[_HEAD.size :]


def decode_command(data: bytes) -> Command:
    """The command that these bytes are. Raises CommandError."""
    try:
        kind, sender, number = _HEAD.unpack_from(data)
        return _DECODERS[kind](data, sender, number)
    except KeyError:
        raise CommandError(f"there is no command {kind} to a stream") from None
    except (struct.error, IndexError):
        raise CommandError(f"a command of {len(data)} bytes to a stream is cut off") from None
    except UnicodeDecodeError as error:
        raise CommandError(f"the name of a node cannot be read: {error}") from error


def _decode_join(data: bytes, sender: int, number: int) -> Join:
    return Join(sender, number, _name(data[_HEAD.size :]).decode())


def _decode_store_offset(data: bytes, sender: int, number: int) -> StoreOffset:
    offset = _NUMBER.unpack_from(data, _HEAD.size)[0]
    return StoreOffset(sender, number, _name(data[_HEAD.size + _NUMBER.size :]), offset)


def _decode_publish(data: bytes, sender: int, number: int) -> Publish:
    at = _HEAD.size + 1 + data[_HEAD.size]
    publisher = data[_HEAD.size + 1 : at]
    entry_count, message_count, flags, sequence_count = _COUNTS.unpack_from(data, at)
    at += _COUNTS.size
    if sequence_count not in {0, entry_count} or message_count < entry_count:
        raise CommandError(
            f"a publish of {entry_count} entries has {message_count} messages and "
            f"{sequence_count} sequence numbers"
        )
    sequences = struct.unpack_from(f">{sequence_count}Q", data, at)
    at += sequence_count * _NUMBER.size
    values: list[bytes] = []
    for _ in range(entry_count if flags & _HAS_FILTERS else 0):
        begin = at + _VALUE_SIZE.size
        at = begin + _VALUE_SIZE.unpack_from(data, at)[0]
        values.append(data[begin:at])
    return Publish(
        sender, number, publisher, sequences, tuple(values), entry_count, message_count,
        (memoryview(data)[at:],),
    )  # fmt: skip


def _name(data: bytes) -> bytes:
    if len(data) > ID_BYTES_MAX:
        raise CommandError(f"a name of {len(data)} bytes; {ID_BYTES_MAX} are allowed")
    return data


_DECODERS: Final[dict[int, Callable[[bytes, int, int], Command]]] = {
    _JOIN: _decode_join,
    _PUBLISH: _decode_publish,
    _STORE_OFFSET: _decode_store_offset,
}
