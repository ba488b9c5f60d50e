"""One simulated run of the queue of a delayed message exchange: chosen by the seed, then quiet.

    python -m tests.sim.delayed_scenario --seed 17          one seed, with its trace
    python -m tests.sim.delayed_scenario --seeds 1000       many of them, from --first on

Faults and clients are those of tests/sim/quorum_scenario.py. Messages are published with delays;
some are released early or cancelled. Each entry, and the end, is checked against the promises QD1,
QD2 and QD5 of docs/design/delayed-messages.md.
"""

from leveret.cluster.quorum.machine.commands import DeadLetterStrategy, Options
from leveret.cluster.raft.raft_member import RaftMember
from tests.sim.command import run_command, run_scenario
from tests.sim.properties import require
from tests.sim.quorum_scenario import QuorumScenario
from tests.sim.raft_scenario import SETTLE_MS

DELAYS_MS = (0, 50, 50, 500, 5_000)


class DelayedScenario(QuorumScenario):
    """The run of one seed."""

    def _options(self):
        return Options(dead_letters=DeadLetterStrategy.AT_LEAST_ONCE, is_delaying=True)

    def _choose(self):
        random = self.random
        leaders = [one for one in self.world.leaders() if not one.is_paused]
        if leaders and random.random() < 0.05:
            leader = random.choice(leaders)
            waiting = self.world.queue(leader).messages.delayed.runs
            if waiting:
                run = random.choice(waiting)
                positions = (run.position, run.position + random.randrange(run.count))
                return ("end_delays", leader.name, positions, random.random() < 0.5)
        return super()._choose()

    def _use(self, user):
        if user.waiting >= 20:
            return ("consume", 3, 0)
        random = self.random
        return ("publish", random.choice((1, 1, 2, 8)), 0, random.choice(DELAYS_MS))

    def _settle(self):
        super()._settle()
        world, books = self.world, self.world.books
        waiting = books.machine.messages.delayed
        while waiting.count:
            # The clock of the last leader may be behind that of an earlier one.
            left_ms = waiting.last_ms() - min(node.clock for node in world.nodes.values())
            require(left_ms > -SETTLE_MS, "QD1: a message still waits")
            world.run(SETTLE_MS)
        world.run(SETTLE_MS)
        left = books.confirmed - books.released - books.cancelled
        require(not left, "QD1: confirmed and not released:", sorted(left))


def run_seed(seed, sizes=(1, 5), machine=RaftMember):
    """Run one seed."""
    return run_scenario(DelayedScenario(seed, sizes, machine), seed, sizes, "delayed_scenario")


if __name__ == "__main__":
    run_command(DelayedScenario, run_seed, most_nodes=5)
