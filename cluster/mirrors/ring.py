"""A member of this node in the ring of one queue: carries out its state machine (cluster/gm).

It sends over the links, waits out pauses, and passes on delivered broadcasts. At the end of a round
in which messages came or were broadcast, it sends the news to the neighbour.

The member leads the queue, or mirrors it. Contents come from this node (publishing.py) and from
others (replica_frames.py), and are for the present leader or mirror. The replica changes these when
its record changes.
"""

from collections.abc import Sequence
from typing import Protocol

from leveret.broker.runtime.turns import Flushable
from leveret.cluster.gm.group import Change, Group, Member
from leveret.cluster.gm.outputs import (
    PAUSE_MS,
    BroadcastsConfirmed,
    DeliverBroadcasts,
    Expelled,
    Joined,
    MembersChanged,
    Output,
    SendPieces,
    StartPause,
    SubmitChange,
)
from leveret.cluster.gm.ring_member import RingMember
from leveret.cluster.mirrors.leader_session import LeaderSession
from leveret.cluster.mirrors.mirror_member import MirrorMember


class RingNode(Protocol):
    """What a ring needs of its node."""

    def send(self, node: str, pieces: Sequence[bytes]) -> None:
        """Send a frame to another node, if it is linked."""

    def flush_later(self, ring: "Ring") -> None:
        """Call `flush` at the end of the round."""

    def after_ms(self, delay_ms: int, ring: "Ring", member: Member) -> None:
        """Call `pause_over` with the member after a time."""


class RingUser(Protocol):
    """The replica of the queue on this node."""

    def delivered(self, sender: Member, payloads: list[bytes]) -> None:
        """Broadcasts of another member, in their order."""

    def confirmed(self, through: int) -> None:
        """All members have delivered this member's broadcasts through a number."""

    def members_changed(self, added: tuple[Member, ...], died: tuple[Member, ...]) -> None:
        """The ring has other members: those in `added` deliver all broadcasts from here on."""

    def submit(self, change: Change) -> None:
        """Have a change made in the record; repeat it until it is made or refused."""


class Ring(Flushable):
    """One member of this node. is_dirty: `flush` is due at the end of the round."""

    __slots__ = ("_machine", "_node", "_user", "member")

    def __init__(self, member: Member, node: RingNode, user: RingUser) -> None:
        self.member = member
        self._machine = RingMember(member)
        self._node = node
        self._user = user
        super().__init__()

    @property
    def is_joined(self) -> bool:
        """It delivers, and may broadcast."""
        return self._machine.is_joined

    @property
    def neighbours(self) -> tuple[Member | None, Member | None]:
        """The left and the right neighbour; None in a ring of one member."""
        return self._machine.left, self._machine.right

    @property
    def pending_count(self) -> int:
        """The number of broadcasts that this member knows to be on their way."""
        return self._machine.pending_count

    @property
    def early(self) -> list[tuple[str, bytes]]:
        """The messages that wait for a newer record, with their nodes."""
        return self._machine.early

    def broadcast(self, payload: bytes) -> int:
        """Broadcast at the end of the round; returns the number for `RingUser.confirmed`."""
        number = self._machine.broadcast(payload)
        self._node.flush_later(self)
        return number

    def flush(self) -> None:
        """The end of a round."""
        self._carry_out(self._machine.flush())

    def received(self, node: str, message: bytes) -> None:
        """A message of a linked node. Raises ValueError if it is damaged."""
        self._happened(self._machine.received(node, message))

    def group_changed(self, group: Group) -> None:
        """A newer record is applied on this node."""
        self._happened(self._machine.group_changed(group))

    def link_up(self, node: str, incarnation: int) -> None:
        """A node is linked."""
        self._happened(self._machine.link_up(node, incarnation))

    def link_down(self, node: str) -> None:
        """The link to a node is down."""
        self._happened(self._machine.link_down(node))

    def pause_over(self, member: Member) -> None:
        """A requested pause is over."""
        self._happened(self._machine.pause_over(member))

    def _happened(self, outputs: list[Output]) -> None:
        self._carry_out(outputs)
        self._node.flush_later(self)

    def _carry_out(self, outputs: list[Output]) -> None:
        user = self._user
        for output in outputs:
            match output:
                case SendPieces():
                    self._node.send(output.to.node, output.pieces)
                case DeliverBroadcasts():
                    user.delivered(output.sender, output.payloads)
                case BroadcastsConfirmed():
                    user.confirmed(output.through)
                case SubmitChange():
                    user.submit(output.change)
                case StartPause():
                    self._node.after_ms(PAUSE_MS, self, output.member)
                case MembersChanged():
                    user.members_changed(output.added, output.died)
                case Joined() | Expelled():
                    # The replica ends a member that its record no longer has.
                    pass


class OwnMember:
    """The member. ring: None if this node has none. leading: None if it does not lead. mirror: None
    if it does not mirror. A queue whose mirroring has ended is led without a ring.
    """

    __slots__ = ("leading", "mirror", "ring")

    def __init__(self) -> None:
        self.ring: Ring | None = None
        self.leading: LeaderSession | None = None
        self.mirror: MirrorMember | None = None

    def broadcast(self) -> None:
        """Broadcast the leader's decisions of the turn."""
        if self.leading is not None:
            decisions = self.leading.backing.take_decisions()
            if decisions and self.ring is not None:
                self.ring.broadcast(decisions)
                self.ring.flush()
