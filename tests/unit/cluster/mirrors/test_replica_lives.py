"""The outputs of replicas can be carried out, in whatever order records and links change, by seed.

Nodes apply one log of records, each at its own pace, start again, and lose links. A node has
what a service has, without messages: `Node._carry_out` knows what each output asks of it.
"""

import contextlib
import random
from itertools import permutations

import pytest

from leveret.cluster.gm.group import Added, Died, HasJoined, Member
from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors import replica_steps as steps
from leveret.cluster.mirrors.replica_steps import ReplicaSteps, Role
from leveret.cluster.rpc.refused import Refused

NAMES = "abc"
SEEDS = 300
STEPS = 200
HERE = "here"
STORAGE_ID = 40


def names(record, node):
    """Whether a record says that a node has messages."""
    return record.on(node) is not None or any(copy.node == node for copy in record.has_copy)


class Node:
    """One node in one life. leader: the member that clients use, or `HERE`; None if there is none.

    has_copy: it has messages without a member. ring: its member in the ring. waits: for what is to
    be stable, each with the number of the record that was applied.
    """

    def __init__(self, world, name, life, applied=0):
        self.world, self.name, self.life, self.applied = world, name, life, applied
        self.steps = ReplicaSteps(name, life, is_durable=True)
        self.role = Role.NONE
        self.ring = self.leader = None
        self.has_copy = self.is_awaiting = False
        self.marks = 0
        self.waits = []

    @property
    def record(self):
        return self.world.log[self.applied - 1] if self.applied else None

    def apply_next(self):
        before, self.applied = self.record, self.applied + 1
        own, was = self.record.on(self.name), before and before.on(self.name)
        is_here = own is not None and own.id.incarnation == self.life
        is_new = is_here and (was is None or own.id != was.id)
        self._apply(STORAGE_ID if is_new and own.id != self.record.leader else 0)

    def start(self, has_messages):
        """It has started again, with its newest record, and perhaps messages on its disk."""
        for name in self.world.linked_with(self.name):
            self.steps.linked(name, self.world.nodes[name].life)
        if self.record is not None:
            self._apply(STORAGE_ID if has_messages else 0)

    def begin_here(self):
        self.role = Role.LEADER
        self.steps.lead_first()

    def _apply(self, storage_id):
        has_messages = self.has_copy or self.role is not Role.NONE
        self._carry_out(self.steps.applied(self.record, storage_id, has_messages))

    def linked(self, other):
        self._carry_out(self.steps.linked(other.name, other.life))

    def unlinked(self, other):
        self._carry_out(self.steps.unlinked(other.name))
        assert self.leader in (None, HERE) or self.leader.node != other.name

    def round_over(self):
        """All broadcasts have gone round."""
        if self.role is Role.MIRROR:
            self._carry_out(self.steps.confirmed(self.marks))

    def stable(self, applied):
        """All nodes have applied as many records."""
        for since, number in [wait for wait in self.waits if wait[0] <= applied]:
            self.waits.remove((since, number))
            self._carry_out(self.steps.stable(number))

    def _carry_out(self, outputs):
        record = self.record
        for output in outputs:
            match output:
                case steps.EndMember():
                    self._end_leading()
                    self.role, self.ring, self.has_copy = Role.NONE, None, True
                case steps.Demote():
                    assert (self.role, self.ring) == (Role.LEADER, record.on(self.name).id)
                    self._end_leading()
                    self.role = Role.MIRROR
                case steps.LeadWithCopy():
                    assert (self.role, self.has_copy) == (Role.NONE, True)
                    self.role, self.has_copy = Role.LEADER, False
                case steps.BeginMirror():
                    assert (self.role, self.has_copy) == (Role.NONE, False)
                    self.role = Role.MIRROR
                case steps.BeginRing():
                    assert self.ring is None
                    self.ring = output.member
                case steps.ChangeRing():
                    assert self.ring == record.on(self.name).id
                case steps.OpenCopy():
                    assert (self.role, self.has_copy) == (Role.NONE, False)
                    self.has_copy = True
                case steps.GiveUpCopy():
                    self.has_copy = False
                case steps.WhenStable():
                    self.waits.append((self.applied, output.number))
                case steps.DeleteCopy():
                    # Any of the records from there on may still be the newest one after a fault.
                    seen = self.world.log[self.world.stable - 1 : self.applied]
                    assert not any(names(one, self.name) for one in seen), "OC1"
                    self.has_copy = False
                case steps.BroadcastMark():
                    if record.group.place_of(self.ring).has_joined:
                        self.marks += 1
                        self.steps.mark_sent(self.marks)
                case steps.PromoteMirror():
                    assert (self.role, record.leader) == (Role.MIRROR, self.ring)
                    self.role = Role.LEADER
                    self._carry_out(self.steps.promoted())
                case steps.OpenHere():
                    self._use(HERE)
                    assert self.role is Role.LEADER
                case steps.Follow():
                    assert self.world.nodes[output.leader.node].life == output.leader.incarnation
                    self._use(output.leader)
                case steps.LeaveLeader():
                    assert self.leader not in (None, HERE)
                    self.leader = None
                case steps.Await():
                    assert self.leader is None
                    assert not self.is_awaiting
                    self.is_awaiting = True

    def _use(self, leader):
        assert self.leader is None
        self.leader, self.is_awaiting = leader, False

    def _end_leading(self):
        if self.leader is HERE:
            self.leader = None

    def check(self):
        """It has applied the newest record, is linked, and broadcasts have gone round."""
        record, own = self.record, self.record.on(self.name)
        assert self.ring == self.steps.member
        assert self.ring is None or self.ring == own.id
        if record.leader is None:
            assert (self.leader, self.is_awaiting) == (None, True)
        elif record.leader == self.ring:
            has_joined = record.group.place_of(self.ring).has_joined
            assert self.leader == (HERE if has_joined else None)
        elif record.leader.incarnation == self.world.nodes[record.leader.node].life:
            assert self.leader == (record.leader if record.leader.node != self.name else None)


class World:
    """Nodes, the log of records and the links. stable: number of records applied on all nodes."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.links = set()
        self.nodes = {name: Node(self, name, 1) for name in NAMES}
        self.log = [records.first("q", 7, Member("a", 1, 1))]
        self.nodes["a"].begin_here()

    @property
    def stable(self):
        return min(node.applied for node in self.nodes.values())

    def linked_with(self, name):
        return [other for other in NAMES if frozenset((name, other)) in self.links]

    def step(self):
        acts = [self.apply] * 12 + [self.change] * 5 + [self.round_over] * 4 + [self.link] * 2
        self.chance.choice([*acts, self.tell_stable])()
        if self.chance.random() < 0.02:
            self.start_again()

    def apply(self):
        node = self.chance.choice(list(self.nodes.values()))
        if node.applied < len(self.log):
            node.apply_next()

    def change(self):
        with contextlib.suppress(Refused):
            self.log.append(self._changed(self.log[-1]))

    def _changed(self, record):
        """The record after a change that nodes may ask for, whether they would now or not."""
        chance, name = self.chance, self.chance.choice(NAMES)
        members = [one.id for one in record.members]
        gone = [one for one in members if self.nodes[one.node].life != one.incarnation]
        if members and gone == members:
            return records.vanished(record, gone, NAMES)
        if record.leader is None:
            awaited = self.nodes[record.awaited]
            if awaited.applied == len(self.log) and awaited.has_copy:
                return records.returned(record, self._next_member(awaited))
            return record
        one = chance.choice(members)
        has_joined = record.group.place_of(one).has_joined
        match chance.randrange(10):
            case 0 | 1 | 2:
                new = self._next_member(self.nodes[name])
                return records.joined(record, Added(new, record.leader))
            case 3 | 4 | 5 if has_joined:
                return records.synchronised(record, one, record.leader)
            case 3 | 4 | 5:
                return records.ring_changed(record, HasJoined(one))
            case 6:
                dead, by = (*gone, one)[0], chance.choice(members)
                may_lead = chance.random() < 0.5
                return records.died(record, Died((dead,), by), may_lead_unsynchronised=may_lead)
            case 7 | 8:
                return records.promoted(record, one)
        return records.copy_dropped(records.dropped(record, one), name)

    def _next_member(self, node):
        numbers = [one.number for one in self.log[-1].group.newest if one.node == node.name]
        return Member(node.name, node.life, max(numbers, default=0) + 1)

    def link(self):
        one, other = self.chance.sample(NAMES, 2)
        pair = frozenset((one, other))
        is_up = pair in self.links
        self.links ^= {pair}
        for name, peer in permutations((one, other)):
            tell = self.nodes[name].unlinked if is_up else self.nodes[name].linked
            tell(self.nodes[peer])

    def round_over(self):
        self.chance.choice(list(self.nodes.values())).round_over()

    def tell_stable(self):
        for node in self.nodes.values():
            node.stable(self.stable)

    def start_again(self):
        before = self.nodes[self.chance.choice(NAMES)]
        for name in self.linked_with(before.name):
            self.links.discard(frozenset((name, before.name)))
            self.nodes[name].unlinked(before)
        has_messages = before.has_copy or before.role is not Role.NONE
        node = Node(self, before.name, before.life + 1, before.applied)
        self.nodes[before.name] = node
        if not node.applied and has_messages:
            node.begin_here()
        node.start(has_messages)

    def settle(self):
        """All is applied and linked, and what was broadcast has gone round."""
        for node in self.nodes.values():
            while node.applied < len(self.log):
                node.apply_next()
        for one, other in permutations(NAMES, 2):
            if one < other and frozenset((one, other)) not in self.links:
                self.links.add(frozenset((one, other)))
                self.nodes[one].linked(self.nodes[other])
                self.nodes[other].linked(self.nodes[one])
        for node in self.nodes.values():
            node.round_over()


@pytest.mark.parametrize("first", range(0, SEEDS, 100))
def test_each_output_can_be_carried_out(first):
    for seed in range(first, first + 100):
        world = World(seed)
        try:
            for _ in range(STEPS):
                world.step()
            world.settle()
            for node in world.nodes.values():
                node.check()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
