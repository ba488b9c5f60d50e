"""What a member of a group asks its service to do, as values, in the order of carrying them out."""

from typing import TypeAlias

import msgspec

from leveret.cluster.gm.group import Change, Member


class Send(msgspec.Struct, frozen=True):
    """Send a message to the node of a member. pieces: the message in parts, to be joined."""

    to: Member
    pieces: tuple[bytes, ...]


class Deliver(msgspec.Struct, frozen=True):
    """Broadcasts of another member, in its order."""

    sender: Member
    payloads: list[bytes]


class Confirmed(msgspec.Struct, frozen=True):
    """All members have delivered this member's broadcasts through a number (G4)."""

    through: int


class Submit(msgspec.Struct, frozen=True):
    """Submit a change of the group's record.

    The service repeats it until the record has it, or has refused it: the machine asks once.
    """

    change: Change


class StartPause(msgspec.Struct, frozen=True):
    """Call `pause_over` with the member after PAUSE_MS."""

    member: Member


class Joined(msgspec.Struct, frozen=True):
    """The member has its starting state: it delivers, and may broadcast.

    begins_after: of each other member, the last broadcast that this one does not deliver.
    """

    begins_after: tuple[tuple[Member, int], ...]


class MembersChanged(msgspec.Struct, frozen=True):
    """Members are in the record that were not, or live no more.

    What this member broadcasts after it, those who were born deliver (G5).
    """

    born: tuple[Member, ...]
    died: tuple[Member, ...]


class Expelled(msgspec.Struct, frozen=True):
    """The record does not have this member as living any more: stop it. It does nothing again."""


Output: TypeAlias = (
    Send | Deliver | Confirmed | Submit | StartPause | Joined | MembersChanged | Expelled
)
PAUSE_MS = 100
"""How long a link is waited for before its node's member is declared dead.

A partition shows itself link by link; whoever acts on the first one may declare dead who is on its
own side. RabbitMQ waits as long.
"""
