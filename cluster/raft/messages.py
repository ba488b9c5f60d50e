"""The messages between the members of a group, as values and as bytes.

Each has the number of its group, which is another one when a queue is declared again, and the
term of its sender. The first byte is the version of the format; the rest is msgpack, whose fields
are checked as they are read. Links keep the order of messages, and end when they lose one.
"""

from enum import IntEnum
from typing import Annotated, TypeAlias

import msgspec

VERSION = b"\x01"
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class MessageError(ValueError):
    """Bytes that are no message of this version."""


class Answer(IntEnum):
    """The answer to a request for a vote, and the reason for a refusal."""

    GRANTED = 0
    OLD_TERM = 1
    HAS_LEADER = 2
    HAS_VOTED = 3
    LOG_BEHIND = 4
    REMOVED = 5
    """The sender knows a committed configuration without the one that asks."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """What all messages have."""

    group: Number
    term: Number


class Entries(Message, frozen=True, tag=1):
    """Entries of one term and kind, which follow a previous one. Without payloads: a question.

    commit: what the leader knows to be committed.
    """

    previous_index: Number
    previous_term: Number
    commit: Number
    entry_term: Number
    kind: Number
    payloads: list[bytes]


class Acknowledgement(Message, frozen=True, tag=2):
    """The sender has the leader's entries through an index on its disk."""

    match: Number


class Mismatch(Message, frozen=True, tag=3):
    """The sender does not have the previous entry, or has a higher term (then all else is 0).

    hint_index, hint_term: the last entry of the sender that may be one of the leader's.
    """

    previous_index: Number
    hint_index: Number
    hint_term: Number


class AskVote(Message, frozen=True, tag=4):
    """Ask for a vote in this term; in a pre-vote, whether there would be one."""

    is_pre_vote: bool
    last_index: Number
    last_term: Number
    configuration_index: Number


class Vote(Message, frozen=True, tag=5):
    """An answer. A granted one has the term that was asked for, others that of the sender."""

    is_pre_vote: bool
    answer: Answer


class TakeLead(Message, frozen=True, tag=6):
    """The leader asks the receiver, which has all entries, to be elected in its place."""


class NotLeading(Message, frozen=True, tag=7):
    """The sender led until now."""


class Removed(Message, frozen=True, tag=8):
    """The configuration at this index, which is committed, does not have the receiver."""

    configuration_index: Number


def encode_message(message: Message) -> bytes:
    """A message as bytes."""
    return VERSION + msgspec.msgpack.encode(message)


def decode_message(data: bytes) -> Message:
    """Read a message. Raises MessageError."""
    if data[:1] != VERSION:
        raise MessageError(
            f"a message of a quorum queue's group begins with {data[:1].hex() or 'nothing'}; this "
            f"version reads {VERSION.hex()}"
        )
    try:
        return _DECODER.decode(memoryview(data)[1:])
    except msgspec.MsgspecError as error:
        raise MessageError(f"a message of a quorum queue's group is damaged: {error}") from error


_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(
    Entries | Acknowledgement | Mismatch | AskVote | Vote | TakeLead | NotLeading | Removed
)
