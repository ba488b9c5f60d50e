"""A simulated group of Raft members: clocks, links, disks, snapshots and what is committed.

What may happen next is an action, and a scenario chooses one after the other. Links are those of
links.py; one direction may be cut, too, and the receiver notices the silence. A disk has all writes
in order; a sync takes effect for a prefix of them, and a crash loses any number of those after it.
A member's clock runs on by itself and may jump ahead.
"""

from random import Random

from leveret.cluster.raft.configuration import Configuration, MemberKind
from leveret.cluster.raft.entry_log import Stored, StoredRun
from leveret.cluster.raft.messages import decode_message, encode_message
from leveret.cluster.raft.outputs import (
    CONFIGURATION,
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
from tests.sim.links import Action, Links
from tests.sim.properties import require
from tests.sim.raft_properties import RaftHistory

GROUP = 5
UP = "up"
Entry = tuple[int, int, bytes]


class Snapshot:
    """A snapshot of what is applied: here the hash of all entries through an index."""

    def __init__(self, index: int, term: int, configuration: Configuration, value: int) -> None:
        self.index, self.term, self.configuration, self.value = index, term, configuration, value


class Disk:
    """What is written, and how much of it is synced. Entries are from `first` on."""

    def __init__(self, configuration: Configuration) -> None:
        self.writes: list[RaftOutput] = []
        self.synced = 0
        self.snapshot = Snapshot(0, 0, configuration, 0)
        self.is_stalled = False
        self._state: tuple[int, str] = (0, "")
        self._entries: dict[int, Entry] = {}

    def sync(self, count: int) -> None:
        """Some more writes are on disk."""
        for write in self.writes[:count]:
            apply_write(write, self._entries, self)
        del self.writes[:count]
        self.synced += count

    def crash(self, kept: int) -> None:
        """All but some writes are lost."""
        self.sync(kept)
        self.writes.clear()
        self.synced = 0
        self.is_stalled = False

    def set_term(self, term: int, vote: str) -> None:
        """A term is on disk."""
        self._state = (term, vote)

    @property
    def term(self) -> int:
        """The term that is on disk."""
        return self._state[0]

    @property
    def vote(self) -> str:
        """The vote that is on disk."""
        return self._state[1]

    def on_disk(self) -> dict[int, Entry]:
        """The entries that are on disk."""
        return self._entries

    def entries(self) -> dict[int, Entry]:
        """The entries that are written."""
        entries = dict(self._entries)
        for write in self.writes:
            apply_write(write, entries, None)
        return entries

    def stored(self) -> Stored:
        """What a restart finds."""
        runs = []
        for index in sorted(self._entries):
            term, kind, payload = self._entries[index]
            last = runs[-1] if runs else None
            if last is None or (last.term, last.kind) != (term, kind):
                last = StoredRun(index, 0, term, kind, [])
                runs.append(last)
            last.count += 1
            if kind == CONFIGURATION:
                last.payloads.append(payload)
        snapshot = self.snapshot
        return Stored(
            snapshot.configuration, self.term, self.vote, snapshot.index, snapshot.term, tuple(runs)
        )

    def discard(self, through: int) -> None:
        """Remove entries."""
        for index in [one for one in self._entries if one <= through]:
            del self._entries[index]


def apply_write(write: RaftOutput, entries: dict[int, Entry], disk: Disk | None) -> None:
    """Apply one write to entries."""
    if isinstance(write, Append):
        for place, payload in enumerate(write.payloads):
            entries[write.first + place] = (write.term, write.kind, payload)
    elif isinstance(write, Truncate):
        for index in [one for one in entries if one >= write.first]:
            del entries[index]
    elif isinstance(write, ResetLog):
        entries.clear()
    elif isinstance(write, SaveTerm) and disk is not None:
        disk.set_term(write.term, write.vote)


class RaftNode:
    """A member: its machine while it runs, its disk, its clock, what it has applied."""

    def __init__(self, name: str, configuration: Configuration) -> None:
        self.name = name
        self.disk = Disk(configuration)
        self.machine: RaftMember | None = None
        self.is_paused = False
        self.clock = 0
        self.wakes: list[int] = []
        self.applied = 0
        self.value = 0
        self.reads: list[ReadEntries] = []
        self.snapshots: dict[str, int] = {}
        self.is_removed = self.was_removed = False
        """It was told that it is removed; a leader has tried to remove it."""


class RaftWorld(Links):
    """All nodes; `members` found the group as voters."""

    node_type: type[RaftNode] = RaftNode

    def __init__(self, names: str, members: str, random: Random, machine=RaftMember) -> None:
        super().__init__(names)
        self.random = random
        self.make = machine
        self.names = list(names)
        self.nodes = {}
        for name in names:
            voters = tuple(members) if name in members else ()
            self.nodes[name] = self.node_type(name, Configuration(voters))
        self.history = RaftHistory(self)
        self.now = 0
        self.group = GROUP
        self.proposed = 0
        for name in names:
            self.do(("start", name))

    # What may happen

    def arrivals(self) -> list[Action]:
        """Links on which something is to arrive."""
        return [
            ("arrive", *way)
            for way, items in self.ways.items()
            if items and way not in self.cut and not self.nodes[way[1]].is_paused
        ]

    def due(self) -> list[Action]:
        """What happens without faults, apart from time."""
        actions = self.arrivals()
        for node in self.nodes.values():
            if node.machine is None or node.is_paused:
                continue
            if node.disk.writes and not node.disk.is_stalled:
                actions.append(("sync", node.name, len(node.disk.writes)))
            if node.reads:
                actions.append(("read", node.name))
            actions += [("snapshot arrives", node.name, to) for to in node.snapshots]
            if node.wakes and min(node.wakes) <= node.clock:
                actions.append(("wake", node.name))
        return actions

    def leaders(self) -> list[RaftNode]:
        """Those that lead."""
        return [one for one in self.nodes.values() if one.machine and one.machine.leading]

    def run(self, ms: int) -> None:
        """Do what is due, in any order, and let time pass."""
        end = self.now + ms
        steps = 0
        while True:
            due = self.due()
            if due:
                self.do(self.random.choice(due))
            elif self.now < end:
                wakes = [
                    min(node.wakes) - node.clock
                    for node in self.nodes.values()
                    if node.wakes and node.machine and not node.is_paused
                ]
                self.do(("pass", max(1, min([*wakes, end - self.now]))))
            else:
                return
            steps += 1
            require(steps < 50_000, "something goes on for ever")

    # What happens

    def do(self, action: Action) -> None:
        """Do it, and check the properties."""
        self.trace.append(action)
        getattr(self, "_" + str(action[0]).replace(" ", "_"))(*action[1:])
        self.history.check_step()

    def is_running(self, name: str) -> bool:
        """Whether a member runs."""
        return self.nodes[name].machine is not None

    def up(self, name: str) -> str:
        """A new link says nothing about its ends."""
        return UP

    def _running(self, name: str) -> tuple[RaftNode, RaftMember]:
        node = self.nodes[name]
        assert node.machine is not None
        return node, node.machine

    def _pass(self, ms: int) -> None:
        self.now += ms
        for node in self.nodes.values():
            node.clock += ms

    def _jump(self, name: str, ms: int) -> None:
        self.nodes[name].clock += ms

    def carry_out(self, node: RaftNode) -> None:
        """End a round of a member."""
        machine = node.machine
        assert machine is not None
        for output in machine.take_outputs():
            if isinstance(output, Append | Truncate | ResetLog | SaveTerm):
                node.disk.writes.append(output)
                self.history.wrote(node, output)
            elif isinstance(output, Send):
                self.history.sends(node, output)
                if frozenset((node.name, output.to)) in self.connected:
                    self.ways[node.name, output.to].append(encode_message(output.message))
            elif isinstance(output, Committed):
                self._apply(node, output.through)
            elif isinstance(output, ReadEntries):
                node.reads.append(output)
            elif isinstance(output, SendSnapshot):
                require(node.disk.snapshot.index >= output.index > 0, "no such snapshot")
                node.snapshots[output.to] = output.index
            elif isinstance(output, CancelSnapshot):
                node.snapshots.pop(output.to, None)
            elif isinstance(output, Wake):
                node.wakes.append(output.at_ms)
            elif isinstance(output, LeaderChanged):
                if output.leader == node.name:
                    self.history.elected(node, output.term)
            elif isinstance(output, NoLongerMember):
                node.is_removed = True
                self.history.removed(node)
            elif isinstance(output, MemberLost):
                require(False, output.member, "is said to have lost entries")
            else:
                assert isinstance(output, LeaderTransferEnded)

    def _apply(self, node: RaftNode, through: int) -> None:
        entries = node.disk.entries()
        for index in range(node.applied + 1, through + 1):
            node.value = hash((node.value, entries[index]))
            self.history.applied(node, index, entries[index], node.value)
        node.applied = through

    def _start(self, name: str) -> None:
        node = self.nodes[name]
        snapshot = node.disk.snapshot
        node.applied, node.value = snapshot.index, snapshot.value
        node.machine = machine = self.make(self.group, name, node.disk.stored(), self.random.random)
        self.history.restarted(node)
        machine.wake(node.clock)
        self.carry_out(node)

    def recover(self, name: str) -> None:
        """All members but one are lost for good: the group goes on from it, as another group."""
        self.trace.append(("recover", name))
        for node in self.nodes.values():
            if node.machine is not None:
                self._crash(node.name, len(node.disk.writes), 0)
        self.group += 1
        self._start(name)
        node, machine = self._running(name)
        machine.become_only_member(node.clock)
        self.carry_out(node)

    def _crash(self, name: str, kept: int, on_way: int) -> None:
        node = self.nodes[name]
        node.disk.crash(kept)
        node.machine, node.is_paused = None, False
        node.wakes, node.reads, node.snapshots = [], [], {}
        for other in self.names:
            if other != name:
                self._end_way(name, other, on_way)
                self.ways[other, name].clear()
                self.cut -= {(name, other), (other, name)}
                self.connected.discard(frozenset((name, other)))

    def _pause(self, name: str) -> None:
        self.nodes[name].is_paused = True

    def _resume(self, name: str) -> None:
        self.nodes[name].is_paused = False

    def _stall(self, name: str) -> None:
        self.nodes[name].disk.is_stalled = True

    def _unstall(self, name: str) -> None:
        self.nodes[name].disk.is_stalled = False

    def _sync(self, name: str, count: int) -> None:
        node, machine = self._running(name)
        node.disk.sync(count)
        machine.synced(node.disk.synced, node.clock)
        self.carry_out(node)

    def _wake(self, name: str) -> None:
        node, machine = self._running(name)
        node.wakes = [at for at in node.wakes if at > node.clock]
        machine.wake(node.clock)
        self.carry_out(node)

    def _propose(self, name: str, sizes: tuple[int, ...]) -> None:
        node, machine = self._running(name)
        payloads = []
        for size in sizes:
            self.proposed += 1
            payloads.append((b"%d " % self.proposed).ljust(size, b"."))
        machine.propose(payloads)
        self.carry_out(node)

    def _read(self, name: str) -> None:
        node, machine = self._running(name)
        read = node.reads.pop(0)
        entries = node.disk.entries()
        payloads, size, index = [], 0, read.first
        while index in entries and (not payloads or size < read.bytes_max):
            payloads.append(entries[index][2])
            size += len(payloads[-1])
            index += 1
        if payloads:
            machine.entries_read(read.member, read.first, payloads)
            self.carry_out(node)

    # Members and snapshots

    def _change(self, name: str, member: str, membership: MemberKind | None) -> None:
        node, machine = self._running(name)
        if machine.change_member(member, membership) is None and membership is None:
            self.nodes[member].was_removed = True
        self.carry_out(node)

    def _transfer(self, name: str, to: str) -> None:
        node, machine = self._running(name)
        machine.transfer_to(to, node.clock)
        self.carry_out(node)

    def _take_snapshot(self, name: str, kept: int) -> None:
        """A member writes a snapshot, and discards what is older, but for some entries."""
        node, machine = self._running(name)
        log = machine.state.log
        if node.applied <= node.disk.snapshot.index:
            return
        _, configuration = log.configuration_at(node.applied)
        term = log.term_of(node.applied)
        node.disk.snapshot = Snapshot(node.applied, term, configuration, node.value)
        machine.snapshot_taken(node.applied)
        through = max(min(node.applied - kept, machine.state.synced_index), log.base_index)
        node.disk.discard(through)
        machine.discarded(through)
        self.carry_out(node)

    def _snapshot_arrives(self, name: str, to: str) -> None:
        node, machine = self._running(name)
        index = node.snapshots.pop(to)
        other, snapshot = self.nodes[to], node.disk.snapshot
        if other.machine is None or frozenset((name, to)) not in self.connected:
            machine.snapshot_failed(to, node.clock)
            self.carry_out(node)
            return
        require(snapshot.index >= index, "a snapshot is there until a newer one is")
        if snapshot.index >= other.disk.snapshot.index and other.machine.install(
            snapshot.index, snapshot.term, snapshot.configuration
        ):
            other.disk.snapshot = snapshot
            other.applied, other.value = snapshot.index, snapshot.value
        self.carry_out(other)
        if self.random.random() < 0.5:
            machine.snapshot_sent(to, snapshot.index)
            self.carry_out(node)

    def _snapshot_fails(self, name: str, to: str) -> None:
        node, machine = self._running(name)
        node.snapshots.pop(to)
        machine.snapshot_failed(to, node.clock)
        self.carry_out(node)

    # Links

    def _arrive(self, sender: str, receiver: str) -> None:
        item = self.ways[sender, receiver].popleft()
        node = self.nodes[receiver]
        machine = node.machine
        if machine is None:
            return
        if isinstance(item, bytes):
            machine.received(sender, decode_message(item), node.clock)
        else:
            getattr(machine, "link_" + item)(sender, node.clock)
        self.carry_out(node)

    def _isolate(self, name: str, kept: int) -> None:
        """All links of a node break."""
        for other in self.names:
            if frozenset((name, other)) in self.connected:
                self._break(name, other, kept)

    def _cut_way(self, sender: str, receiver: str) -> None:
        """From now on nothing arrives, and the receiver notices the silence."""
        if frozenset((sender, receiver)) in self.connected and (sender, receiver) not in self.cut:
            self.cut.add((sender, receiver))
            node = self.nodes[receiver]
            if node.machine is not None and sender in node.machine.state.linked:
                node.machine.link_silent(sender, node.clock)
                self.carry_out(node)

    def _heal_way(self, sender: str, receiver: str) -> None:
        if (sender, receiver) in self.cut:
            self.cut.discard((sender, receiver))
            node = self.nodes[receiver]
            if node.machine is not None and sender in node.machine.state.linked:
                node.machine.link_heard(sender, node.clock)
                self.carry_out(node)
