"""How a mirror takes the lead when the record names it.

It broadcasts a mark, an empty payload, and waits until that has come round: what any living member
has of the leader before is then applied here, or waits for contents that are still to come. When
all of it is applied, it leads. Contents that do not come for a net_ticktime, though their sender is
linked, are given up (late_confirms.py).

Invariants:
MQ8. A new leader serves nobody before its first broadcast has come round.
"""

from typing import Protocol

from leveret.cluster.mirrors import new_leader
from leveret.cluster.mirrors.leading import Leading
from leveret.cluster.mirrors.mirror_member import MirrorMember
from leveret.cluster.mirrors.new_leader import NewLeader
from leveret.cluster.mirrors.replica_site import Site
from leveret.cluster.mirrors.ring import Ring


class TakingReplica(NewLeader, Protocol):
    """The replica of this node (replica.py)."""

    mirror: MirrorMember | None

    def takes_over(self, leading: Leading) -> None:
        """The mirror leads from now on."""


class TakingOver:
    """See the module. has_come_round: the mark. _mark: its number; 0 if it was not broadcast."""

    __slots__ = ("_mark", "_replica", "_site", "has_come_round")

    def __init__(self, replica: TakingReplica, site: Site) -> None:
        self._replica = replica
        self._site = site
        self._mark = 0
        self.has_come_round = False

    def begin(self, ring: Ring) -> None:
        """The record names this member, as this one does or an earlier one did."""
        if not self._mark and ring.is_joined:
            self._mark = ring.broadcast(b"")

    def end(self) -> None:
        """The record names another leader, or this node has no mirror any more."""
        self._mark, self.has_come_round = 0, False

    def confirmed(self, through: int) -> None:
        """Broadcasts of this member have come round."""
        if self._mark and through >= self._mark and self._replica.mirror is not None:
            self.has_come_round = True
            self.go_on()

    def go_on(self) -> None:
        """Lead, if everything is applied that has come (MQ8); otherwise when it is."""
        replica = self._replica
        mirror, record = replica.mirror, replica.record
        if not self.has_come_round or mirror is None or record is None:
            return
        if record.leader != replica.member:
            # The mark has come round in a message that waited for this record.
            return
        promoted = mirror.promote()
        if promoted is not None:
            replica.takes_over(new_leader.promoted(replica, self._site, promoted, record))
