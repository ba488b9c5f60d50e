"""What has to hold in every run of a simulated group, checked at every step, over all members.

The letters are those of docs/design/replication.md. A member counts while its machine runs and the
newest record has it as living: others are promised nothing.
"""

from typing import TYPE_CHECKING

from leveret.cluster.gm.group import Change, Erased, Member
from leveret.cluster.gm.outputs import DeliverBroadcasts, Joined, MembersChanged
from leveret.cluster.gm.ring_member import RingMember
from tests.sim.properties import require

if TYPE_CHECKING:
    from tests.sim.ring_world import RingWorld


def payload_of(sender: Member, number: int) -> bytes:
    """What a member broadcasts under a number."""
    return b"%s %d" % (str(sender).encode(), number)


class RingHistory:
    """What all members have broadcast, delivered and been told so far.

    last: of each sender, the last broadcast that a member has delivered, or the one before the
    first that it is to deliver.
    """

    def __init__(self) -> None:
        self.sent: dict[Member, int] = {}
        self.last: dict[Member, dict[Member, int]] = {}
        self.confirmed_through: dict[Member, int] = {}
        self.bases: dict[Member, dict[Member, int]] = {}
        self._first_after: dict[tuple[Member, Member], int] = {}
        self._dead_at: dict[Member, dict[Member, int]] = {}
        self._final: dict[Member, int] = {}

    # What members do

    def sends(self, machine: RingMember) -> int:
        """A member broadcasts; returns the number."""
        number = self.sent[machine.member] = self.sent.get(machine.member, 0) + 1
        return number

    def joined(self, member: Member, output: Joined) -> None:
        """A member has its starting state."""
        require(member not in self.last, member, "joins twice")
        self.bases[member], self.last[member] = (
            dict(output.begins_after),
            dict(output.begins_after),
        )
        for sender in self.bases[member]:
            self._check_base(sender, member)

    def delivered(self, world: "RingWorld", machine: RingMember, output: DeliverBroadcasts) -> None:
        """A member delivers; G2, G3, G7."""
        require(machine.member in self.last, machine.member, "delivers before it has joined")
        last = self.last[machine.member]
        require(output.sender != machine.member, machine.member, "delivers its own broadcast")
        number = last.get(output.sender, 0)
        for payload in output.payloads:
            number += 1
            require(
                payload == payload_of(output.sender, number),
                f"G2, G3: {machine.member} delivers {payload!r} as number {number}",
            )
        last[output.sender] = number
        if number > self._final.get(output.sender, number):
            require(
                machine.member not in world.members(),
                f"G7: {machine.member} delivers {number} of {output.sender}, and a member was told",
                f"that all had delivered all, through {self._final[output.sender]}",
            )

    def members_changed(self, machine: RingMember, output: MembersChanged) -> None:
        """A member learns which members were added and which have died: for G5 and G7."""
        number = self.sent.get(machine.member, 0) + 1
        for member in output.added:
            self._first_after[machine.member, member] = number
            self._check_base(machine.member, member)
        dead = self._dead_at.setdefault(machine.member, {})
        for member in output.died:
            dead[member] = number

    def _check_base(self, sender: Member, member: Member) -> None:
        """A member delivers all that a sender broadcast after it knew of the member; G5."""
        base = self.bases.get(member, {}).get(sender, 0)
        first = self._first_after.get((sender, member), base + 1)
        require(base < first, f"G5: {member} begins after {base}, {sender} knew of it at {first}")

    def confirmed(self, world: "RingWorld", machine: RingMember, through: int) -> None:
        """A member is told that its broadcasts are confirmed; G4, G7."""
        me = machine.member
        before = self.confirmed_through.get(me, 0)
        require(before < through <= self.sent.get(me, 0), "G4: confirmed", through, "to", me)
        self.confirmed_through[me] = through
        members = world.members()
        is_known = world.log[-1].place_of(me) is not None
        for member in members:
            # Who began after the sender was erased never hears of it.
            if member != me and member in self.last and (is_known or me in self.last[member]):
                last = self.last[member].get(me, 0)
                require(last >= through, f"G4: {me} is told {through}, {member} has {last}")
        if me not in members:
            return
        for dead, number in self._dead_at.get(me, {}).items():
            if number <= through:
                self._check_final(members, me, dead)

    def _check_final(self, members: dict[Member, RingMember], me: Member, dead: Member) -> None:
        """No member has, or ever gets, more of a dead member than those that were told; G7."""
        mine = self.last[me].get(dead, 0)
        for member in members:
            if member in self.last:
                last = self.last[member].get(dead, mine)
                require(last <= mine, f"G7: {me} has {mine} of {dead}, {member} has {last}")
        self._final[dead] = min(mine, self._final.get(dead, mine))

    # What holds between them

    def committed(self, world: "RingWorld", change: Change) -> None:
        """A change of the record is committed. Who is erased is known alike to all; G1."""
        if not isinstance(change, Erased):
            return
        for dead in change.members:
            place = world.log[-1].place_of(dead)
            if place is not None and not place.is_alive:
                self._check_alike(world, dead)

    def _check_alike(self, world: "RingWorld", sender: Member) -> None:
        known = {
            member: self.last[member][sender]
            for member in world.members()
            if sender in self.last.get(member, {})
        }
        if sender in world.members():
            known[sender] = self.sent.get(sender, 0)
        require(len(set(known.values())) <= 1, f"G1: of {sender} the members have {known}")

    def check_step(self, world: "RingWorld") -> None:
        """What is acknowledged anywhere, all have; G1, G4."""
        acknowledged: dict[int, int] = {}
        delivered: dict[int, int] = {}
        for machine in world.members().values():
            if machine.is_joined:
                for one in machine.senders():
                    place_id = one.place_id
                    if one.acknowledged > acknowledged.get(place_id, 0):
                        acknowledged[place_id] = one.acknowledged
                    if one.delivered < delivered.get(place_id, 1 << 60):
                        delivered[place_id] = one.delivered
        for place_id, number in acknowledged.items():
            require(number <= delivered[place_id], "G1: of", place_id, number, "is acknowledged,",
                    "and some have only", delivered[place_id])  # fmt: skip

    def check_end(self, world: "RingWorld") -> None:
        """Nothing is under way; G1, G5, G6."""
        group = world.log[-1]
        members = world.members()
        for place in group.places:
            require(place.is_alive, place.member, "is not erased")
            require(place.has_joined, place.member, "has not joined in the record")
            require(place.member in members, place.member, "lives in the record only")
        for name, node in world.nodes.items():
            machine = node.machine
            if not node.is_alive or machine is None:
                continue
            require(machine.is_joined, name, "has not joined")
            require(machine.group == group, name, "has an older record")
            require(machine.pending_count == 0, f"G6: {name} keeps {machine.senders()}")
            told = self.confirmed_through.get(machine.member, 0)
            require(told == self.sent.get(machine.member, 0), name, "is told only", told)
        for sender in {sender for last in self.last.values() for sender in last}:
            self._check_alike(world, sender)
