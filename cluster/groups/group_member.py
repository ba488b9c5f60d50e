"""A group's member on this node: its part in Raft, its machine, and its clients if it leads.

The service (groups.py) gives it messages, link changes and times, and marks it. At the end of the
turn the member carries out what Raft asks for, in order, and applies committed entries.

Invariants:

GMB1  Entries are applied in the order of their indexes, each one once.
GMB2  Clients are served only after the first entry of the leader's term was applied.
GMB3  Only the leader of a term tells nodes that it leads this term. The Raft core may be in a later
     term already before the turn ends in which this member stops serving.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from leveret.cluster.groups.apply_limits import APPLY_BYTES, APPLY_ENTRIES, ApplyLimits
from leveret.cluster.groups.catch_up_reads import CatchUpReads, ReadsHost
from leveret.cluster.groups.current_answers import CurrentAnswers
from leveret.cluster.groups.group_frames import (
    Answered,
    AttachClient,
    ClientCommands,
    DeliveredBytes,
    GroupItem,
    GroupQuestion,
    Leads,
    LeadsNoMore,
    Told,
)
from leveret.cluster.groups.group_machine import (
    FOR_THE_LEADER,
    Effect,
    GroupMachine,
    MachineKind,
)
from leveret.cluster.groups.member_changes import MemberChanges
from leveret.cluster.groups.member_question import MEMBERS, members_of
from leveret.cluster.groups.member_tick import MemberTick, Times
from leveret.cluster.groups.sessions import GroupSession, Sessions
from leveret.cluster.groups.wanted_members import WantedMembers
from leveret.cluster.raft.entry_log import Stored
from leveret.cluster.raft.messages import EntriesLost, RaftMessage
from leveret.cluster.raft.outputs import (
    CONFIGURATION,
    DATA,
    Append,
    CancelSnapshot,
    Committed,
    LeaderChanged,
    LeaderTransferEnded,
    MemberLost,
    NoLongerMember,
    RaftOutput,
    ReadEntries,
    ResetLog,
    SaveTerm,
    Send,
    SendSnapshot,
    Truncate,
    Wake,
)
from leveret.cluster.raft.raft_member import RaftMember
from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import StoreError
from leveret.storage.group_log.group_state import SnapshotName

LinkChange = Callable[[RaftMember, str, int], None]
"""A method of `RaftMember` about the link to another member."""

logger = logging.getLogger("leveret.cluster")


class MemberHost(Times, ReadsHost, Protocol):
    """The service of the node."""

    kind: MachineKind
    node: str
    limits: ApplyLimits

    def mark(self, member: "GroupMember") -> None:
        """Have `end_turn` called."""

    def may_stand(self, member: "GroupMember") -> bool:
        """Whether a member may start an election: not too many others are in one."""

    def send_raft(self, sender: str, to: str, message: RaftMessage) -> None:
        """Send a message to another member."""

    def send_item(self, node: str, item: GroupItem) -> None:
        """Send an item to a node, which may be this one."""

    def tell_use(
        self, group: int, session: int, effects: list[Effect], entries: Mapping[int, bytes]
    ) -> None:
        """Pass effects to a client on this node."""

    def members_changed(self, member: "GroupMember") -> None:
        """The configuration or the leader of a group has changed."""

    @property
    def name_of(self) -> Callable[[int], str]:
        """Called with a group, for the log: the name of its queue."""

    @property
    def lost(self) -> Callable[[int, str], object]:
        """Called with a group, and the name of a member that has to be replaced."""

    def send_snapshot(self, member: "GroupMember", to: str) -> None:
        """Send the newest snapshot to another member."""

    def cancel_snapshot(self, member: "GroupMember", to: str) -> None:
        """Stop sending a snapshot."""

    def is_removed(self, member: "GroupMember") -> None:
        """The member was removed from its group."""

    def lead_effects(self, member: "GroupMember", effects: list[Effect]) -> None:
        """Take effects for the leader's node."""


class GroupMember:
    """A group's member on this node. applied: the last applied entry.

    damage: why it cannot be used. is_to_be_replaced: it is damaged, and another member on this node
    has to take its place. obstacle: why it cannot apply the next entry, or its snapshot, which a
    newer version has written; it still stores entries for the other members, but does not lead.
    """

    __deletable__ = ("_current", "_reads", "sessions")

    def __init__(
        self, host: MemberHost, group: int, me: str, stored: Stored, machine: GroupMachine,
        random: Callable[[], float],
    ) -> None:  # fmt: skip
        self.group = group
        self.me = me
        self.machine = machine
        self.raft = RaftMember(group, me, stored, random, host.kind.window_bytes)
        self.changes = MemberChanges(me, self.raft)
        self.applied = self._commit = stored.snapshot_index
        self.is_marked = False
        self.damage = self.obstacle = ""
        self.is_to_be_replaced = True
        self.watchers: set[str] = set()
        """The nodes that want to know when this member leads."""
        self.commit_s = 0.0
        """The time from proposing to committing the last measured entry, while this member led."""
        self.times_served = 0
        """The number of times it has started to serve clients. Entries applied at other times have
        no effects.
        """
        self.sessions = Sessions(self, host.kind)
        self._host = host
        self._log = host.log
        self._writes = 0
        self._is_serving = False
        self._serving_term = 0
        self._is_reading = False
        self._tick = MemberTick(host)
        self._timed_index, self._timed_s = 0, 0.0
        self._current = CurrentAnswers(self.raft.append_empty, self._reply)
        self._reads = CatchUpReads(host, group, self.raft, self._mark, self.lost_entry)

    @property
    def is_serving(self) -> bool:
        """Whether this member is the leader, and accepts clients."""
        return self._is_serving

    @property
    def queue_name(self) -> str:
        """The name of its queue, for the log."""
        return self._host.name_of(self.group)

    # Turns

    def _mark(self) -> None:
        self._host.mark(self)

    def end_turn(self) -> int:
        """Carry out the work that is due. Returns the number of the last write; 0 without one."""
        if self.damage:
            return 0
        before = self._writes
        if self.changes.is_due:
            self.changes.start_next()
        self._current.end_turn()
        try:
            for output in self.raft.take_outputs():
                self._carry_out(output)
        except StoreError as error:
            self.lost_entry(error)
        if self.damage:
            return 0
        self._apply()
        return self._writes if self._writes > before else 0

    def _carry_out(self, output: RaftOutput) -> None:
        if isinstance(output, Send):
            self._host.send_raft(self.me, output.to, output.message)
        elif isinstance(output, Append):
            self._writes += 1
            self._log.append(self.group, output.first, output.term, output.kind, output.payloads)
            if output.kind == CONFIGURATION:
                self.changes.is_due = True
                self._host.members_changed(self)
        elif isinstance(output, Committed):
            self._commit = output.through
            if 0 < self._timed_index <= output.through:
                self.commit_s = max(0.0, self._host.wall_time_s() - self._timed_s)
                self._timed_index = 0
        elif isinstance(output, Wake):
            self._host.wake_at(output.at_ms, self.wake)
        elif isinstance(output, Truncate):
            self._writes += 1
            self._log.truncate(self.group, output.first)
            self._host.members_changed(self)
        elif isinstance(output, SaveTerm):
            self._writes += 1
            self._log.save_term(self.group, output.term, output.vote)
        elif isinstance(output, ResetLog):
            self._writes += 1
            self._log.reset(self.group, SnapshotName(output.index, output.term))
            self._host.members_changed(self)
        elif isinstance(output, ReadEntries):
            self._reads.read(output)
        else:
            self._carry_out_seldom(output)

    def _carry_out_seldom(self, output: RaftOutput) -> None:
        if isinstance(output, LeaderChanged):
            self.stop_serving()
            self._host.members_changed(self)
        elif isinstance(output, SendSnapshot):
            self._host.send_snapshot(self, output.to)
        elif isinstance(output, CancelSnapshot):
            self._host.cancel_snapshot(self, output.to)
        elif isinstance(output, NoLongerMember):
            self._host.is_removed(self)
        elif isinstance(output, MemberLost):
            self._host.lost(self.group, output.member)
        elif isinstance(output, LeaderTransferEnded):
            self._serve_if_ready()

    def drained(self, node: str) -> None:
        """More can be sent to a node."""
        self.sessions.drained(node)
        self._reads.go_on()

    def link_down(self, node: str) -> None:
        """The link to a node is down, and all messages on the way there are lost."""
        self.watchers.discard(node)
        self.sessions.end(node)
        self.changes.is_due = True
        self._reads.link_down(node)

    # Applying

    def _apply(self) -> None:
        limits, log = self._host.limits, self.raft.state.log
        while self.applied < self._commit and not (self._is_reading or self.obstacle):
            first = self.applied + 1
            last = min(self._commit, log.end_of_run(first), self.applied + APPLY_ENTRIES)
            if log.kind_of(first) != DATA:
                self.applied = last
                continue
            if limits.reads <= 0 and not self._log.is_in_memory(self.group, first):
                self._is_reading = True
                limits.wait(self)
                break
            try:
                payloads = self._log.read(self.group, first, last, APPLY_BYTES)
                for payload in payloads:
                    self.machine.apply(self.applied + 1, payload, self._is_serving)
                    self.applied += 1  # GMB1
            except BeingRead as reading:
                self._is_reading = True
                limits.reads -= 1
                reading.when_done(self._after_read)
                break
            except StoreError as lost:
                self.lost_entry(lost)
                return
            except ValueError as error:
                self.cannot_apply(error)
                return
            limits.applied(payloads)
            if limits.is_reached:
                break
        if self._is_serving:
            self._tell_effects()
            self._current.applied(self.applied)
        else:
            self._serve_if_ready()
        if self.applied < self._commit and not (self._is_reading or self.obstacle):
            self._host.mark(self)

    def _after_read(self) -> None:
        """Apply entries that a thread has read. The data exist during this call only."""
        self._is_reading = False
        self._host.limits.reads += 1
        if not self.damage:
            self._apply()
        self._host.mark(self)

    def may_read(self) -> None:
        """Apply entries from disk in the next turn: fewer other members do so now."""
        self._is_reading = False
        self._host.mark(self)

    def _tell_effects(self) -> None:
        effects = self.machine.take_effects()
        if effects:
            self.sessions.route(effects)
            own = [effect for sender, effect in effects if sender == FOR_THE_LEADER]
            if own:
                self._host.lead_effects(self, own)
        if self._is_serving:  # Otherwise the queue has expired, and the member was removed.
            self.plan_tick()

    def installed(self, machine: GroupMachine, index: int) -> None:
        """A snapshot has replaced the log and the machine."""
        self.machine = machine
        self.applied = self._commit = index
        self.obstacle = ""
        self.raft.may_stand = True

    def cannot_apply(self, error: ValueError) -> None:
        """Stop applying: this version cannot apply the next entry, or the snapshot."""
        self.obstacle = str(error)
        logger.error(
            "the member of %s on this node cannot apply entries after entry %d: %s",
            self.queue_name, self.applied, self.obstacle,
        )  # fmt: skip
        self.stop_serving()
        self.raft.may_stand = False
        self.raft.give_up_lead(self._host.now_ms())
        self._host.mark(self)

    def failed(self, error: Exception) -> None:
        """Stop after an error of the program in this member. Its data on disk are intact."""
        if self.damage:
            return
        self.is_to_be_replaced = False
        self.damage = f"an unexpected error: {error!r}"
        logger.error(
            "the member of %s on this node has stopped after an unexpected error; restart the node "
            "to start it again", self.queue_name, exc_info=error,
        )  # fmt: skip
        self._stop()

    def received(self, sender: str, message: RaftMessage) -> None:
        """Take a message from another member. Raises MessageError if it is impossible."""
        try:
            self.raft.received(sender, message, self._host.now_ms())
        except EntriesLost as lost:
            self.lost_entry(lost)
        except ValueError:
            raise
        except Exception as error:
            self.failed(error)
        self._host.mark(self)

    def synced(self, writes: int) -> None:
        """The writes up to this number are on disk."""
        try:
            self.raft.synced(writes, self._host.now_ms())
        except Exception as error:
            self.failed(error)
        self._host.mark(self)

    def link_changed(self, other: str, change: LinkChange) -> None:
        """The link to another member has changed."""
        try:
            change(self.raft, other, self._host.now_ms())
        except Exception as error:
            self.failed(error)
        self._host.mark(self)

    def lost_entry(self, error: Exception) -> None:
        """Stop because an entry is lost. The other members continue without this one."""
        if self.damage:
            return
        self.damage = str(error)
        logger.error("the member of %s on this node has stopped: %s", self.queue_name, self.damage)
        self._stop()

    def _stop(self) -> None:
        """Let the others elect a leader, if this member is the leader.

        After an unexpected error, one of the steps may fail as well.
        """
        for step in (self.stop_serving, self._give_up_lead):
            try:
                step()
            except Exception:
                logger.exception(
                    "the member of %s on this node has stopped, but its clients or the other "
                    "members may not know", self.queue_name,
                )  # fmt: skip
        self._host.members_changed(self)

    def _give_up_lead(self) -> None:
        self.raft.give_up_lead(self._host.now_ms())
        for output in self.raft.take_outputs():
            if isinstance(output, Send):
                self._host.send_raft(self.me, output.to, output.message)

    # Leading

    def _serve_if_ready(self) -> None:
        leading = self.raft.leading
        if leading is None or leading.transfer_to or self.applied < leading.first_index:
            return
        self._is_serving = True  # GMB2
        self._serving_term = self.raft.state.term
        self.times_served += 1
        self.changes.is_due = True
        self._host.mark(self)
        for node in self.watchers:
            self._tell_leads(node)
        self._host.members_changed(self)
        self.plan_tick()

    def _tell_leads(self, node: str) -> None:
        self._host.send_item(node, Leads(self.group, self._serving_term))  # GMB3

    def stop_serving(self) -> None:
        """Tell the clients that this member is no longer the leader, if it was."""
        self._timed_index = 0
        if self._is_serving:
            self._is_serving = False
            self._tick.cancel()
            self._current.refuse()
            self.sessions.end_all()
            self.machine.take_effects()
            for node in self.watchers:
                self._host.send_item(node, LeadsNoMore(self.group, self._serving_term))

    def removed(self) -> None:
        """End: the node no longer has this member."""
        self.stop_serving()
        self.damage = "it was removed"
        # They refer to this member: without them it is freed without a garbage collection.
        del self._current, self._reads, self.sessions

    def watch(self, node: str) -> None:
        """Tell a node whenever this member becomes the leader."""
        self.watchers.add(node)
        if self._is_serving:
            self._tell_leads(node)

    def propose(self, commands: list[bytes]) -> bool:
        """Propose commands. Returns whether they were accepted. Raises ValueError."""
        if not self._may_propose():
            return False
        wall_ms = self._host.wall_ms()
        self._propose(self.machine.entries(commands, wall_ms, self._serving_term))
        return True

    def propose_entries(self, entries: list[bytes]) -> bool:
        """Propose entries that the node itself has made. Returns whether they were accepted."""
        if not self._may_propose():
            return False
        self._propose(entries)
        return True

    def _may_propose(self) -> bool:
        if not self._is_serving:
            return False
        leading, term = self.raft.leading, self.raft.state.term
        if leading is None or leading.is_refusing or term != self._serving_term:
            # The leadership is being transferred: clients attach to the next leader, or here again.
            self._host.mark(self)
            self.stop_serving()
            return False
        return True

    def _propose(self, entries: list[bytes]) -> None:
        self._host.mark(self)
        if not entries:
            return
        self.raft.propose(entries)
        if not self._timed_index:
            self._timed_index = self.raft.state.log.last_index
            self._timed_s = self._host.wall_time_s()

    def plan_tick(self) -> None:
        """Plan the leader's tick for the time that its machine asks for."""
        self._tick.plan(self.machine.tick_at_ms(), self.wake)

    def wake(self, now_ms: int) -> None:
        """The time that the member has asked for has come."""
        if self.damage or (self.raft.is_to_stand(now_ms) and not self._host.may_stand(self)):
            return
        try:
            if self._tick.is_due(now_ms):
                self.propose_entries([self.machine.tick(self._host.wall_ms())])
            self.raft.wake(now_ms)
        except Exception as error:
            self.failed(error)
        self._host.mark(self)

    # Clients

    def take(self, node: str, item: GroupItem) -> None:
        """Take an item of a client from its node. Raises ValueError."""
        if isinstance(item, AttachClient):
            if self._is_serving:
                effects = self.machine.attach(item.sender, item.seen, item.received)
                self.sessions.begin(GroupSession(node, item.session, item.sender), effects)
        elif isinstance(item, ClientCommands):
            session = self.sessions.of_node(node)
            if session is not None and session.number == item.session:
                is_own = node == self._host.node
                self.propose(item.commands if is_own else self.machine.accepted(item.commands))
        elif isinstance(item, DeliveredBytes):
            session = self.sessions.of_node(node)
            if session is not None and session.number == item.session:
                effects = self.machine.took(session.sender, item.consumer, item.octets)
                self.sessions.route([(session.sender, effect) for effect in effects])
        elif isinstance(item, GroupQuestion):
            self._take_question(node, item)

    def tell(
        self, session: GroupSession, effects: list[Effect], entries: Mapping[int, bytes]
    ) -> None:
        """Pass effects to a client."""
        if session.node == self._host.node:
            self._host.tell_use(self.group, session.number, effects, entries)
            return
        kind = self._host.kind
        effects, parts = kind.needed_parts(effects, entries)
        told = Told(self.group, session.number, kind.encode(effects), parts)
        self._host.send_item(session.node, told)

    def _take_question(self, node: str, item: GroupQuestion) -> None:
        needs_current = item.data != MEMBERS and self.machine.needs_current(item.data)
        if self._is_serving and needs_current:
            self._current.ask(node, item)
            self._host.mark(self)
        else:
            self._reply(node, item, self._is_serving)

    def _reply(self, node: str, item: GroupQuestion, answers: bool) -> None:
        data = self._answer(item.data) if answers else None
        self._host.send_item(node, Answered(self.group, item.number, data))

    def _answer(self, question: bytes) -> bytes:
        is_of_members = question == MEMBERS
        return members_of(self.raft.state) if is_of_members else self.machine.answer(question)

    def read_entry(self, index: int) -> bytes:
        """Read an entry. Raises as `GroupLog.read`."""
        return self._log.read(self.group, index, index, 1)[0]

    def is_congested(self, node: str) -> bool:
        """Whether nothing more should be sent to a node for now."""
        return self._host.is_congested(node)

    # The members

    def follow(self, wanted: WantedMembers) -> None:
        """Set the members that the group should have. While this member leads, it changes them."""
        self.changes.follow(wanted)
        self._host.mark(self)

    @property
    def is_catching_up(self) -> bool:
        """Whether it is new, and may lack most of the entries of the others."""
        configuration = self.raft.state.log.configuration
        return self.me not in configuration.voters + configuration.non_voters

    def become_only_member(self) -> None:
        """Continue as the only member, without the others and the entries that only they have."""
        self.stop_serving()
        self.raft.become_only_member(self._host.now_ms())
        self._host.mark(self)
