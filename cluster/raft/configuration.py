"""The members of a group, and the changes that its leader accepts.

A configuration is an entry of the log. It takes effect when it is appended and ceases to apply when
it is truncated. Each change concerns one member, so any majority of the voters before the change
and any majority after it share a member.

Invariants:

RF8  A configuration differs from the previous one by the vote of at most one member, except after
     a forced recovery.
"""

from enum import Enum

import msgspec


class ConfigurationError(ValueError):
    """Bytes that are not a configuration of this version."""


class MemberKind(Enum):
    """The kind of a member, in RabbitMQ's words."""

    VOTER = "voter"
    PROMOTABLE = "promotable"
    """Becomes a voter when it has caught up."""
    NON_VOTER = "non_voter"


class ChangeRefusal(Enum):
    """Why the leader refuses a request."""

    NOT_LEADER = "this member is not the leader"
    NOT_YET = "the leader has not committed an entry of its term"
    CHANGE_UNDER_WAY = "another change of the members is not committed"
    TRANSFER_UNDER_WAY = "a transfer of the leadership is under way"
    MEMBER_ALREADY = "it is already a member"
    NO_MEMBER = "it is not a member"
    NO_VOTER = "it is not a voter"
    LAST_VOTER = "it is the only voter"
    UNREACHABLE = "its node cannot be reached"
    LEADER_ALREADY = "it is already the leader"


class Configuration(msgspec.Struct, frozen=True, array_like=True):
    """The members of a group. Each member is in exactly one of the three tuples."""

    voters: tuple[str, ...] = ()
    promotable: tuple[str, ...] = ()
    non_voters: tuple[str, ...] = ()

    @property
    def members(self) -> tuple[str, ...]:
        """All members."""
        return self.voters + self.promotable + self.non_voters

    @property
    def majority(self) -> int:
        """The number of voters that a majority needs."""
        return len(self.voters) // 2 + 1

    def with_member(self, member: str, membership: MemberKind) -> "Configuration":
        """Return a copy with an additional member. A future voter has to catch up first."""
        if membership is MemberKind.NON_VOTER:
            return Configuration(self.voters, self.promotable, (*self.non_voters, member))
        return Configuration(self.voters, (*self.promotable, member), self.non_voters)

    def without_member(self, member: str) -> "Configuration":
        """Return a copy without a member."""
        kept = [
            tuple([one for one in members if one != member])
            for members in (self.voters, self.promotable, self.non_voters)
        ]
        return Configuration(*kept)

    def with_voter(self, member: str) -> "Configuration":
        """Return a copy in which a member is a voter."""
        rest = self.without_member(member)
        return Configuration((*rest.voters, member), rest.promotable, rest.non_voters)


def encode_configuration(configuration: Configuration) -> bytes:
    """Encode a configuration as the payload of an entry."""
    return msgspec.msgpack.encode(configuration)


def decode_configuration(payload: bytes) -> Configuration:
    """Decode the payload of an entry. Raises ConfigurationError."""
    try:
        return _DECODER.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the members of a group are damaged: {error}") from error


def votes_changed(before: Configuration, after: Configuration) -> int:
    """Return the number of members that have a vote in only one of two configurations."""
    return len(set(before.voters) ^ set(after.voters))


_DECODER = msgspec.msgpack.Decoder(Configuration)
