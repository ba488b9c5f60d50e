"""The status of one node: its view, its phase, its links, and the message with these.

The parts of views.py share it. A link counts only for the run of the node at its other end: a
member of the view is *linked* if the link is with the run that joined (`linked_member`).
"""

from leveret.cluster.metadata.companions import Companions
from leveret.cluster.metadata.fence import Fence
from leveret.cluster.metadata.messages import STARTING, AnnounceStatus, AnyMessage, View, ViewMember
from leveret.cluster.metadata.next_view import Linked
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.outbox import Outbox


class NodeStatus:
    """The state of one run of a node.

    view: the last installed view. peers: the linked nodes by name. takes_from: the nodes whose
    metadata this node takes (`MetadataReplication`).
    """

    def __init__(
        self,
        me: ViewMember,
        view: View,
        log: OrderedLog,
        companions: Companions,
        fence: Fence,
        out: Outbox,
        takes_from: tuple[str, ...],
    ) -> None:
        self.me = me
        self.view = view
        self.phase = STARTING
        self.peers: dict[str, Linked] = {}
        self.takes_from = takes_from
        self._log = log
        self._companions = companions
        self._fence = fence
        self._out = out
        self._told: object = None

    def linked_member(self, member: ViewMember) -> Linked | None:
        """The link with this run of a node, if there is one."""
        linked = self.peers.get(member.name)
        return linked if linked is not None and linked.incarnation == member.incarnation else None

    def member_at(self, name: str) -> ViewMember | None:
        """The member of the view at the other end of the link with a node."""
        for member in self.view.members:
            if member.name == name and self.linked_member(member) is not None:
                return member
        return None

    def unlinked(self, members: tuple[ViewMember, ...]) -> list[str]:
        """The names of the members, other than this node, that it has no link with."""
        return [one.name for one in members if one != self.me and self.linked_member(one) is None]

    def send(self, name: str, message: AnyMessage) -> None:
        """Send a message to a node, if there is a link with it."""
        if name in self.peers:
            self._out.send(name, message)

    def message(self, asked: int = 0) -> AnnounceStatus:
        """The status of this node. asked: the number of the request that it answers."""
        return AnnounceStatus(
            view=self.view.id,
            members=self.view.members,
            member=self.me,
            position=self._log.position,
            phase=self.phase,
            is_fenced=self._fence.is_up,
            links=tuple(self.peers),
            asked=asked,
            takes_from=self.takes_from,
            companions=tuple(sorted(self._companions.names)) if self.phase == STARTING else (),
        )

    def tell(self) -> None:
        """Send the status to all linked nodes, if it has changed."""
        links = tuple((name, linked.incarnation) for name, linked in self.peers.items())
        state = (self.view.id, self.phase, self._fence.is_up, links)
        if state != self._told:
            self._told = state
            for name in self.peers:
                self.send(name, self.message())
