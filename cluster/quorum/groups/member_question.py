"""The question which members a group has. Its leader answers, whatever the machine is."""

import msgspec

from leveret.cluster.raft.configuration import Configuration

MEMBERS = b"members"
"""The question."""


class MembersError(ValueError):
    """Bytes that are not the answer of this version."""


class CurrentMembers(msgspec.Struct, frozen=True, array_like=True):
    """The members. is_committed: they stay, whatever fails.

    reaches_majority: the leader reaches most of the voters.
    """

    configuration: Configuration
    is_committed: bool
    reaches_majority: bool


def encode_members(members: CurrentMembers) -> bytes:
    """The answer as bytes."""
    return msgspec.msgpack.encode(members)


def decode_members(data: bytes) -> CurrentMembers:
    """The inverse of `encode_members`. Raises MembersError."""
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MembersError(f"the members of a group cannot be read: {error}") from error


_DECODER = msgspec.msgpack.Decoder(CurrentMembers)
