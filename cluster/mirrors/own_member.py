"""The member of this node in the ring of one queue: it leads the queue, or mirrors it.

Contents come from this node (publishing.py) and from others (sending_node.py), and are for the
present leader or mirror. The replica changes these when its record changes.
"""

from leveret.cluster.mirrors.leader_session import LeaderSession
from leveret.cluster.mirrors.mirror_member import MirrorMember
from leveret.cluster.mirrors.ring import Ring


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
