"""The request for a group's members. The leader answers it, whatever the machine is."""

import msgspec

from leveret.cluster.raft.configuration import Configuration
from leveret.cluster.raft.member_state import MemberState

MEMBERS = b"members"
"""The bytes of the request."""


class MembersError(ValueError):
    """The bytes are not an answer of this version."""


class CurrentMembers(msgspec.Struct, frozen=True, array_like=True):
    """The members of a group. is_committed: the configuration is committed.

    reaches_majority: the leader reaches a majority of the voters.
    """

    configuration: Configuration
    is_committed: bool
    reaches_majority: bool


def members_of(state: MemberState) -> bytes:
    """The leader's answer."""
    is_committed = state.log.configuration_index <= state.commit
    return msgspec.msgpack.encode(
        CurrentMembers(state.log.configuration, is_committed, state.reaches_majority)
    )


def decode_members(data: bytes) -> CurrentMembers:
    """Decode the answer. Raises MembersError."""
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MembersError(f"the members of a group cannot be read: {error}") from error


_DECODER = msgspec.msgpack.Decoder(CurrentMembers)
