"""Which view a node is in, and how the next one is agreed on.

The part of replication.py that knows nothing of submissions: it speaks of views, links and
positions. See V1, V5, V7 and V9 there, and docs/design/cluster.md for the reasons.

    starting ──── form, or Install ───► running ◄───────── Install ──────── left
                                           └── its coordinator is lost, it  ──►┘
                                               agreed to another proposer's
                                               view, or was left out of one

The member of a view that has been in it longest, among those that can be reached, proposes the next
one when the members it can reach are not those of the view, or when other nodes join. A proposal
needs the agreement of all; a node that cannot agree refuses, and the proposer tries again at the
next tick with what it knows by then.
"""

from collections.abc import Callable

from leveret.cluster.metadata.divergence import Divergence
from leveret.cluster.metadata.fence import Fence
from leveret.cluster.metadata.messages import (
    LEFT,
    RUNNING,
    STARTING,
    Accept,
    AnyMessage,
    Ask,
    Cancel,
    Diverged,
    Entry,
    Install,
    Member,
    Obsolete,
    Propose,
    Refuse,
    Status,
    View,
    ViewId,
)
from leveret.cluster.metadata.next_view import Linked, NextView
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.outbox import Outbox
from leveret.cluster.metadata.outputs import Pause, Restart, SendSnapshot
from leveret.cluster.metadata.proposal import Proposal

Begin = Callable[[Install], None]
"""A view begins at this node, with what its log lacks."""
MayGoOn = Callable[[frozenset[str]], bool]
"""Whether nodes may go on without the other members of their view (partitions/)."""


class Views:
    """The views of one run of one node. See `Replication` for the arguments.

    ending: why the node has to stop, if it has to; nothing more is done then.
    """

    def __init__(
        self,
        me: Member,
        log: OrderedLog,
        last_view: View,
        fence: Fence,
        out: Outbox,
        begin: Begin,
        takes_from: tuple[str, ...],
        may_go_on: MayGoOn,
    ) -> None:
        self.me = me
        self.view = last_view
        self.phase = STARTING
        self.peers: dict[str, Linked] = {}
        self.fence = fence
        self.divergence = Divergence(out)
        self.ending: Pause | Restart | None = None
        self._log = log
        self._out = out
        self._begin = begin
        self._takes_from = takes_from
        self._may_go_on = may_go_on
        self._promised = last_view.id
        self._accepted: View | None = None
        self._proposal: Proposal | None = None
        self._is_held = False
        self._lost: set[str] = set()
        self._excluded_from: ViewId | None = None
        self._told: object = None
        self._is_settled = False

    # What the node may do

    @property
    def is_coordinator(self) -> bool:
        """Whether this node orders what is submitted in the view."""
        return self.phase == RUNNING and self.view.members[0] == self.me

    @property
    def takes_part(self) -> bool:
        """Whether this node is in its view, though perhaps it has agreed to another one."""
        return self.phase == RUNNING

    @property
    def takes_entries(self) -> bool:
        """Whether the log may grow: the node has not agreed to another view."""
        return self.phase == RUNNING and self._accepted is None

    @property
    def is_in_service(self) -> bool:
        """Whether the node may submit and answer in its view."""
        return self.takes_entries and not self.fence.is_up

    @property
    def may_order(self) -> bool:
        """Whether the coordinator may order: no other view is about to be installed."""
        return self.is_in_service and self._proposal is None and not self._is_broken()

    # Inputs

    def linked(self, name: str, incarnation: int) -> None:
        """A link is up. One with an earlier run of the node is over by that."""
        self.unsettle()
        known = self.peers.get(name)
        if known is not None and known.incarnation > incarnation:
            return
        self.unlinked(name)
        self.peers[name] = Linked(incarnation)

    def unlinked(self, name: str) -> None:
        """A link is down."""
        self.unsettle()
        if name not in self.peers:
            return
        member = self._member_at(name)
        del self.peers[name]
        self.divergence.forget(name)
        if member is not None:
            self._lost.add(name)
            self.fence.doubt()
            if member == self.view.members[0] and self.phase == RUNNING:
                self.phase = LEFT
        if self._proposal is not None and name in self._proposal.view.names:
            self._abandon()
        if self._accepted is not None and self._accepted.id.coordinator == name:
            self._release()

    def tick(self) -> None:
        """Time passes: a fraction of a second."""
        self.unsettle()
        self._is_held = False
        self.fence.tick()

    def suspended(self) -> None:
        """The process did not run for so long that the others may have gone on without it."""
        self._abandon()
        others = [name for name in self.view.names if name != self.me.name]
        if self.phase == STARTING or not others:
            return
        number = self.fence.ask(others)
        for name in others:
            self._send(name, Ask(number))

    def form(self) -> None:
        """Begin a view without any other node."""
        assert self.phase == STARTING, "a node that runs is in a view"
        self.unsettle()
        if self._accepted is None:
            self._propose((self.me,))

    # What follows from every input

    def unsettle(self) -> None:
        """Something has changed that may ask for another view."""
        self._is_settled = False

    def settle(self, admitted: frozenset[str]) -> None:
        """If anything has changed, see to the next view, and tell the others."""
        if not self._is_settled:
            self._is_settled = True
            self._see_to_next_view(admitted)
            self._tell_status()

    def _see_to_next_view(self, admitted: frozenset[str]) -> None:
        """Propose the next view if that is for this node to do."""
        if self.phase == STARTING or self._accepted is not None:
            return
        self._notice_exclusion()
        if self.fence.is_up or self._proposal is not None or self._is_held or self._has_senior():
            return
        next_view = NextView(self.me, self.view, self._log, self.peers)
        staying = next_view.staying()
        if staying != self.view.members or self._is_broken():
            self._go_on(staying)
            return
        members = next_view.joined(admitted)
        if members != staying:
            self._propose(members)
        elif self.is_coordinator:
            self.divergence.compare(self.view, self._log, self.peers)

    def _go_on(self, members: tuple[Member, ...]) -> None:
        """The view is over: its other members begin a new one, if the partition rule allows it.

        Nobody joins with it: one who cannot agree would hold up the others.
        """
        names = frozenset(member.name for member in members)
        if names.issuperset(self.view.names) or self._may_go_on(names):
            self._propose(members)
        else:
            self._pause(names)

    def _pause(self, names: frozenset[str]) -> None:
        """The partition rule forbids the view; it is not installed, so nobody takes it for one."""
        self.ending = Pause(tuple(sorted(names)))

    def _tell_status(self) -> None:
        """Tell all linked nodes how this one stands, if that has changed."""
        links = tuple((name, linked.incarnation) for name, linked in self.peers.items())
        state = (self.view.id, self.phase, self.fence.is_up, links)
        if state != self._told:
            self._told = state
            for name in self.peers:
                self._send(name, self.status())

    def _notice_exclusion(self) -> None:
        """A member went on to a view without this node: wait to be taken into it (V9)."""
        if self._excluded_from == self.view.id:
            return
        for linked in map(self._linked_member, self.view.members):
            status = None if linked is None else linked.status
            if (
                status is not None
                and status.view > self.view.id
                and status.phase == RUNNING
                and self.me not in status.members
            ):
                self._abandon()
                self._excluded_from = self.view.id
                self.phase = LEFT
                self.fence.wait()
                return

    def _has_senior(self) -> bool:
        """Whether a node that joined earlier is there to propose the next view."""
        for member in self.view.members:
            if member == self.me:
                return False
            linked = self._linked_member(member)
            if linked is not None and linked.proposes_after(self.view):
                return True
        return False

    def _is_broken(self) -> bool:
        """Whether the view cannot go on, even if all of its members are linked again."""
        if self.phase == LEFT or self._lost:
            return True
        linked = map(self._linked_member, self.view.members)
        return any(one is not None and one.has_left(self.view) for one in linked)

    def _linked_member(self, member: Member) -> Linked | None:
        linked = self.peers.get(member.name)
        return linked if linked is not None and linked.incarnation == member.incarnation else None

    def _member_at(self, name: str) -> Member | None:
        """The member of the view that the link with a node leads to."""
        for member in self.view.members:
            if member.name == name and self._linked_member(member) is not None:
                return member
        return None

    def status(self, asked: int = 0) -> Status:
        """How this node stands. asked: the number of the question that this answers."""
        return Status(
            view=self.view.id,
            members=self.view.members,
            member=self.me,
            position=self._log.position,
            phase=self.phase,
            is_fenced=self.fence.is_up,
            links=tuple(self.peers),
            asked=asked,
            takes_from=self._takes_from,
        )

    def _send(self, name: str, message: AnyMessage) -> None:
        if name in self.peers:
            self._out.send(name, message)

    # Messages: how nodes stand

    def handle_ask(self, sender: str, ask: Ask) -> None:
        """A node asks how this one stands."""
        self._send(sender, self.status(ask.number))

    def handle_status(self, sender: str, status: Status) -> None:
        """A node says how it stands."""
        self.peers[sender].status = status
        if status.asked and status.view == self.view.id and status.phase == RUNNING:
            self.fence.confirmed(sender, status.asked)

    def handle_diverged(self, sender: str, diverged: Diverged) -> None:
        """A coordinator found that this node's view is not behind its own."""
        self.peers[sender].correct(diverged.own, diverged.position)
        self.divergence.heard(sender, diverged)

    # The proposer

    def _propose(self, members: tuple[Member, ...]) -> None:
        statuses = (linked.status for linked in self.peers.values())
        known = (status.view.epoch for status in statuses if status is not None)
        epoch = 1 + max(self._promised.epoch, self.view.id.epoch, *known)
        view = View(ViewId(epoch, self.me.name, self.me.incarnation), members)
        self._promised = view.id
        self._proposal = Proposal(view, self.view, self._log)
        for name in view.names[1:]:
            self._send(name, Propose(view, self.view.id, self._log.position))
        if self._proposal.is_complete:
            self._conclude(self._proposal)

    def _abandon(self) -> None:
        """Withdraw the proposal that is under way."""
        if self._proposal is None:
            return
        proposal, self._proposal = self._proposal, None
        for name in proposal.view.names[1:]:
            self._send(name, Cancel(proposal.view.id))

    def handle_accept(self, sender: str, accept: Accept) -> None:
        """A node agrees to this one's proposal."""
        proposal = self._proposal
        if proposal is None or proposal.view.id != accept.view:
            return
        proposal.accept(sender, accept)
        if proposal.is_complete:
            self._conclude(proposal)

    def handle_refuse(self, refuse: Refuse) -> None:
        """A node does not agree to this one's proposal, or not any more."""
        if self._proposal is None or self._proposal.view.id != refuse.view:
            return
        self._abandon()
        self._promised = max(self._promised, refuse.promised)
        self._is_held = not refuse.is_outdated

    def _conclude(self, proposal: Proposal) -> None:
        """All have agreed: install the view, or leave out those that cannot follow."""
        tail = proposal.tail()
        obsolete, diverged = proposal.obsolete(tail), proposal.diverged(tail)
        if obsolete or diverged:
            for name in obsolete:
                self._send(name, Obsolete(proposal.view.id))
                self.peers[name].status = None
            for name in diverged:
                accept = proposal.accepts[name]
                self.peers[name].correct(accept.source, accept.position)
            self._abandon()
            return
        self._proposal = None
        base = self._log.last + len(tail)
        self._begin(Install(proposal.view, (), base, tail))
        for name in proposal.view.names[1:]:
            entries = proposal.lacks(name)
            install = Install(proposal.view, self._log.starts, base, entries or ())
            if entries is None:
                self._out.add(SendSnapshot(name, install))
            else:
                self._send(name, install)

    # The others

    def handle_propose(self, sender: str, propose: Propose) -> None:
        """A node proposes a view with this one in it."""
        refusal = self._objection(sender, propose)
        if refusal is not None:
            self._send(sender, refusal)
            return
        self._abandon()
        if self._accepted is not None and self._accepted.id.coordinator != sender:
            withdrawn = Refuse(self._accepted.id, "agreed to another proposal", propose.view.id)
            self._send(self._accepted.id.coordinator, withdrawn)
        self._accepted = propose.view
        self._promised = propose.view.id
        entries: tuple[Entry, ...] = ()
        if self._log.contains(propose.position):
            entries = self._log.after(propose.position.index) or ()
        is_starting = self.phase == STARTING
        source, position = self.view.id, self._log.position
        self._send(sender, Accept(propose.view.id, source, position, is_starting, entries))

    def _objection(self, sender: str, propose: Propose) -> Refuse | None:
        """Why this node cannot agree to a proposal."""
        view = propose.view

        def refuse(reason: str, *, is_outdated: bool = False) -> Refuse:
            return Refuse(view.id, reason, self._promised, is_outdated)

        if view.id <= self._promised:
            is_free = self._accepted is None and self._proposal is None
            return refuse("agreed to a later proposal", is_outdated=is_free)
        if self.me not in view.members:
            return refuse("it names another run of this node")
        unlinked = [
            one.name for one in view.members if one != self.me and self._linked_member(one) is None
        ]
        if unlinked:
            return refuse(f"no link with {', '.join(unlinked)}")
        if self.phase == STARTING:
            if self._takes_from and set(self._takes_from).isdisjoint(view.names):
                return refuse(f"starts with {' or '.join(self._takes_from)}")
            return None
        if view.members[0] == self.view.members[0]:
            return None
        left_out = self._left_out(sender, propose)
        return refuse(f"{left_out} is in the same view and left out") if left_out else None

    def _left_out(self, sender: str, propose: Propose) -> str:
        """A member of this node's view that the proposer has to take in, and does not, or "".

        Within the view: one that joined before the proposer, who decides first. A proposer from
        another view takes in all whom this node can reach, so that a view moves as a whole.
        """
        for member in self.view.members:
            if member.name == sender and propose.source == self.view.id:
                return ""
            linked = self._linked_member(member)
            is_there = linked is not None and linked.is_still_in(self.view)
            if is_there and member not in propose.view.members:
                return member.name
        return ""

    def handle_cancel(self, cancel: Cancel) -> None:
        """A proposal is withdrawn."""
        if self._accepted is not None and self._accepted.id == cancel.view:
            self._release()

    def _release(self) -> None:
        """The node is free to agree to any proposal again.

        If its coordinator had proposed, it has missed nothing of the view. Otherwise it may have.
        """
        accepted, self._accepted = self._accepted, None
        assert accepted is not None
        if self.phase == RUNNING and accepted.members[0] != self.view.members[0]:
            self.phase = LEFT

    def handle_install(self, install: Install) -> None:
        """The view that this node agreed to holds."""
        if self._accepted is not None and self._accepted.id == install.view.id:
            self._begin(install)

    def installed(self, view: View) -> None:
        """The log is ready for the view."""
        self.view = view
        self.phase = RUNNING
        self._accepted = None
        self._lost = {
            one.name for one in view.members if one != self.me and self._linked_member(one) is None
        }
        if view.members[0].name in self._lost:
            self.phase = LEFT
        self.fence.fall()
        self.divergence.begin(view)

    def handle_obsolete(self, obsolete: Obsolete) -> None:
        """The log of this node cannot be extended to that of the view that it wants to join."""
        if self._accepted is not None and self._accepted.id == obsolete.view:
            others = tuple(name for name in self._accepted.names if name != self.me.name)
            self.ending = Restart(others)
