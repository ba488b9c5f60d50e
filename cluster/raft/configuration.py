"""Who belongs to a group, and what may change it.

A configuration is an entry of the log. It is in force from the moment when it is appended, and
no more when it is truncated. One change is one member, so that a majority of the voters before a
change and a majority of those after it have a member in common.

Invariants:

RF8  A configuration differs from the one before it by the vote of at most one member, except after
     a forced recovery.
"""

from enum import Enum

import msgspec


class Membership(Enum):
    """What a member is. RabbitMQ has the same words."""

    VOTER = "voter"
    PROMOTABLE = "promotable"
    """It becomes a voter when it has caught up."""
    NON_VOTER = "non_voter"


class Refusal(Enum):
    """Why the leader does not do what was asked of it."""

    NOT_LEADER = "this member is not the leader"
    NOT_YET = "the leader has not committed an entry of its term"
    CHANGE_UNDER_WAY = "another change of the members is not committed"
    TRANSFER_UNDER_WAY = "the lead is being handed over"
    MEMBER_ALREADY = "it is a member already"
    NO_MEMBER = "it is not a member"
    NO_VOTER = "it is not a voter"
    LAST_VOTER = "it is the only voter"
    UNREACHABLE = "its node is not reachable"
    LEADER_ALREADY = "it is the leader"


class Configuration(msgspec.Struct, frozen=True, array_like=True):
    """The members of a group, each in one of the three tuples."""

    voters: tuple[str, ...] = ()
    promotable: tuple[str, ...] = ()
    non_voters: tuple[str, ...] = ()

    @property
    def members(self) -> tuple[str, ...]:
        """All members."""
        return self.voters + self.promotable + self.non_voters

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.voters) // 2 + 1

    def with_member(self, member: str, membership: Membership) -> "Configuration":
        """With one member more. A voter has to catch up first."""
        if membership is Membership.NON_VOTER:
            return Configuration(self.voters, self.promotable, (*self.non_voters, member))
        return Configuration(self.voters, (*self.promotable, member), self.non_voters)

    def without_member(self, member: str) -> "Configuration":
        """With one member less."""
        kept = [
            tuple([one for one in members if one != member])
            for members in (self.voters, self.promotable, self.non_voters)
        ]
        return Configuration(*kept)

    def with_voter(self, member: str) -> "Configuration":
        """With a member that is promoted."""
        rest = self.without_member(member)
        return Configuration((*rest.voters, member), rest.promotable, rest.non_voters)


def encode_configuration(configuration: Configuration) -> bytes:
    """The payload of an entry."""
    return msgspec.msgpack.encode(configuration)


def decode_configuration(payload: bytes) -> Configuration:
    """Read the payload of an entry. Raises ValueError."""
    return _DECODER.decode(payload)


def votes_changed(before: Configuration, after: Configuration) -> int:
    """How many members have a vote in one of two configurations only."""
    return len(set(before.voters) ^ set(after.voters))


_DECODER = msgspec.msgpack.Decoder(Configuration)
