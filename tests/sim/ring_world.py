"""A simulated group: members, links that keep order and break, and the record's log.

There is no clock. What may happen next is an action, such as the arrival of the first message of a
link, and the code that runs the world chooses one after the other: ring_scenario.py by a seed,
ring_model.py in all orders. A link (links.py) tells the incarnation of the other end when it is up.
The record is one log, which each node applies at its own pace. Submissions are committed in any
order; they may be lost and repeated, or committed twice.
"""

from collections.abc import Iterator
from random import Random

from leveret.cluster.gm.group import Change, Member, Renewed, changed, founded
from leveret.cluster.gm.outputs import (
    BroadcastsConfirmed,
    DeliverBroadcasts,
    Expelled,
    Joined,
    MembersChanged,
    Output,
    SendPieces,
    StartPause,
    SubmitChange,
)
from leveret.cluster.gm.ring_member import RingMember
from leveret.cluster.rpc.refused import Refused
from tests.sim.links import Action, Links
from tests.sim.properties import require
from tests.sim.ring_properties import RingHistory, payload_of

IDENTITY = 7
STEPS_MAX = 5_000


class RingNode:
    """One node: its start, its member, and the record that it has applied."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.incarnation = 1
        self.member_count = 0
        self.machine: RingMember | None = None
        self.applied = 0
        self.linked: dict[str, int] = {}
        self.pauses: list[Member] = []
        self.is_flush_due = False


class RingWorld(Links):
    """All nodes; the first one founds the group, and all those of `members` join it.

    early_bytes_max: see `RingMember`. machine: makes the machine of a member.
    """

    def __init__(self, names: str, members: str, early_bytes_max: int = 1 << 20) -> None:
        super().__init__(names)
        self.nodes = {name: RingNode(name) for name in names}
        self.connected = {frozenset(way) for way in self.ways}
        self.log = [founded("test", IDENTITY, Member(names[0], 1, 1))]
        self.submissions: list[tuple[Change, Member]] = []
        self.history = RingHistory()
        self.early_bytes_max = early_bytes_max
        for node in self.nodes.values():
            node.linked = {other: 1 for other in self.nodes if other != node.name}
        for name in members:
            self.do(("new member", name))
            self.run_until_still()

    # What may happen

    def arrivals(self) -> list[Action]:
        """Those links on which something is on its way."""
        return [("arrive", *way) for way, items in self.ways.items() if items]

    def due(self) -> Iterator[Action]:
        """What happens without faults."""
        yield from self.arrivals()
        for node in self.nodes.values():
            if node.applied < len(self.log) - 1:
                yield ("apply", node.name, 1)
            if node.is_flush_due:
                yield ("flush", node.name)
        if self.submissions:
            yield ("commit", 0)
        for node in self.nodes.values():
            if node.is_alive and node.machine is None and self.wants_member(node):
                yield ("new member", node.name)
            if node.pauses:
                yield ("pause over", node.name, node.pauses[0])
        if self.is_deserted():
            yield ("renew",)

    def wants_member(self, node: RingNode) -> bool:
        """Whether a node has had a member, and is to have one again."""
        return node.member_count > 0 or node.incarnation > 1

    def is_deserted(self) -> bool:
        """Whether the lives of all who live in the record have ended, and it says nothing of it."""
        running = self.running()
        return bool(running) and not any(place.member in running for place in self.log[-1].living)

    def running(self) -> dict[Member, RingMember]:
        """The machines that run."""
        return {
            node.machine.member: node.machine
            for node in self.nodes.values()
            if node.machine is not None
        }

    def members(self) -> dict[Member, RingMember]:
        """The machines that run, and whose members live in the newest record."""
        living = {place.member for place in self.log[-1].living}
        return {member: one for member, one in self.running().items() if member in living}

    def run_until_still(self, random: Random | None = None) -> None:
        """Do what is due, in any order or in the same one each time, until nothing is."""
        for _ in range(STEPS_MAX):
            if random is None:
                action = next(self.due(), None)
            else:
                due = list(self.due())
                action = random.choice(due) if due else None
            if action is None:
                return
            self.do(action)
        require(False, "something goes on for ever")

    # What happens

    def do(self, action: Action) -> None:
        """Do it, and check the properties."""
        self.trace.append(action)
        getattr(self, "_" + str(action[0]).replace(" ", "_"))(*action[1:])
        self.history.check_step(self)

    def _carry_out(self, node: RingNode, outputs: list[Output]) -> None:
        machine = node.machine
        assert machine is not None
        node.is_flush_due = True
        for output in outputs:
            if isinstance(output, SendPieces):
                self._send(node, output)
            elif isinstance(output, DeliverBroadcasts):
                self.history.delivered(self, machine, output)
            elif isinstance(output, BroadcastsConfirmed):
                self.history.confirmed(self, machine, output.through)
            elif isinstance(output, SubmitChange):
                self.submissions.append((output.change, machine.member))
            elif isinstance(output, StartPause):
                node.pauses.append(output.member)
            elif isinstance(output, Joined):
                self.history.joined(machine.member, output)
            elif isinstance(output, MembersChanged):
                self.history.members_changed(machine, output)
            elif isinstance(output, Expelled):
                self._stop_member(node)

    def is_running(self, name: str) -> bool:
        """Whether a node runs."""
        return self.nodes[name].is_alive

    def up(self, name: str) -> int:
        """The incarnation of a node."""
        return self.nodes[name].incarnation

    def _stop_member(self, node: RingNode) -> None:
        node.machine, node.pauses, node.is_flush_due = None, [], False

    def _send(self, node: RingNode, output: SendPieces) -> None:
        other = output.to.node
        if other in node.linked and frozenset((node.name, other)) in self.connected:
            self.ways[node.name, other].append(b"".join(output.pieces))

    def _arrive(self, sender: str, receiver: str) -> None:
        item = self.ways[sender, receiver].popleft()
        node = self.nodes[receiver]
        machine = node.machine
        if isinstance(item, int):
            node.linked[sender] = item
            outputs = machine.link_up(sender, item) if machine else []
        elif isinstance(item, str):
            node.linked.pop(sender, None)
            outputs = machine.link_down(sender) if machine else []
        else:
            outputs = machine.received(sender, item) if machine else []
        if machine is not None:
            self._carry_out(node, outputs)

    def _apply(self, name: str, count: int) -> None:
        """A node applies `count` changes of the record, and sees the last of them."""
        node = self.nodes[name]
        node.applied += count
        if node.machine is not None:
            self._carry_out(node, node.machine.group_changed(self.log[node.applied]))

    def _flush(self, name: str) -> None:
        node = self.nodes[name]
        if node.machine is not None:
            self._carry_out(node, node.machine.flush())
        node.is_flush_due = False

    def _pause_over(self, name: str, member: Member) -> None:
        node = self.nodes[name]
        node.pauses.remove(member)
        assert node.machine is not None
        self._carry_out(node, node.machine.pause_over(member))

    def _commit(self, at: int) -> None:
        """A submission is committed or refused, and who submitted it knows."""
        change, _ = self.submissions.pop(at)
        self._change(change)

    def _commit_unheard(self, at: int) -> None:
        """A submission is committed; who submitted it does not know, and repeats it."""
        change, submitter = self.submissions.pop(at)
        self._change(change)
        if submitter in self.running():
            self.submissions.append((change, submitter))

    def _lose(self, at: int) -> None:
        """A submission is lost with the coordinator; who submitted it repeats it."""
        change, submitter = self.submissions.pop(at)
        if submitter in self.running():
            self.submissions.append((change, submitter))

    def _change(self, change: Change) -> None:
        try:
            group = changed(self.log[-1], change)
        except Refused:
            return
        self.history.committed(self, change)
        self.log.append(group)

    def _broadcast(self, name: str) -> None:
        node = self.nodes[name]
        machine = node.machine
        assert machine is not None
        number = self.history.sends(machine)
        require(machine.broadcast(payload_of(machine.member, number)) == number, "GM1: numbers")
        node.is_flush_due = True

    def _new_member(self, name: str) -> None:
        """A node gets a member, which joins the group."""
        node = self.nodes[name]
        node.member_count += 1
        member = Member(node.name, node.incarnation, node.member_count)
        node.machine = machine = RingMember(member, self.early_bytes_max)
        for other, incarnation in node.linked.items():
            machine.link_up(other, incarnation)
        self._carry_out(node, machine.group_changed(self.log[node.applied]))

    def _renew(self) -> None:
        """The group begins again with one of those that run."""
        self._change(Renewed(min(self.running())))

    # Faults

    def _crash(self, name: str, kept: int) -> None:
        """A node stops. kept: how many of its messages on the way arrive on each link."""
        node = self.nodes[name]
        self._stop_member(node)
        node.is_alive = False
        node.linked = {}
        for other in self.nodes:
            if other != name:
                self._end_way(name, other, kept)
                self.ways[other, name].clear()
                self.connected.discard(frozenset((name, other)))

    def _start(self, name: str) -> None:
        """A node that has stopped starts again; its member is a new one."""
        node = self.nodes[name]
        node.is_alive, node.member_count = True, 0
        node.incarnation += 1
        self._new_member(name)
