"""One simulated run of a group: what happens next is chosen by the seed; then quiet.

    python -m tests.sim.ring_scenario --seed 17          one seed, with its trace
    python -m tests.sim.ring_scenario --seeds 1000       many of them, from --first on

Two to six nodes, some of them members at the beginning. Members broadcast and join; nodes crash, at
once or one by one, and start again; links break and come back, in time or not; records are
applied late, and several at once; submissions are lost, repeated and committed twice; messages that
wait for a record are given up. In the end everything comes up again, and all has to settle.
"""

from collections.abc import Iterator
from itertools import combinations
from random import Random

from tests.sim.command import run_command, run_scenario
from tests.sim.links import Action
from tests.sim.ring_world import RingNode, RingWorld

EARLY_BYTES = (100, 1 << 20)


class RingScenario:
    """The run of one seed. sizes: the least and the greatest number of nodes."""

    def __init__(self, seed: int, sizes: tuple[int, int] = (2, 6)) -> None:
        self.random = random = Random(seed)
        names = "abcdef"[: random.randint(*sizes)]
        members = names[: random.randint(1, min(4, len(names)))]
        self.world = RingWorld(names, members, random.choice(EARLY_BYTES))
        self.steps = random.randint(20, 120)
        self.faults = random.randint(0, 5)
        self.broadcasts = random.randint(1, 8)
        self.readiness = {name: random.choice((0.02, 0.3, 1.0)) for name in names}
        """How readily each node applies the record."""

    def run(self) -> None:
        """Run it all. Raises Broken, or AssertionError from the machines."""
        world = self.world
        for _ in range(self.steps):
            action = self._choose()
            if action is not None:
                world.do(action)
        world.trace.append(("quiet",))
        for node in world.nodes.values():
            if not node.is_alive:
                world.do(("start", node.name))
            elif node.machine is None:
                world.do(("new member", node.name))
        self._reconnect()
        world.history.check_end(world)

    def _reconnect(self) -> None:
        """All links come up, and everything that is due is done."""
        world = self.world
        is_done = False
        while not is_done:
            for way in world.arrivals():
                if world.ways[way[1], way[2]]:
                    world.do(way)
            is_done = True
            for one, other in combinations(world.nodes, 2):
                if frozenset((one, other)) not in world.connected:
                    is_done = False
                    if world.may_connect(one, other):
                        world.do(("connect", one, other))
        world.run_until_still(self.random)

    def lines(self) -> Iterator[str]:
        """The trace."""
        return self.world.lines()

    def _choose(self) -> Action | None:
        """What happens next."""
        world, random = self.world, self.random
        draw = random.random()
        if draw < 0.45:
            arrivals = world.arrivals()
            return random.choice(arrivals) if arrivals else None
        node = world.nodes[random.choice(list(world.nodes))]
        if draw < 0.65:
            return ("flush", node.name) if node.is_flush_due else None
        if draw < 0.73:
            return self._apply(node)
        if draw < 0.80:
            return self._commit()
        if draw < 0.85:
            return ("pause over", node.name, node.pauses[0]) if node.pauses else None
        if draw < 0.88:
            return self._connect()
        if draw < 0.94:
            return self._broadcast(node)
        return self._fault(node)

    def _apply(self, node: RingNode) -> Action | None:
        missing = len(self.world.log) - 1 - node.applied
        if not missing or self.random.random() > self.readiness[node.name]:
            return None
        return ("apply", node.name, 1 if self.random.random() < 0.8 else missing)

    def _commit(self) -> Action | None:
        count = len(self.world.submissions)
        if not count:
            return None
        what = self.random.choices(("commit", "commit unheard", "lose"), (8, 1, 1))[0]
        return (what, self.random.randrange(count))

    def _connect(self) -> Action | None:
        one, other = self.random.sample(list(self.world.nodes), 2)
        return ("connect", one, other) if self.world.may_connect(one, other) else None

    def _broadcast(self, node: RingNode) -> Action | None:
        if not self.broadcasts or node.machine is None or not node.machine.is_joined:
            return None
        self.broadcasts -= 1
        return ("broadcast", node.name)

    def _fault(self, node: RingNode) -> Action | None:
        world, random = self.world, self.random
        if not node.is_alive:
            return ("start", node.name)
        if node.machine is None:
            return ("new member", node.name)
        if not self.faults:
            return None
        self.faults -= 1
        kept = random.randint(0, 3)
        if random.random() < 0.5:
            return ("crash", node.name, kept)
        other = random.choice([name for name in world.nodes if name != node.name])
        if frozenset((node.name, other)) in world.connected:
            return ("break", node.name, other, kept)
        return None


def run_seed(seed: int, sizes: tuple[int, int] = (2, 6)) -> RingScenario:
    """Run one seed."""
    return run_scenario(RingScenario(seed, sizes), seed, sizes, "ring_scenario")


if __name__ == "__main__":
    run_command(RingScenario, run_seed, most_nodes=6)
