"""What nodes send each other about groups. All that goes to one node in a turn is one frame.

A frame is items, one after the other: u8 kind, u32 bytes, and these. `RAFT` is a message of a
member to another one: u8 bytes of the sender's name, u8 bytes of the receiver's, both names, and
the message (cluster/raft/messages.py). `OTHER` is msgpack, whose fields are checked as they are
read.

A frame without items is a sign of life.
"""

import struct
from collections.abc import Iterator
from typing import Annotated, NamedTuple, TypeAlias

import msgspec

RAFT, OTHER = 1, 2
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]

_HEAD = struct.Struct("<BI")
_NAMES = struct.Struct("<BB")


class GroupFrameError(ValueError):
    """Bytes that are no frame of this version."""


class RaftItem(NamedTuple):
    """A message between members."""

    sender: str
    to: str
    message: memoryview


class Item(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """What all others have."""

    group: Number


class Find(Item, frozen=True, tag=1):
    """Tell this node who leads, whenever that is the receiver."""


class Leads(Item, frozen=True, tag=2):
    """The sender leads, and takes clients."""

    term: Number


class LeadsNoMore(Item, frozen=True, tag=3):
    """The sender led until now."""

    term: Number


class Attach(Item, frozen=True, tag=4):
    """A client begins a session. received: by its consumer's number, the last delivery it has."""

    session: Number
    sender: Number
    seen: Number
    received: dict[Number, Number]


class Commands(Item, frozen=True, tag=5):
    """Commands of a client, in their order."""

    session: Number
    commands: list[bytes]


class Told(Item, frozen=True, tag=6):
    """Effects for a client, and the entries that it needs with them."""

    session: Number
    effects: bytes
    entries: dict[Number, bytes]


class Question(Item, frozen=True, tag=7):
    """A question that needs no entry."""

    number: Number
    data: bytes


class Answered(Item, frozen=True, tag=8):
    """The answer to a question; None if the sender does not lead."""

    number: Number
    data: bytes | None


class Damaged(Item, frozen=True, tag=9):
    """The member on the sender's node has lost what it had: it has to be replaced."""

    member: str


class Offer(Item, frozen=True, tag=10):
    """A snapshot for a member that lacks entries. transfer: its number, chosen by the sender."""

    transfer: Number
    to: str
    index: Number
    term: Number
    configuration: bytes
    state_bytes: Number


class Want(Item, frozen=True, tag=11):
    """Send the snapshot, with the entries that it needs after this index."""

    transfer: Number
    after: Number


class StatePiece(Item, frozen=True, tag=12):
    """A piece of the state, in order."""

    transfer: Number
    data: bytes


class Body(Item, frozen=True, tag=13):
    """An entry that the snapshot refers to, in the order of indexes."""

    transfer: Number
    index: Number
    term: Number
    kind: Annotated[int, msgspec.Meta(ge=0, lt=256)]
    payload: bytes


class AllSent(Item, frozen=True, tag=14):
    """All of a snapshot was sent."""

    transfer: Number


class Taken(Item, frozen=True, tag=15):
    """How many bytes of the snapshot are on disk or in memory, in all."""

    transfer: Number
    octets: Number


class Installed(Item, frozen=True, tag=16):
    """The snapshot is installed."""

    transfer: Number


class TransferEnded(Item, frozen=True, tag=17):
    """The transfer of a snapshot is given up, by either end."""

    transfer: Number


class Announced(Item, frozen=True, tag=18):
    """The sender's node has this member, or is ready to have it, and knows of no leader."""

    member: str


def encode_raft(sender: str, to: str, message: bytes) -> bytes:
    """An item with a message between members."""
    names = (sender.encode(), to.encode())
    lengths = _NAMES.pack(len(names[0]), len(names[1]))
    return b"".join(
        (_HEAD.pack(RAFT, _NAMES.size + len(names[0]) + len(names[1]) + len(message)), lengths,
         *names, message)
    )  # fmt: skip


def encode_item(item: Item) -> bytes:
    """An item of another kind."""
    data = _ENCODER.encode(item)
    return _HEAD.pack(OTHER, len(data)) + data


def items_of(frame: bytes) -> Iterator[RaftItem | Item]:
    """The items of a frame. Raises GroupFrameError."""
    view, place = memoryview(frame), 0
    while place < len(frame):
        try:
            kind, length = _HEAD.unpack_from(frame, place)
            start = place + _HEAD.size
            place = start + length
            if place > len(frame):
                raise GroupFrameError("a frame about groups of quorum queues is cut off")
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
_DECODER: msgspec.msgpack.Decoder[Item] = msgspec.msgpack.Decoder(
    Find | Leads | LeadsNoMore | Attach | Commands | Told | Question | Answered | Damaged | Offer
    | Want | StatePiece | Body | AllSent | Taken | Installed | TransferEnded | Announced
)  # fmt: skip
