"""The groups of a node: a service on the links that runs their members and serves clients.

**Promises.** Those of docs/design/quorum-queues.md. This service provides what the Raft core needs
for them: writes in order, with one sync for all groups; messages of a link in order, and both ends
told when it goes down; a snapshot on disk before it replaces a log. An idle group costs nothing: no
timer, no frame and no call.

**Mechanism.** Inputs are passed to members at once, and mark them. At the end of the turn of the
event loop each marked member carries out what its core asks for. Then one sync is requested for all
writes, and everything for one node is sent as one frame. Links are watched once for all groups
(link_watch.py), and there is one timer for all times (wakes.py).

Invariants:

GT1  The outputs of members are carried out in order: writes before the sync that covers them.
GT2  When a frame arrives on a silent link, members are told that the node is heard before they get
    it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from leveret.broker.runtime.clock import Clock
from leveret.cluster.groups.announced_members import announced, is_to_be_removed
from leveret.cluster.groups.apply_limits import ApplyLimits
from leveret.cluster.groups.awaited_groups import AwaitedGroups
from leveret.cluster.groups.catch_up_pace import CatchUpPace
from leveret.cluster.groups.election_limit import ElectionLimit
from leveret.cluster.groups.group_frames import (
    Announced,
    Answered,
    AskClient,
    AttachClient,
    ClientAnswered,
    ClientCommands,
    Damaged,
    DeliveredBytes,
    Find,
    GroupItem,
    GroupQuestion,
    Leads,
    LeadsNoMore,
    RaftItem,
    Told,
    item_in_pieces,
    items_of,
)
from leveret.cluster.groups.group_machine import Effect, GroupMachine, GroupUser, MachineKind
from leveret.cluster.groups.group_member import GroupMember, LinkChange
from leveret.cluster.groups.group_storage import GroupStorage
from leveret.cluster.groups.link_watch import LinkWatch
from leveret.cluster.groups.member_nodes import MemberNodes
from leveret.cluster.groups.outgoing_frames import OutgoingFrames
from leveret.cluster.groups.shared_groups import SharedGroups
from leveret.cluster.groups.snapshot_receiving import SnapshotReceiving
from leveret.cluster.groups.snapshot_sending import SnapshotSending
from leveret.cluster.groups.steady_wall import SteadyWall
from leveret.cluster.groups.stored_member import MemberSnapshots, restored_now, stored_of
from leveret.cluster.groups.uses import GroupUse
from leveret.cluster.groups.wakes import Wakes
from leveret.cluster.groups.wanted_members import number_of
from leveret.cluster.links.services import GROUPS_SERVICE, Peer, ServiceRegistry
from leveret.cluster.raft.configuration import Configuration, encode_configuration
from leveret.cluster.raft.entry_log import Stored
from leveret.cluster.raft.messages import Entries, RaftMessage, decode_message
from leveret.cluster.raft.raft_member import RaftMember
from leveret.storage.disk.disk import StoreError
from leveret.storage.group_log.group_state import GroupState
from leveret.storage.group_log.rounds import Rounds

MEMBERS_A_TURN = 200
"""The number of members that end their turn in one turn of the loop, which takes some
milliseconds."""

logger = logging.getLogger("leveret.cluster")


def _drop(node: str, item: GroupItem) -> None:
    """The clients of this kind do not ask each other."""


class Groups:
    """The groups of a node. members: the members by group. node: the name of this node.

    changed: called with a member whose leader, configuration or damage has changed. removed: called
    with a member that was removed from its group. leads: called with effects for the leader's node.
    link_changed: called with the name of a node whose link has come up or gone down. lost: called
    with a group, and the name of a member that has to be replaced. between_clients: called with a
    node, and what a client there asks the one here, or answers. may_join: whether this node
    should create the group's member with this name, which a leader has added. name_of: the name of
    a group's queue, for the log. call_soon: schedules a call for the end of the current turn of the
    event loop, before the log's batch.
    """

    def __init__(
        self, node: str, links: ServiceRegistry, store: GroupStorage, kind: MachineKind,
        clock: Clock, random: Callable[[], float], service: int = GROUPS_SERVICE,
    ) -> None:  # fmt: skip
        """service: the number of this service on the links."""
        self.node = node
        self.kind = kind
        self.log = store.log
        self.members: dict[int, GroupMember] = {}
        self.nodes = MemberNodes()
        self.changed: Callable[[GroupMember], object] = lambda member: None
        self.removed: Callable[[GroupMember], object] = lambda member: None
        self.leads: Callable[[GroupMember, list[Effect]], object] = lambda member, effects: None
        self.link_changed: Callable[[str], object] = lambda node: None
        self.lost: Callable[[int, str], object] = lambda group, name: None
        self.between_clients: Callable[[str, AskClient | ClientAnswered], object] = _drop
        self.may_join: Callable[[int, str], bool] = lambda group, name: True
        self.name_of: Callable[[int], str] = self.number_as_name
        self._service = service
        self._store = store
        self._clock = clock
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._uses: dict[int, GroupUse] = {}
        self._shared = SharedGroups()
        self._awaited = AwaitedGroups()
        self._marked: deque[GroupMember] = deque()
        self._is_scheduled = self._is_closed = self.holds_ticks = False
        self.call_soon: Callable[[Callable[[], None]], object] = self._loop.call_soon
        self._own: deque[GroupItem] = deque()
        self.limits = ApplyLimits()
        self.catch_up_pace = CatchUpPace(self, lambda: self.log.appended_bytes)
        self._batch = 0
        self._written: dict[int, list[tuple[GroupMember, int]]] = {}
        self._wakes = Wakes(clock)
        self._wall = SteadyWall(clock)
        self._watch = LinkWatch(self, clock)
        self._outgoing = OutgoingFrames(service, self._schedule, self._watch.sent)
        self._elections = ElectionLimit(self)
        self.sending = SnapshotSending(self)
        self.receiving = SnapshotReceiving(self)
        links.register(service, self)

    # Life

    def begin(self) -> None:
        """Run the members that are stored, after the log was read. Raises StoreError."""
        self._store.begin(MemberSnapshots(self.log, self.members))
        for group, state in list(self.log.groups.items()):
            self._begin_member(group, state)

    def _begin_member(self, group: int, state: GroupState) -> None:
        """Run a member. Damage, or data of a newer version, only affects this group."""
        machine, stored, data = self.kind.new(), Stored(Configuration()), b""
        obstacle: ValueError | None = None
        if not state.damage:
            try:
                stored = stored_of(self.log, state)
                data = self.rounds.machine_state(group)
            except StoreError as error:
                state.damage = str(error)
        if state.damage:
            self._add(group, state.me, stored, machine).damage = state.damage
            return
        try:
            if data:
                machine = restored_now(self.kind.restore(data))
            state.live = machine.live()
        except ValueError as not_restored:
            obstacle = not_restored
        if self.log.lacks_reset(state):
            self.log.reset(group, state.snapshot)
        member = self._add(group, state.me, stored, machine)
        if obstacle is not None:
            member.cannot_apply(obstacle)

    @property
    def rounds(self) -> Rounds:
        """The snapshots on disk."""
        return self._store.rounds

    def create(self, group: int, voters: Iterable[str], me: str = "") -> GroupMember:
        """Create a member of a group on this node. Without voters, a leader has to add it."""
        me = me or self.node
        configuration = Configuration(tuple(voters))
        self.log.create(group, me, encode_configuration(configuration))
        self.log.groups[group].live = ()
        return self._add(group, me, Stored(configuration), self.kind.new())

    def remove(self, group: int, *, is_replaced: bool = False) -> None:
        """Remove the member of a group and all of its data, for example if its queue is deleted.

        is_replaced: another member on this node may take its place.
        """
        member = self.members.pop(group)
        member.removed()
        self._elections.forget(member)
        if is_replaced:
            self._awaited.nodes[group] = member.watchers
        self.sending.removed(member)
        self.receiving.removed(member)
        self._shared.remove(group)
        self.log.remove(group)

    def use(self, group: int, nodes: Iterable[str], user: GroupUser) -> GroupUse:
        """Add a client of a group that has members on these nodes."""
        use = self._uses[group] = GroupUse(self, self.kind, group, list(nodes), user)
        for node in use.nodes:
            use.find(node)
        return use

    def number_as_name(self, group: int) -> str:
        """The name of a group whose queue is not known."""
        return f"group {group} of {self.log.name}"

    def tell_all(self, group: int) -> None:
        """Tell all nodes when the member here becomes the leader: they may have asked earlier."""
        member = self.members.get(group)
        if member is not None:
            for node in (self.node, *self._outgoing.peers):
                member.watch(node)

    def forget_use(self, use: GroupUse) -> None:
        """A client has ended."""
        if self._uses.get(use.group) is use:
            del self._uses[use.group]

    def close(self) -> None:
        """The node stops."""
        self._is_closed = True
        self._watch.close()
        self._wakes.close()

    def _add(self, group: int, me: str, stored: Stored, machine: GroupMachine) -> GroupMember:
        member = self.members[group] = GroupMember(self, group, me, stored, machine, self._random)
        member.watchers |= self._awaited.take(group)
        member.raft.wake(self.now_ms())
        self.members_changed(member)
        self.mark(member)
        return member

    # Turns

    def now_ms(self) -> int:
        """A time that never goes backwards."""
        return self._clock.now_ms()

    def wall_ms(self) -> int:
        """The wall clock. It never goes back."""
        return self._wall.ms()

    def wall_time_s(self) -> float:
        """The wall clock, with microseconds."""
        return self._clock.wall_time_s()

    def mark(self, member: GroupMember) -> None:
        """Have `end_turn` of the member called."""
        if not member.is_marked:
            member.is_marked = True
            self._marked.append(member)
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        if self._is_closed:
            return
        try:
            self._carry_out()
        finally:
            # Messages that members have sent meanwhile are sent in this turn.
            self._is_scheduled = False
            if self._marked or self._own:
                self._schedule()

    def _carry_out(self) -> None:
        written: list[tuple[GroupMember, int]] = []
        self._take_own()
        for _ in range(MEMBERS_A_TURN):
            if not self._marked or self.limits.is_reached:
                break
            member = self._marked.popleft()
            member.is_marked = False
            try:
                writes = member.end_turn()
            except Exception as error:
                member.failed(error)
                continue
            if writes:
                written.append((member, writes))
        self.limits.end_turn()
        if written:
            if self.log.syncs_together:
                self._await_sync(written)
            else:
                for one in written:
                    self._await_sync([one])
        self._outgoing.flush()

    def _await_sync(self, written: list[tuple[GroupMember, int]]) -> None:
        self._batch += 1
        self._written[self._batch] = written
        self.log.when_synced(self, self._batch, written[0][0].group)  # GT1

    def confirm(self, first: int, holder: object) -> None:
        """The writes of a turn are on disk."""
        for member, writes in self._written.pop(first):
            if self.members.get(member.group) is member and not member.damage:
                member.synced(writes)

    def may_stand(self, member: GroupMember) -> bool:
        """Whether a member may start an election; else its `wake` is called when it may."""
        return self._elections.may_stand(member)

    def wake_at(self, at_ms: int, wake: Callable[[int], object]) -> int:
        """Call back with the current time, at this time or later. Returns the number to cancel."""
        return self._wakes.at(at_ms, wake)

    def cancel_wake(self, number: int) -> None:
        """Do not call back. Does nothing after the call."""
        self._wakes.cancel(number)

    # Sending

    def send_raft(self, sender: str, to: str, message: RaftMessage) -> None:
        """Send a message to another member."""
        self._outgoing.add_message(self.nodes.of(message.group, to), sender, to, message)

    def send_item(self, node: str, item: GroupItem) -> None:
        """Send an item to a node. If it is this node, the item is taken in the next turn."""
        if node == self.node:
            self._own.append(item)
            self._schedule()
        else:
            self._outgoing.add(node, item_in_pieces(item))

    def send_sign_of_life(self, peer: Peer) -> None:
        """Send an empty frame."""
        peer.send(self._service)

    def reaches(self, node: str) -> bool:
        """Whether there is a link to a node, or the node is this one."""
        return node in self._outgoing.peers or node == self.node

    @property
    def silent_nodes(self) -> set[str]:
        """The nodes whose links are up, but send nothing: they may be suspended."""
        return self._watch.silent

    def is_congested(self, node: str) -> bool:
        """Whether nothing more should be sent to a node for now."""
        return self._outgoing.is_congested(node)

    def tell_use(
        self, group: int, session: int, effects: list[Effect], entries: Mapping[int, bytes]
    ) -> None:
        """Pass effects to a client on this node."""
        use = self._uses.get(group)
        if use is not None and use.leader == self.node:
            use.told(session, effects, entries)

    # A `Service` of links

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""
        node = peer.name
        self._outgoing.peers[node] = peer
        self._watch.link_up(peer)
        self._tell_members(node, RaftMember.link_up)
        for use in self._uses.values():
            if node in use.nodes:
                use.find(node)
        self.link_changed(node)

    def peer_down(self, peer: Peer, reason: str) -> None:
        """A link to a node is down."""
        node = peer.name
        self._outgoing.link_down(node)
        self._watch.link_down(node)
        self.sending.link_down(node)
        self.receiving.link_down(node)
        for member in self.members.values():
            member.link_down(node)
        self._awaited.link_down(node)
        self._tell_members(node, RaftMember.link_down)
        for use in list(self._uses.values()):
            use.link_down(node)
        self.link_changed(node)

    def drained(self, peer: Peer) -> None:
        """More can be sent to a node."""
        self.sending.drained(peer.name)
        for member in self.members.values():
            member.drained(peer.name)

    def received(self, peer: Peer, payload: bytes) -> None:
        """Take a frame. Raises ValueError if it is damaged."""
        items = list(items_of(payload))
        self._watch.received(peer.name)  # GT2
        for item in items:
            if isinstance(item, RaftItem):
                self._take_raft(peer.name, item)
            else:
                self._take(peer.name, item)

    def _take_raft(self, node: str, item: RaftItem) -> None:
        message = decode_message(item.message)
        if self.nodes.of(message.group, item.sender) != node:
            return
        member = self.members.get(message.group)
        if member is None or item.to != member.me:
            member = self._joining(member, item.to, message)
            if member is None:
                return
        if member.damage:
            if member.is_to_be_replaced:
                self.send_item(node, Damaged(message.group, member.me))
            return
        changes = member.changes
        if changes.forced_from and changes.has_given_up(item.sender):
            return  # That member may have other entries.
        if item.sender not in member.raft.state.linked:
            member.raft.link_up(item.sender, self.now_ms())
        member.received(item.sender, message)

    def _joining(
        self, member: GroupMember | None, to: str, message: RaftMessage
    ) -> GroupMember | None:
        """Replace this node's member by the one that a leader has added, if this is for it."""
        group = message.group
        if self.nodes.of(group, to) != self.node:
            return None
        is_newer = member is None or number_of(to) > number_of(member.me)
        if not (is_newer and isinstance(message, Entries) and self.may_join(group, to)):
            return None
        if member is not None:
            self.remove(group, is_replaced=True)
        return self.create(group, (), to)

    def _take_own(self) -> None:
        for _ in range(len(self._own)):
            item = self._own.popleft()
            try:
                self._take(self.node, item)
            except Exception:
                logger.exception(
                    "%s drops a %s of this node after an unexpected error",
                    self.name_of(item.group), type(item).__name__,
                )  # fmt: skip

    def _take(self, node: str, item: GroupItem) -> None:
        if isinstance(item, Find | AttachClient | ClientCommands | GroupQuestion | DeliveredBytes):
            self._take_for_member(node, item)
        elif isinstance(item, Leads | LeadsNoMore | Told | Answered):
            use = self._uses.get(item.group)
            if use is not None:
                use.take(node, item)
        elif isinstance(item, Damaged):
            if self.nodes.of(item.group, item.member) == node:
                self.lost(item.group, item.member)
        elif isinstance(item, Announced):
            self._take_announced(node, item)
        elif isinstance(item, AskClient | ClientAnswered):
            self.between_clients(node, item)
        else:
            self.sending.take(node, item)
            self.receiving.take(node, item)

    def _take_for_member(self, node: str, item: GroupItem) -> None:
        member = self.members.get(item.group)
        if member is None:
            if isinstance(item, GroupQuestion):
                self.send_item(node, Answered(item.group, item.number, None))
            elif isinstance(item, Find):
                self._awaited.add(item.group, node)
        elif isinstance(item, Find):
            member.watch(node)
        else:
            member.take(node, item)

    def _take_announced(self, node: str, item: Announced) -> None:
        member = self.members.get(item.group)
        if member is not None:
            before = self.nodes.of(item.group, item.member)
            if is_to_be_removed(member, item.member) and not self.reaches(before):
                self.nodes.rename(item.group, {item.member: node})  # The node was renamed.
                self.members_changed(member)
            is_there = self.nodes.of(item.group, item.member) == node
            removed = announced(member, item.member, self.now_ms(), is_there=is_there)
            self.mark(member)
            if removed is not None:
                self._outgoing.add_message(node, member.me, item.member, removed)

    # Groups and nodes

    def members_changed(self, member: GroupMember) -> None:
        """The configuration or the leader of a group has changed."""
        group, state = member.group, member.raft.state
        names = [one for one in state.log.configuration.members if one != member.me]
        self._shared.set_nodes(group, {self.nodes.of(group, one) for one in names} - {self.node})
        for name in names:
            if self.nodes.of(group, name) in self._outgoing.peers and name not in state.linked:
                member.raft.link_up(name, self.now_ms())
        self.changed(member)

    def _tell_members(self, node: str, change: LinkChange) -> None:
        """Tell the members that share a group with a node about a change of its link."""
        for member, other in self._members_with(node):
            member.link_changed(other, change)

    def _members_with(self, node: str) -> Iterable[tuple[GroupMember, str]]:
        """The members that share a group with a node, with the names of that node's members."""
        for group in sorted(self._shared.on(node)):
            member = self.members[group]
            if member.damage:
                continue
            state = member.raft.state
            for other in {*state.log.configuration.members, *state.linked}:
                if self.nodes.of(group, other) == node:
                    yield member, other

    def member_named(self, group: int, name: str) -> GroupMember | None:
        """The member of this node with this name, if it can be used."""
        member = self.members.get(group)
        return member if member is not None and member.me == name and not member.damage else None

    def has_groups_on(self, node: str) -> bool:
        """Whether a group has members on this node and on that one."""
        return bool(self._shared.on(node))

    def is_silent(self, node: str) -> None:
        """No frames arrive from a node."""
        self._tell_members(node, RaftMember.link_silent)

    def is_heard(self, node: str) -> None:
        """A frame has arrived from a node that was silent."""
        self._tell_members(node, RaftMember.link_heard)

    # Requests of members

    def send_snapshot(self, member: GroupMember, to: str) -> None:
        """Send the newest snapshot to another member."""
        self.sending.send(member, to)

    def cancel_snapshot(self, member: GroupMember, to: str) -> None:
        """Stop sending a snapshot."""
        self.sending.cancel(member, to)

    def is_removed(self, member: GroupMember) -> None:
        """Remove a member that was removed from its group, after the end of its turn."""
        self._loop.call_soon(self._is_removed, member)

    def _is_removed(self, member: GroupMember) -> None:
        if self.members.get(member.group) is member and not self._is_closed:
            self.removed(member)

    def lead_effects(self, member: GroupMember, effects: list[Effect]) -> None:
        """Take effects for the leader's node."""
        self.leads(member, effects)
