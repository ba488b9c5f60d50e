"""The proposals of one node: it asks the others to agree to the next view, and installs it.

A proposal ends in one of three ways. All nodes agree, and the view is installed. A node refuses, or
the link with one is lost: the proposal is withdrawn, and the next tick makes another one from the
state known by then. Or some nodes cannot follow from their position (proposal.py), and are told.
"""

from collections.abc import Callable

from leveret.cluster.metadata.agreement import Agreement
from leveret.cluster.metadata.companions import Companions
from leveret.cluster.metadata.messages import (
    Accept,
    Install,
    Obsolete,
    Propose,
    Refuse,
    View,
    ViewId,
    ViewMember,
    WithdrawProposal,
)
from leveret.cluster.metadata.node_status import NodeStatus
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.outbox import Outbox
from leveret.cluster.metadata.outputs import SendInstall
from leveret.cluster.metadata.promises import Promises
from leveret.cluster.metadata.proposal import Proposal

Begin = Callable[[Install], None]
"""A view begins at this node, with the entries that its log lacks."""


class Proposer:
    """is_held: the last proposal was refused, and the next one waits for a tick."""

    def __init__(
        self,
        status: NodeStatus,
        agreement: Agreement,
        log: OrderedLog,
        companions: Companions,
        promises: Promises,
        out: Outbox,
        begin: Begin,
    ) -> None:
        self.is_held = False
        self._status = status
        self._agreement = agreement
        self._log = log
        self._companions = companions
        self._promises = promises
        self._out = out
        self._begin = begin
        self._proposal: Proposal | None = None

    @property
    def is_proposing(self) -> bool:
        """Whether a proposal is under way."""
        return self._proposal is not None

    @property
    def proposed_names(self) -> tuple[str, ...]:
        """The nodes in the proposal that is under way; empty without one."""
        return () if self._proposal is None else self._proposal.view.names

    def proposes(self, view: ViewId) -> bool:
        """Whether the proposal with this id is under way."""
        return self._proposal is not None and self._proposal.view.id == view

    def propose(self, members: tuple[ViewMember, ...]) -> None:
        """Propose a view with these members, of which this node is the first."""
        status = self._status
        statuses = (linked.status for linked in status.peers.values())
        known = (status.view.epoch for status in statuses if status is not None)
        epoch = 1 + max(self._agreement.promised.epoch, status.view.id.epoch, *known)
        view = View(ViewId(epoch, status.me.name, status.me.incarnation), members)
        self._agreement.promise(view.id)
        self._promises.make(view)
        self._proposal = Proposal(view, status.view, self._log)
        self._companions.widen(frozenset(view.names))
        for name in view.names[1:]:
            status.send(name, Propose(view, status.view.id, self._log.position))
        self.conclude()

    def withdraw(self) -> None:
        """Withdraw the proposal that is under way, if there is one."""
        if self._proposal is None:
            return
        proposal, self._proposal = self._proposal, None
        for name in proposal.view.names[1:]:
            self._status.send(name, WithdrawProposal(proposal.view.id))

    def unlinked(self, name: str) -> None:
        """Note that the link with a node is lost: it cannot agree."""
        if self._proposal is not None and name in self._proposal.view.names:
            self.withdraw()

    def accepted(self, sender: str, accept: Accept) -> None:
        """Note the agreement of a node."""
        if self._proposal is not None and self._proposal.view.id == accept.view:
            self._proposal.accept(sender, accept)
            self.conclude()

    def refused(self, refuse: Refuse) -> None:
        """Note that a node refuses the proposal that is under way."""
        self.withdraw()
        self._agreement.promise(refuse.promised)
        self.is_held = not refuse.is_outdated

    def conclude(self) -> None:
        """End the proposal if all have agreed and it is on this node's disk (V1, V10)."""
        proposal = self._proposal
        if (
            proposal is not None
            and proposal.is_complete
            and self._promises.hold(proposal.view)
            and self._companions.hold(frozenset(proposal.view.names))
        ):
            self._conclude(proposal)

    def _conclude(self, proposal: Proposal) -> None:
        """All have agreed: install the view, or leave out the nodes that cannot follow."""
        status = self._status
        tail = proposal.tail()
        obsolete, diverged = proposal.obsolete(tail), proposal.diverged(tail)
        if obsolete or diverged:
            for name in obsolete:
                status.send(name, Obsolete(proposal.view.id))
                status.peers[name].status = None
            for name in diverged:
                accept = proposal.accepts[name]
                status.peers[name].correct(accept.source, accept.position)
            self.withdraw()
            return
        self._proposal = None
        base = self._log.last + len(tail)
        self._begin(Install(proposal.view, (), base, tail))
        for name in proposal.view.names[1:]:
            entries = proposal.lacks(name)
            install = Install(proposal.view, self._log.starts, base, entries or ())
            if entries is None:
                self._out.add(SendInstall(name, install))
            else:
                status.send(name, install)
