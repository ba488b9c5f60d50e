"""The view that a node is in, and when to agree on the next one.

This part of replication.py handles only views, links and positions, not submissions. V1, V5, V7, V9
and V10 are stated there, and docs/design/cluster.md has the reasons. Its own parts are the node's
proposals (proposer.py) and its agreement to those of others (agreement.py); they share the node's
knowledge of itself and its links (node_status.py).

    starting ──── form, or Install ───► running ◄───────── Install ──────── left
                                           └── its coordinator is lost, it  ──►┘
                                               agreed to another proposer's
                                               view, or was left out of one

The reachable member that has been in the view longest proposes the next one when the members it can
reach are not those of the view, or when other nodes join. A proposal needs the agreement of all its
nodes; a node that cannot agree refuses, and the proposer tries again at the next tick with its
knowledge by then. A node has its agreement on disk before it sends it (V1), and the proposer has
its own on disk before it installs the view, with all members as companions (V10).
"""

from collections.abc import Callable, Mapping

from leveret.cluster.metadata.agreement import Agreement
from leveret.cluster.metadata.companions import Companions
from leveret.cluster.metadata.divergence import Divergence
from leveret.cluster.metadata.fence import Fence
from leveret.cluster.metadata.messages import (
    LEFT,
    RUNNING,
    STARTING,
    Accept,
    AnnounceStatus,
    Ask,
    Diverged,
    Install,
    Obsolete,
    Propose,
    Refuse,
    View,
    ViewId,
    ViewMember,
    WithdrawProposal,
)
from leveret.cluster.metadata.next_view import Linked, NextView
from leveret.cluster.metadata.node_status import NodeStatus
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.outbox import Outbox
from leveret.cluster.metadata.outputs import Pause, Restart
from leveret.cluster.metadata.promises import Promises
from leveret.cluster.metadata.proposer import Begin, Proposer

MayGoOn = Callable[[frozenset[str]], bool]
"""Whether nodes may continue without the other members of their view (partitions/)."""


class Views:
    """The views of one run of one node. `MetadataReplication` describes the arguments.

    ending: the output that stops the node, if it has to stop; nothing more is done then.
    """

    def __init__(
        self,
        me: ViewMember,
        log: OrderedLog,
        last_view: View,
        companions: Companions,
        promises: Promises,
        fence: Fence,
        out: Outbox,
        begin: Begin,
        takes_from: tuple[str, ...],
        may_go_on: MayGoOn,
    ) -> None:
        self.fence = fence
        self.divergence = Divergence(out)
        self.ending: Pause | Restart | None = None
        self._status = NodeStatus(me, last_view, log, companions, fence, out, takes_from)
        self._agreement = Agreement(self._status, log, promises)
        self._proposer = Proposer(
            self._status, self._agreement, log, companions, promises, out, begin
        )
        self._log = log
        self._begin = begin
        self._may_go_on = may_go_on
        self._lost: set[str] = set()
        self._excluded_from: ViewId | None = None
        self._is_settled = False

    # The status of the node

    @property
    def view(self) -> View:
        """The last installed view."""
        return self._status.view

    @property
    def phase(self) -> str:
        """STARTING, RUNNING or LEFT."""
        return self._status.phase

    @property
    def peers(self) -> Mapping[str, Linked]:
        """The linked nodes by name."""
        return self._status.peers

    def status(self) -> AnnounceStatus:
        """The status of this node."""
        return self._status.message()

    @property
    def names_from_now_on(self) -> frozenset[str]:
        """The nodes in the view, and those in this node's proposal."""
        return frozenset((*self.view.names, *self._proposer.proposed_names))

    # What the node may do

    @property
    def is_coordinator(self) -> bool:
        """Whether this node orders the submissions of the view."""
        return self.phase == RUNNING and self.view.members[0] == self._status.me

    @property
    def takes_part(self) -> bool:
        """Whether this node is in its view, even if it has agreed to another one."""
        return self.phase == RUNNING

    @property
    def takes_entries(self) -> bool:
        """Whether the log may grow: the node has not agreed to another view."""
        return self.phase == RUNNING and self._agreement.accepted is None

    @property
    def is_in_service(self) -> bool:
        """Whether the node may submit and answer in its view."""
        return self.takes_entries and not self.fence.is_up

    @property
    def may_order(self) -> bool:
        """Whether the coordinator may order: no other view is about to be installed."""
        return self.is_in_service and not self.is_proposing and not self._is_broken()

    @property
    def is_proposing(self) -> bool:
        """Whether a proposal of this node is under way."""
        return self._proposer.is_proposing

    # Inputs

    def linked(self, name: str, incarnation: int) -> None:
        """A link is up. It ends one with an earlier run of the node."""
        self.unsettle()
        known = self.peers.get(name)
        if known is not None and known.incarnation > incarnation:
            return
        self.unlinked(name)
        self._status.peers[name] = Linked(incarnation)

    def unlinked(self, name: str) -> None:
        """A link is down."""
        self.unsettle()
        if name not in self.peers:
            return
        member = self._status.member_at(name)
        del self._status.peers[name]
        self.divergence.forget(name)
        if member is not None:
            self._lost.add(name)
            self.fence.doubt()
            if member == self.view.members[0] and self.phase == RUNNING:
                self._status.phase = LEFT
        self._proposer.unlinked(name)
        accepted = self._agreement.accepted
        if accepted is not None and accepted.id.coordinator == name:
            self._release()

    def tick(self) -> None:
        """Called several times a second."""
        self.unsettle()
        self._proposer.is_held = False
        self.fence.tick()

    def suspended(self) -> None:
        """The process did not run for so long that the others may have continued without it."""
        self._proposer.withdraw()
        others = [name for name in self.view.names if name != self._status.me.name]
        if self.phase == STARTING or not others:
            return
        number = self.fence.ask(others)
        for name in others:
            self._status.send(name, Ask(number))

    def form(self, names: tuple[str, ...] = ()) -> None:
        """Begin a view with these nodes, which also start; alone if there are none."""
        assert self.phase == STARTING, "a node that runs is in a view"
        self.unsettle()
        if self._agreement.accepted is not None or self.is_proposing:
            return
        members = self._next_view().starting(names)
        if not names or self._may_go_on(frozenset(member.name for member in members)):
            self._proposer.propose(members)

    # After every input

    def unsettle(self) -> None:
        """Note that a change may require another view."""
        self._is_settled = False

    def settle(self, admitted: frozenset[str]) -> None:
        """After a change, propose the next view if it is due, and tell the others."""
        if not self._is_settled:
            self._is_settled = True
            self._see_to_next_view(admitted)
            self._status.tell()

    def _see_to_next_view(self, admitted: frozenset[str]) -> None:
        """Propose the next view if this node has to."""
        if self.phase == STARTING or self._agreement.accepted is not None:
            return
        self._notice_exclusion()
        is_waiting = self.fence.is_up or self.is_proposing or self._proposer.is_held
        if is_waiting or self._has_senior():
            return
        next_view = self._next_view()
        staying = next_view.staying()
        if staying != self.view.members or self._is_broken():
            self._go_on(staying)
            return
        members = next_view.joined(admitted)
        if members != staying:
            self._proposer.propose(members)
        elif self.is_coordinator:
            self.divergence.compare(self.view, self._log, self.peers)

    def _go_on(self, members: tuple[ViewMember, ...]) -> None:
        """The view is over: its remaining members begin a new one, if the partition rule allows it.

        No other node joins in the same step: one that cannot agree would delay the rest.
        """
        names = frozenset(member.name for member in members)
        if names.issuperset(self.view.names) or self._may_go_on(names):
            self._proposer.propose(members)
        else:
            self._pause(names)

    def _pause(self, names: frozenset[str]) -> None:
        """Pause: the partition rule forbids the view. It is not installed, so no node counts it."""
        self.ending = Pause(tuple(sorted(names)))

    def _next_view(self) -> NextView:
        return NextView(self._status.me, self.view, self._log, self.peers)

    def _notice_exclusion(self) -> None:
        """If a member has gone on to a view without this node, wait to be taken in (V9).

        If this node agreed to that view, and lost its coordinator before `Install` arrived, the
        view names it: the others have not continued without it.
        """
        if self._excluded_from == self.view.id:
            return
        for linked in map(self._status.linked_member, self.view.members):
            status = None if linked is None else linked.status
            if status is not None and status.view > self.view.id and status.phase == RUNNING:
                self._proposer.withdraw()
                self._excluded_from = self.view.id
                self._status.phase = LEFT
                self.fence.wait()
                return

    def _has_senior(self) -> bool:
        """Whether a member that joined earlier can propose the next view."""
        for member in self.view.members:
            if member == self._status.me:
                return False
            linked = self._status.linked_member(member)
            if linked is not None and linked.proposes_after(self.view):
                return True
        return False

    def _is_broken(self) -> bool:
        """Whether the view cannot continue, even if all of its members are linked again."""
        if self.phase == LEFT or self._lost:
            return True
        linked = map(self._status.linked_member, self.view.members)
        return any(one is not None and one.has_left(self.view) for one in linked)

    # Messages: statuses

    def handle_ask(self, sender: str, ask: Ask) -> None:
        """A node asks for the status of this one."""
        self._status.send(sender, self._status.message(ask.number))

    def handle_status(self, sender: str, status: AnnounceStatus) -> None:
        """A node sends its status."""
        self.peers[sender].status = status
        if status.asked and status.view == self.view.id and status.phase == RUNNING:
            self.fence.confirmed(sender, status.asked)

    def handle_diverged(self, sender: str, diverged: Diverged) -> None:
        """A coordinator found that this node's view is not behind its own."""
        self.peers[sender].correct(diverged.own, diverged.position)
        self.divergence.heard(sender, diverged)

    # Proposals

    def conclude(self) -> None:
        """Writes of this node have reached the disk: send its agreement, or end its proposal."""
        self._agreement.conclude()
        self._proposer.conclude()

    def handle_accept(self, sender: str, accept: Accept) -> None:
        """A node agrees to this one's proposal."""
        self._proposer.accepted(sender, accept)

    def handle_refuse(self, sender: str, refuse: Refuse) -> None:
        """A node refuses this node's proposal, or withdraws its agreement."""
        if self._proposer.proposes(refuse.view):
            self._proposer.refused(refuse)
        elif self.is_coordinator and self.view.id == refuse.view:
            # That node had agreed, so the view holds, but without it.
            self._lost.add(sender)
            self._agreement.promise(refuse.promised)

    def handle_propose(self, sender: str, propose: Propose) -> None:
        """A node proposes a view with this one in it."""
        refusal = self._agreement.objection(sender, propose, self.is_proposing)
        if refusal is not None:
            self._status.send(sender, refusal)
            return
        self._proposer.withdraw()
        self._agreement.agree(sender, propose)

    def handle_cancel(self, cancel: WithdrawProposal) -> None:
        """A proposal is withdrawn."""
        if self._agreement.is_to(cancel.view):
            self._release()

    def _release(self) -> None:
        if self._agreement.release():
            self._status.phase = LEFT

    def handle_install(self, install: Install) -> None:
        """Install the view that this node agreed to: it holds."""
        if self._agreement.is_to(install.view.id):
            view = install.view
            self.peers[view.id.coordinator].has_installed(view)
            self._begin(install)

    def installed(self, view: View) -> None:
        """Enter the view: the log is ready for it."""
        status = self._status
        status.view = view
        status.phase = RUNNING
        self._agreement.fulfil()
        self._lost = set(status.unlinked(view.members))
        if view.members[0].name in self._lost:
            status.phase = LEFT
        self.fence.fall()
        self.divergence.begin(view)

    def handle_obsolete(self, obsolete: Obsolete) -> None:
        """The node's log cannot be extended to the log of the view that it wants to join."""
        accepted = self._agreement.accepted
        if accepted is not None and accepted.id == obsolete.view:
            others = tuple(name for name in accepted.names if name != self._status.me.name)
            self.ending = Restart(others)
