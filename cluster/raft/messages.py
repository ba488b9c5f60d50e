"""The messages between the members of a group, and their encoding.

Each message has the number of its group, which differs each time a queue is declared, and the term
of its sender. The first byte is the version of the format; the rest is msgpack, and decoding checks
its fields. Links keep messages in order, and end when they lose one.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Annotated, TypeAlias

import msgspec

VERSION = b"\x01"
LARGE_BYTES = 16 * 1024
"""An entry of this size is not copied into a message: links write such pieces as they are."""
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Kind: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=256)]


class MessageError(ValueError):
    """Bytes that are not a message of this version."""


class EntriesLost(ValueError):
    """The receiver lacks entries that another member has from it, or knows to be committed."""


class VoteAnswer(IntEnum):
    """The answer to a request for a vote, and the reason for a refusal."""

    GRANTED = 0
    OLD_TERM = 1
    HAS_LEADER = 2
    HAS_VOTED = 3
    LOG_BEHIND = 4
    REMOVED = 5
    """The sender knows a committed configuration that does not have the candidate."""


class RaftMessage(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The fields that all messages have."""

    group: Number
    term: Number


class Entries(RaftMessage, frozen=True, tag=1):
    """Entries of one term and kind that follow a previous one.

    Without payloads, the message asks whether the receiver has the previous entry. commit: the
    leader's commit index.
    """

    previous_index: Number
    previous_term: Number
    commit: Number
    entry_term: Number
    kind: Kind
    payloads: list[bytes]


class Acknowledgement(RaftMessage, frozen=True, tag=2):
    """The sender has the leader's entries up to an index on its disk."""

    match: Number


class Mismatch(RaftMessage, frozen=True, tag=3):
    """The sender lacks the previous entry, or has a higher term (then the other fields are 0).

    hint_index, hint_term: the sender's last entry that the leader's log may also have.
    """

    previous_index: Number
    hint_index: Number
    hint_term: Number


class AskVote(RaftMessage, frozen=True, tag=4):
    """A request for a vote in this term; in a pre-vote, only whether it would be granted."""

    is_pre_vote: bool
    last_index: Number
    last_term: Number
    configuration_index: Number


class Vote(RaftMessage, frozen=True, tag=5):
    """The answer to AskVote. If it is granted, its term is the requested one, else the sender's."""

    is_pre_vote: bool
    answer: VoteAnswer


class TakeLead(RaftMessage, frozen=True, tag=6):
    """The leader asks the receiver, which has all entries, to be elected in its place."""


class NotLeading(RaftMessage, frozen=True, tag=7):
    """The sender has stopped leading."""


class Removed(RaftMessage, frozen=True, tag=8):
    """The receiver is not a member in the committed configuration at this index."""

    configuration_index: Number


def encode_message(message: RaftMessage) -> bytes:
    """Encode a message."""
    return VERSION + b"".join(encode_fields(message))


def encode_fields(message: RaftMessage) -> list[bytes]:
    """The bytes after `VERSION`, in pieces. Large entries are pieces of their own, not copied."""
    if isinstance(message, Entries) and has_large(message.payloads):
        empty = _ENCODER.encode(msgspec.structs.replace(message, payloads=[]))
        return list_in_pieces(empty, message.payloads)
    return [_ENCODER.encode(message)]


def has_large(payloads: Sequence[bytes]) -> bool:
    """Whether one of the payloads is to be a piece of its own."""
    return any(len(payload) >= LARGE_BYTES for payload in payloads)


def list_in_pieces(empty: bytes, payloads: Sequence[bytes]) -> list[bytes]:
    """The msgpack form of an object in pieces, of which every second one is a payload as it is.

    empty: the object with an empty list of payloads, its last field.
    """
    head = empty[:-1] + _LIST.pack(LIST_32, len(payloads))
    pieces: list[bytes] = []
    for payload in payloads:
        pieces += (head + bytes_head(len(payload)), payload)
        head = b""
    return pieces


def bytes_head(size: int) -> bytes:
    """The msgpack bytes before a byte string of this size."""
    return _BYTES.pack(BYTES_32, size)


def decode_message(data: bytes | memoryview) -> RaftMessage:
    """Decode a message. Raises MessageError."""
    if data[:1] != VERSION:
        raise MessageError(
            f"a message of a quorum queue's group begins with {data[:1].hex() or 'nothing'}; this "
            f"version reads {VERSION.hex()}"
        )
    try:
        return _DECODER.decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MessageError(f"a message of a quorum queue's group is damaged: {error}") from error


LIST_32, BYTES_32 = 0xDD, 0xC6
"""The msgpack kinds of a list, and of a byte string, with a length of 32 bits."""
_LIST = _BYTES = Struct(">BI")
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[RaftMessage] = msgspec.msgpack.Decoder(
    Entries | Acknowledgement | Mismatch | AskVote | Vote | TakeLead | NotLeading | Removed
)
