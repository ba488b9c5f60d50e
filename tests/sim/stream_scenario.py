"""One simulated run of a stream: what happens next is chosen by the seed; then quiet.

    python -m tests.sim.stream_scenario --seed 17          one seed, with its trace
    python -m tests.sim.stream_scenario --seeds 1000       many of them, from --first on

The members of the group fail, come and go as in tests/sim/raft_scenario.py, and retention removes
what they do not need for themselves. Clients on all nodes publish meanwhile. In the end everything
works: no command waits, and what was confirmed is in the stream, once, in its order.
"""

from leveret.cluster.raft.raft_member import RaftMember
from tests.sim.command import run_command, run_scenario
from tests.sim.properties import require
from tests.sim.raft_scenario import RaftScenario
from tests.sim.stream_world import StreamWorld


class StreamScenario(RaftScenario):
    """The run of one seed."""

    recovered_share = 0.0

    def __init__(self, seed, sizes=(1, 5), machine=RaftMember):
        super().__init__(seed, sizes, machine)
        random = self.random
        self.steps = min(self.steps, 500)
        self.use_rate = random.choice((0.1, 0.3, 0.5))
        self.calm_rate = random.choice((0.0, 0.05, 0.2))
        """How often everything that is due is done."""
        self.world = StreamWorld(self.world.names, self.members, random)

    def _choose(self):
        random = self.random
        if random.random() < self.use_rate:
            name = random.choice(self.world.names)
            node = self.world.nodes[name]
            if node.machine is not None and not node.is_paused and len(node.user.bodies) < 20:
                if random.random() < 0.3:
                    return ("use", name, "publish_named", *self._named())
                sizes = tuple(random.choice((1, 20, 300)) for _ in range(random.choice((1, 3))))
                return ("use", name, "publish", sizes)
        if random.random() < self.calm_rate:
            self.world.run(random.choice((0, 1, 20, 200)))
            return None
        return super()._choose()

    def _named(self):
        return self.random.randint(0, 3), self.random.randint(0, 2)

    def _propose(self, node):
        return ("use", node.name, "publish", (3,))

    def _settle(self):
        super()._settle()
        world = self.world
        users = [node.user for node in world.nodes.values()]
        world.books.check_end(users)
        (leader,) = world.leaders()
        for name in leader.machine.state.log.configuration.members:
            node = world.nodes[name]
            is_same = node.stream.stream.snapshot() == leader.stream.stream.snapshot()
            require(is_same, "QG7:", name, "has another state than the leader")
            require(node.stream.next_offset == world.books.next_offset, name, "lacks messages")


def run_seed(seed, sizes=(1, 5), machine=RaftMember):
    """Run one seed."""
    return run_scenario(StreamScenario(seed, sizes, machine), seed, sizes, "stream_scenario")


if __name__ == "__main__":
    run_command(StreamScenario, run_seed, most_nodes=5)
