"""The agreement of one node: which proposals it may accept, and the one that binds it.

A node agrees to proposals in the order of their ids, and is bound to the last one until that one
is installed or withdrawn (V1). While it is bound it accepts no entries of its view. It sends its
agreement once the promise is on its disk (promises.py).
"""

from leveret.cluster.metadata.messages import (
    RUNNING,
    STARTING,
    Accept,
    LogEntry,
    Propose,
    Refuse,
    View,
    ViewId,
)
from leveret.cluster.metadata.node_status import NodeStatus
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.promises import Promises


class Agreement:
    """The proposal that binds a node: `accepted`, or None.

    promised: the highest id that the node has proposed, agreed to, or been refused with.
    """

    def __init__(self, status: NodeStatus, log: OrderedLog, promises: Promises) -> None:
        self.accepted: View | None = None
        self.promised = max(status.view.id, promises.highest)
        self._status = status
        self._log = log
        self._promises = promises
        self._unsent: Accept | None = None

    def promise(self, view: ViewId) -> None:
        """Refuse proposals with an id lower than this one from now on."""
        self.promised = max(self.promised, view)

    def is_to(self, view: ViewId) -> bool:
        """Whether the node is bound to the proposal with this id."""
        return self.accepted is not None and self.accepted.id == view

    def objection(self, sender: str, propose: Propose, is_proposing: bool) -> Refuse | None:
        """Why this node cannot agree to a proposal. is_proposing: its own is under way."""
        status, view = self._status, propose.view

        def refuse(reason: str, *, is_outdated: bool = False) -> Refuse:
            return Refuse(view.id, reason, self.promised, is_outdated)

        if view.id <= self.promised:
            is_free = self.accepted is None and not is_proposing
            return refuse("agreed to a later proposal", is_outdated=is_free)
        if status.me not in view.members:
            return refuse("it names another run of this node")
        unlinked = status.unlinked(view.members)
        if unlinked:
            return refuse(f"no link with {', '.join(unlinked)}")
        if status.phase == STARTING:
            takes_from = status.takes_from
            if takes_from and set(takes_from).isdisjoint(view.names):
                return refuse(f"starts with {' or '.join(takes_from)}")
            return None
        if view.members[0] == status.view.members[0]:
            return None
        left_out = self._left_out(sender, propose)
        return refuse(f"{left_out} is in the same view and left out") if left_out else None

    def _left_out(self, sender: str, propose: Propose) -> str:
        """A member of this node's view that the proposal must include and does not, or "".

        A proposer in this view must include members that joined before it: they propose first. A
        proposer from another view must include all that this node reaches: a view moves as a whole.
        """
        view = self._status.view
        for member in view.members:
            if member.name == sender and propose.source == view.id:
                return ""
            linked = self._status.linked_member(member)
            is_there = linked is not None and linked.is_still_in(view)
            if is_there and member not in propose.view.members:
                return member.name
        return ""

    def agree(self, sender: str, propose: Propose) -> None:
        """Bind the node to a proposal, in place of an earlier one of another node."""
        status = self._status
        if self.accepted is not None and self.accepted.id.coordinator != sender:
            withdrawn = Refuse(self.accepted.id, "agreed to another proposal", propose.view.id)
            status.send(self.accepted.id.coordinator, withdrawn)
        self.accepted = propose.view
        self.promised = propose.view.id
        entries: tuple[LogEntry, ...] = ()
        if self._log.contains(propose.position):
            entries = self._log.after(propose.position.index) or ()
        is_starting = status.phase == STARTING
        source, position = status.view.id, self._log.position
        self._unsent = Accept(propose.view.id, source, position, is_starting, entries)
        self._promises.make(propose.view)

    def conclude(self) -> None:
        """Send the agreement if the promise is on disk."""
        view, accept = self.accepted, self._unsent
        if view is not None and accept is not None and self._promises.hold(view):
            self._unsent = None
            self._status.send(view.id.coordinator, accept)

    def fulfil(self) -> None:
        """Free the node to agree to the next view: a view is installed."""
        self.accepted = self._unsent = None

    def release(self) -> bool:
        """Free the node to agree to any other proposal: this one has failed.

        Returns whether the node may have missed entries of its view. It has not if the coordinator
        of its view was the proposer.
        """
        accepted = self.accepted
        self.accepted = self._unsent = None
        assert accepted is not None
        status = self._status
        return status.phase == RUNNING and accepted.members[0] != status.view.members[0]
