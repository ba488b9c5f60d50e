"""The members of the next view, which the proposing node chooses from its knowledge of the others.

A view needs a link between any two of its members. Members of the present view are taken first, in
the order in which they joined, then joining nodes: nodes that start, nodes that wait to be taken
back, and whole views of other nodes that are behind this one. A node without a link to one already
taken is left out; so of two members that cannot reach each other, the younger one is left out.

A node is *behind* if everything that was answered in its view is in this node's log: this node was
in that view as well and went on from it, or the other node's log is a part of this one. If two
views are behind each other, the one with more members continues; with equal numbers, the one with
the higher id.
"""

from collections.abc import Mapping

from msgspec import structs

from leveret.cluster.metadata.messages import (
    LEFT,
    RUNNING,
    STARTING,
    AnnounceStatus,
    MetadataPosition,
    View,
    ViewId,
    ViewMember,
)
from leveret.cluster.metadata.ordered_log import OrderedLog


class Linked:
    """A node that this one has a link with. status: its last status."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.status: AnnounceStatus | None = None

    def is_still_in(self, view: View) -> bool:
        """Whether this node knows of no later view that it is in."""
        return self.status is None or self.status.view <= view.id

    def proposes_after(self, view: View) -> bool:
        """Whether it would propose the view after this one as the oldest remaining member.

        A node that has installed no view since it started does not propose.
        """
        has_started = self.status is None or self.status.phase != STARTING
        return has_started and self.is_still_in(view)

    def has_left(self, view: View) -> bool:
        """Whether it has left the view and is in no other one."""
        status = self.status
        return status is not None and status.view == view.id and status.phase == LEFT

    def has_installed(self, view: View) -> None:
        """Note that it coordinates this view, and has announced that the view holds."""
        if self.status is not None:
            self.status = structs.replace(
                self.status, view=view.id, members=view.members, phase=RUNNING
            )

    def correct(self, view: ViewId, position: MetadataPosition) -> None:
        """Correct its position: its log is longer than its status said."""
        if self.status is not None and self.status.view == view:
            self.status = structs.replace(self.status, position=position)


Peers = Mapping[str, Linked]


class NextView:
    """The choice of one proposer. me: the proposer, taken first. view: the present view."""

    def __init__(self, me: ViewMember, view: View, log: OrderedLog, peers: Peers) -> None:
        self._view = view
        self._log = log
        self._peers = peers
        self._chosen = [me]

    def staying(self) -> tuple[ViewMember, ...]:
        """The members of the present view that can continue together."""
        mine = [one for one in self._view.members if one != self._chosen[0]]
        for member in mine:
            linked = self._peers.get(member.name)
            if (
                linked is not None
                and linked.incarnation == member.incarnation
                and linked.is_still_in(self._view)
            ):
                self._take((member,))
        return tuple(self._chosen)

    def starting(self, names: tuple[str, ...]) -> tuple[ViewMember, ...]:
        """The proposer, and those named nodes that also start and are linked with each other."""
        for name in names:
            status = self._peers[name].status if name in self._peers else None
            if status is not None and status.phase == STARTING:
                self._take((status.member,))
        return tuple(self._chosen)

    def joined(self, admitted: frozenset[str]) -> tuple[ViewMember, ...]:
        """The members chosen so far, then the joining ones. admitted: the cluster's nodes."""
        for name in sorted(self._peers):
            status = self._peers[name].status
            if status is not None and name in admitted:
                self._take(self._joining(status))
        return tuple(self._chosen)

    def _joining(self, status: AnnounceStatus) -> tuple[ViewMember, ...]:
        """The nodes that join together with this one: itself, its whole view, or none."""
        if status.phase == STARTING:
            here = {member.name for member in self._chosen}
            is_here = not status.takes_from or not here.isdisjoint(status.takes_from)
            return (status.member,) if is_here else ()
        if status.view == self._view.id or not is_behind(status, self._log, self._peers):
            return ()
        if status.is_fenced:
            return (status.member,)
        if status.phase != RUNNING or not self._goes_first(status):
            return ()
        return status.members if self._is_whole(status) else ()

    def _is_whole(self, status: AnnounceStatus) -> bool:
        """Whether all members of another view report to be in it."""
        for member in status.members:
            linked = self._peers.get(member.name)
            if linked is None or linked.incarnation != member.incarnation:
                return False
            if linked.status is None or linked.status.view != status.view:
                return False
        return True

    def _goes_first(self, status: AnnounceStatus) -> bool:
        """Whether this node's view takes the other one in, rather than the reverse."""
        if status.position != self._log.position or self._log.went_through(status.view):
            return True
        mine, other = self._view, status
        return (len(mine.members), mine.id) > (len(other.members), other.view)

    def _take(self, group: tuple[ViewMember, ...]) -> None:
        new = [member for member in group if member not in self._chosen]
        chosen = [*self._chosen, *new]
        for member in new:
            linked = self._peers[member.name]
            links = () if linked.status is None else linked.status.links
            for other in chosen:
                if other.name == member.name:
                    if other != member:
                        return
                elif other is self._chosen[0]:
                    continue
                elif other.name not in links or member.name not in self._links_of(other):
                    return
        self._chosen = chosen

    def _links_of(self, member: ViewMember) -> tuple[str, ...]:
        status = self._peers[member.name].status
        return () if status is None else status.links


def is_behind(status: AnnounceStatus, log: OrderedLog, peers: Peers) -> bool:
    """Whether everything that was answered in the node's view is in this log.

    A status is as old as the last change of the node's view or links. So the node counts as behind
    only if all nodes that report the same view are behind.
    """
    if log.went_through(status.view):
        return True
    fellows = (linked.status for linked in peers.values())
    positions = [one.position for one in fellows if one is not None and one.view == status.view]
    return all(map(log.contains, [status.position, *positions]))
