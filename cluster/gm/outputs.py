"""Requests of a group member to its service, as values; the service carries them out in order."""

from typing import TypeAlias

import msgspec

from leveret.cluster.gm.group import Change, Member


class SendPieces(msgspec.Struct, frozen=True):
    """Send a message to the node of a member. pieces: the message in parts, to be joined."""

    to: Member
    pieces: tuple[bytes, ...]


class DeliverBroadcasts(msgspec.Struct, frozen=True):
    """Broadcasts of another member, in their order."""

    sender: Member
    payloads: list[bytes]


class BroadcastsConfirmed(msgspec.Struct, frozen=True):
    """All members have delivered this member's broadcasts through a number (G4)."""

    through: int


class SubmitChange(msgspec.Struct, frozen=True):
    """Submit a change of the group's record.

    The service repeats it until it is applied or refused; the state machine submits it once.
    """

    change: Change


class StartPause(msgspec.Struct, frozen=True):
    """Call `pause_over` with the member after PAUSE_MS."""

    member: Member


class Joined(msgspec.Struct, frozen=True):
    """The member has its starting state: it delivers, and may broadcast.

    begins_after: for each other member, its last broadcast that this one does not deliver.
    """

    begins_after: tuple[tuple[Member, int], ...]


class MembersChanged(msgspec.Struct, frozen=True):
    """Members were added to the record, or have died.

    The added members deliver all broadcasts of this member after this output (G5).
    """

    added: tuple[Member, ...]
    died: tuple[Member, ...]


class Expelled(msgspec.Struct, frozen=True):
    """The record no longer has this member as living: stop it. It does nothing after this."""


Output: TypeAlias = (
    SendPieces
    | DeliverBroadcasts
    | BroadcastsConfirmed
    | SubmitChange
    | StartPause
    | Joined
    | MembersChanged
    | Expelled
)
PAUSE_MS = 100
"""Milliseconds that a link may be down before its node's member is declared dead.

In a partition, links go down one by one; a member that acts on the first one may declare members on
its own side dead. RabbitMQ waits for the same time.
"""
