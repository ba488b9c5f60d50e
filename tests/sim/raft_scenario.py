"""One simulated run of a Raft group: what happens next is chosen by the seed; then quiet.

    python -m tests.sim.raft_scenario --seed 17          one seed, with its trace
    python -m tests.sim.raft_scenario --seeds 1000       many of them, from --first on

One to five nodes found the group, others may be added. Leaders propose, change members, hand over
and take snapshots, and all that is in the middle of the rest: members crash and lose what was not
synced, pause, have a stalled disk or a clock that jumps; links fall, lose the end of what was on
the way, and return; one direction is cut. In the end everything comes up, and all has to settle.
"""

from collections.abc import Iterator
from itertools import combinations, permutations
from random import Random

from leveret.cluster.raft.configuration import MemberKind
from leveret.cluster.raft.raft_member import RaftMember
from tests.sim.command import run_command, run_scenario
from tests.sim.links import Action
from tests.sim.properties import require
from tests.sim.raft_world import RaftNode, RaftWorld

STEPS = (100, 1_000)
SETTLE_MS = 30_000
MEMBERSHIPS = (MemberKind.VOTER, MemberKind.VOTER, MemberKind.NON_VOTER, None)


class RaftScenario:
    """The run of one seed. sizes: the least and the greatest number of nodes.

    recovered_share: the share of runs that end with a forced recovery.
    """

    recovered_share = 0.2

    def __init__(self, seed: int, sizes: tuple[int, int] = (1, 5), machine=RaftMember) -> None:
        self.random = random = Random(seed)
        names = "abcdef"[: random.randint(*sizes)]
        self.members = names[: random.choice((1, len(names), len(names), max(1, len(names) - 1)))]
        self.fault_rate = random.choice((0.02, 0.1, 0.3, 0.5))
        self.member_rate = random.choice((0.0, 0.3, 0.8))
        self.snapshot_rate = random.choice((0.0, 0.2, 0.6, 0.95))
        self.steps = random.randint(*STEPS)
        self.is_stormy = random.random() < 0.4
        """Leaders fall and return all the time, with few entries between."""
        self.world = RaftWorld(names, self.members, random, machine)

    def run(self) -> None:
        """Run it. Raises AssertionError if a property does not hold."""
        world, random = self.world, self.random
        self._connect_all()
        if random.random() < 0.7:
            world.run(random.randint(0, 2000))
        for _ in range(self.steps):
            action = self._choose()
            if action is not None:
                world.do(action)
        self._settle()
        world.history.check_end()
        if random.random() < self.recovered_share:
            self._recover()

    def _recover(self) -> None:
        """All members but one are lost for good: the group goes on from this one alone."""
        world, random = self.world, self.random
        members = world.leaders()[0].machine.state.log.configuration.members
        name = random.choice(members)
        had = world.nodes[name].applied
        world.recover(name)
        world.run(SETTLE_MS)
        require([one.name for one in world.leaders()] == [name], "QG6:", name, "does not lead")
        require(world.nodes[name].applied > had, "QG2: it does not have what it had applied")
        world.do(("propose", name, (4, 4)))
        world.run(SETTLE_MS)
        leader = world.nodes[name].machine
        require(leader.state.commit == leader.state.log.last_index, "QG6: not all is committed")
        require(leader.state.log.configuration.voters == (name,), "QG6: others have a vote")

    def _settle(self) -> None:
        """All comes up, and everything that is due is done."""
        world = self.world
        for node in world.nodes.values():
            if node.machine is None:
                world.do(("start", node.name))
            world.do(("resume", node.name))
            world.do(("unstall", node.name))
        for way in permutations(world.names, 2):
            world.do(("heal way", *way))
        self._connect_all()
        world.run(SETTLE_MS)
        world.history.check_all_committed()
        leaders = world.leaders()
        if leaders:
            world.do(("propose", leaders[-1].name, (3,)))
        world.run(SETTLE_MS)

    def _connect_all(self) -> None:
        world = self.world
        is_done = False
        while not is_done:
            for way in world.arrivals():
                if world.ways[way[1], way[2]]:
                    world.do(way)
            is_done = True
            for one, other in combinations(world.names, 2):
                if frozenset((one, other)) not in world.connected:
                    is_done = False
                    if world.may_connect(one, other):
                        world.do(("connect", one, other))

    def lines(self) -> Iterator[str]:
        """The trace."""
        return self.world.lines()

    def _choose(self) -> Action | None:
        world, random = self.world, self.random
        draw = random.random()
        if draw < 0.55:
            due = world.due()
            action = random.choice(due) if due else ("pass", random.choice((1, 20, 100, 500)))
            if action[0] == "sync" and random.random() < 0.5:
                return ("sync", action[1], random.randint(1, action[2]))
            return action
        if draw < 0.62:
            return ("pass", random.choice((1, 10, 50, 200, 1000)))
        node = world.nodes[random.choice(world.names)]
        rates = random.random()
        if rates < self.fault_rate:
            leaders = world.leaders()
            is_aimed = leaders and random.random() < 0.4
            return self._fault(random.choice(leaders) if is_aimed else node)
        if node.machine is None or node.is_paused:
            return ("start", node.name) if node.machine is None and rates < 0.5 else None
        leaders = [one for one in world.leaders() if not one.is_paused]
        if self.is_stormy and rates < 0.75:
            if leaders and rates > 0.65:
                return self._storm(random.choice(leaders))
            return self._repair(node)
        if draw < 0.78:
            return self._propose(random.choice(leaders)) if leaders else self._repair(node)
        if draw < 0.85:
            return self._repair(node)
        if random.random() < self.snapshot_rate:
            return self._snapshot(node)
        if leaders and random.random() < self.member_rate:
            return self._change(random.choice(leaders))
        return None

    def _propose(self, node: RaftNode) -> Action:
        random = self.random
        count = random.choice((1, 1, 3, 10))
        return ("propose", node.name, tuple(random.choice((4, 30, 100_000)) if random.random() < 0.1
                else 4 for _ in range(count)))  # fmt: skip

    def _change(self, node: RaftNode) -> Action:
        random = self.random
        other = random.choice(self.world.names)
        if random.random() < 0.35:
            return ("transfer", node.name, other)
        is_gone = self.world.nodes[other].was_removed  # The name of a member is not used again.
        return ("change", node.name, other, None if is_gone else random.choice(MEMBERSHIPS))

    def _storm(self, leader: RaftNode) -> Action:
        random = self.random
        kept = random.randint(0, 4)
        if random.random() < 0.5:
            return ("isolate", leader.name, kept)
        return ("crash", leader.name, random.randint(0, len(leader.disk.writes)), kept)

    def _snapshot(self, node: RaftNode) -> Action:
        if node.snapshots and self.random.random() < 0.5:
            return ("snapshot fails", node.name, next(iter(node.snapshots)))
        return ("take snapshot", node.name, self.random.choice((0, 0, 2, 10)))

    def _repair(self, node: RaftNode) -> Action | None:
        world, random = self.world, self.random
        if world.cut and random.random() < 0.5:
            return ("heal way", *random.choice(sorted(world.cut)))
        if node.disk.is_stalled:
            return ("unstall", node.name)
        down = [pair for pair in combinations(world.names, 2) if world.may_connect(*pair)]
        return ("connect", *random.choice(down)) if down else None

    def _fault(self, node: RaftNode) -> Action | None:
        world, random = self.world, self.random
        if node.machine is None:
            return ("start", node.name)
        if node.is_paused:
            return ("resume", node.name)
        others = [one for one in world.names if one != node.name]
        other = random.choice(others) if others else ""
        what = random.choice(
            ("crash", "pause", "stall", "jump", "break", "break", "cut", "isolate")
        )
        if what == "crash":
            writes = len(node.disk.writes)
            return ("crash", node.name, random.randint(0, writes), random.randint(0, 3))
        if what == "jump":
            return ("jump", node.name, random.choice((10, 1000, 3_600_000)))
        if what in ("pause", "stall"):
            return (what, node.name)
        if what == "isolate":
            return (what, node.name, random.choice((0, 0, 1, 3)))
        if frozenset((node.name, other)) not in world.connected:
            return None
        if what == "break":
            return ("break", node.name, other, random.randint(0, 3))
        return ("cut way", node.name, other)


def run_seed(seed: int, sizes: tuple[int, int] = (1, 5), machine=RaftMember) -> RaftScenario:
    """Run one seed."""
    return run_scenario(RaftScenario(seed, sizes, machine), seed, sizes, "raft_scenario")


if __name__ == "__main__":
    run_command(RaftScenario, run_seed, most_nodes=5)
