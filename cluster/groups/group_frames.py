"""The frames that nodes send each other about groups: one frame to each node in a turn.

A frame is a sequence of items: u8 kind, u32 length, and this many bytes. `RAFT` is a message from
one member to another: u8 length of the sender's name, u8 length of the receiver's, both names, and
the message (cluster/raft/messages.py). `OTHER` is msgpack, whose fields are checked when it is
read.

A frame without items only shows that the sender is alive.
"""

import struct
from collections.abc import Iterator
from typing import Annotated, NamedTuple, TypeAlias

import msgspec

from leveret.cluster.raft.messages import LARGE_BYTES, bytes_head, has_large, list_in_pieces

RAFT, OTHER = 1, 2
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]

_HEAD = struct.Struct("<BI")
_NAMES = struct.Struct("<BB")


class GroupFrameError(ValueError):
    """The bytes are not a frame of this version."""


class RaftItem(NamedTuple):
    """A message between members."""

    sender: str
    to: str
    message: memoryview


class GroupItem(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The base of all other items."""

    group: Number


class Find(GroupItem, frozen=True, tag=1):
    """Asks the receiver to tell the sender whenever it becomes the leader."""


class Leads(GroupItem, frozen=True, tag=2):
    """The sender is the leader, and accepts clients."""

    term: Number


class LeadsNoMore(GroupItem, frozen=True, tag=3):
    """The sender is no longer the leader."""

    term: Number


class AttachClient(GroupItem, frozen=True, tag=4):
    """Starts a session of a client. received: the number of the last delivery, by consumer."""

    session: Number
    sender: Number
    seen: Number
    received: dict[Number, Number]


class ClientCommands(GroupItem, frozen=True, tag=5):
    """Commands of a client, in order."""

    session: Number
    commands: list[bytes]


class Told(GroupItem, frozen=True, tag=6):
    """Effects for a client, and the entries that it needs for them."""

    session: Number
    effects: bytes
    entries: dict[Number, bytes]


class GroupQuestion(GroupItem, frozen=True, tag=7):
    """A request that the leader answers without an entry in the log."""

    number: Number
    data: bytes


class Answered(GroupItem, frozen=True, tag=8):
    """The answer to a `GroupQuestion`; None if the sender is not the leader."""

    number: Number
    data: bytes | None


class Damaged(GroupItem, frozen=True, tag=9):
    """The member on the sender's node has lost its data, and has to be replaced."""

    member: str


class OfferSnapshot(GroupItem, frozen=True, tag=10):
    """Offers a snapshot to a member that lacks entries. transfer: a number the sender chooses."""

    transfer: Number
    to: str
    index: Number
    term: Number
    configuration: bytes
    state_bytes: Number


class Want(GroupItem, frozen=True, tag=11):
    """Asks for the snapshot, with the entries that it refers to after this index."""

    transfer: Number
    after: Number


class StatePiece(GroupItem, frozen=True, tag=12):
    """A piece of the machine's state, in order."""

    transfer: Number
    data: bytes


class Body(GroupItem, frozen=True, tag=13):
    """An entry that the snapshot refers to. They are sent in the order of their indexes."""

    transfer: Number
    index: Number
    term: Number
    kind: Annotated[int, msgspec.Meta(ge=0, lt=256)]
    payload: bytes


class AllSent(GroupItem, frozen=True, tag=14):
    """The snapshot was sent completely."""

    transfer: Number


class SnapshotReceived(GroupItem, frozen=True, tag=15):
    """The number of bytes of the snapshot that the receiver has so far, on disk or in memory."""

    transfer: Number
    octets: Number


class SnapshotInstalled(GroupItem, frozen=True, tag=16):
    """The snapshot is installed."""

    transfer: Number


class SnapshotTransferEnded(GroupItem, frozen=True, tag=17):
    """Either end has ended the transfer of a snapshot early."""

    transfer: Number


class Announced(GroupItem, frozen=True, tag=18):
    """The sender's node has this member, or is ready to create it, and knows no leader."""

    member: str


class DeliveredBytes(GroupItem, frozen=True, tag=19):
    """A client has handed messages of this size to a consumer, named by its number."""

    session: Number
    consumer: Number
    octets: Number


class AskClient(GroupItem, frozen=True, tag=20):
    """A request of a client to the client on another node."""

    number: Number
    data: bytes


class ClientAnswered(GroupItem, frozen=True, tag=21):
    """The answer to `AskClient`; None if the node has no such client."""

    number: Number
    data: bytes | None


def item_in_pieces(item: GroupItem) -> list[bytes]:
    """Encode an item of another kind. Large payloads are pieces of their own, and are not copied.

    Other entries that a client needs (`Told`) are mostly parts, which were cut out for it.
    """
    if isinstance(item, Body) and len(item.payload) >= LARGE_BYTES:
        empty = _ENCODER.encode(msgspec.structs.replace(item, payload=b""))
        head = empty[: -len(_NO_BYTES)] + bytes_head(len(item.payload))
        pieces = [head, item.payload]
    elif isinstance(item, ClientCommands) and has_large(item.commands):
        empty = _ENCODER.encode(msgspec.structs.replace(item, commands=[]))
        pieces = list_in_pieces(empty, item.commands)
    else:
        pieces = [_ENCODER.encode(item)]
    return [_HEAD.pack(OTHER, sum(map(len, pieces))), *pieces]


def encode_raft(sender: str, to: str, message: bytes) -> bytes:
    """Encode a message between members as an item."""
    return raft_head(sender, to, len(message)) + message


def raft_head(sender: str, to: str, message_bytes: int) -> bytes:
    """The bytes before a message between members."""
    names = (sender.encode(), to.encode())
    lengths = _NAMES.pack(len(names[0]), len(names[1]))
    octets = _NAMES.size + len(names[0]) + len(names[1]) + message_bytes
    return b"".join((_HEAD.pack(RAFT, octets), lengths, *names))


def encode_item(item: GroupItem) -> bytes:
    """Encode an item of another kind."""
    return b"".join(item_in_pieces(item))


def items_of(frame: bytes) -> Iterator[RaftItem | GroupItem]:
    """The items of a frame. Raises GroupFrameError."""
    view, place = memoryview(frame), 0
    while place < len(frame):
        try:
            kind, length = _HEAD.unpack_from(frame, place)
            start = place + _HEAD.size
            place = start + length
            if place > len(frame):
                raise GroupFrameError("a frame about groups is cut off")
            if kind == OTHER:
                yield _DECODER.decode(view[start:place])
            elif kind == RAFT:
                yield _raft_item(view[start:place])
            else:
                raise GroupFrameError(f"a frame about groups has an item of kind {kind}")
        except (struct.error, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise GroupFrameError(f"a frame about groups is damaged: {error}") from error


def _raft_item(data: memoryview) -> RaftItem:
    sender_bytes, to_bytes = _NAMES.unpack_from(data)
    to_at = _NAMES.size + sender_bytes
    message_at = to_at + to_bytes
    if message_at > len(data):
        raise GroupFrameError("a message between members of a group is cut off")
    return RaftItem(
        str(data[_NAMES.size : to_at], "utf-8"), str(data[to_at:message_at], "utf-8"),
        data[message_at:],
    )  # fmt: skip


_ENCODER = msgspec.msgpack.Encoder()
_NO_BYTES = _ENCODER.encode(b"")
_DECODER: msgspec.msgpack.Decoder[GroupItem] = msgspec.msgpack.Decoder(
    Find | Leads | LeadsNoMore | AttachClient | ClientCommands | Told | GroupQuestion | Answered
    | Damaged | OfferSnapshot | Want | StatePiece | Body | AllSent | SnapshotReceived
    | SnapshotInstalled | SnapshotTransferEnded | Announced | DeliveredBytes | AskClient
    | ClientAnswered
)  # fmt: skip
