"""One simulated run of a quorum queue: what happens next is chosen by the seed; then quiet.

    python -m tests.sim.quorum_scenario --seed 17          one seed, with its trace
    python -m tests.sim.quorum_scenario --seeds 1000       many of them, from --first on

The members of the group fail, come and go as in tests/sim/raft_scenario.py. Clients on all nodes
publish, consume, settle, return and reject meanwhile; the cluster takes nodes for gone, rightly or
wrongly.
In the end everything works: no command waits, and what clients hold is what the queue knows.
"""

from msgspec.structs import replace

from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    DeadLetterStrategy,
    DelayedRetry,
    Options,
)
from leveret.cluster.raft.raft_member import RaftMember
from tests.sim.command import run_command, run_scenario
from tests.sim.quorum_world import QuorumWorld
from tests.sim.raft_scenario import SETTLE_MS, RaftScenario


class QuorumScenario(RaftScenario):
    """The run of one seed."""

    recovered_share = 0.0

    def __init__(self, seed, sizes=(1, 5), machine=RaftMember):
        super().__init__(seed, sizes, machine)
        random = self.random
        self.steps = min(self.steps, 500)
        self.use_rate = random.choice((0.2, 0.4, 0.6))
        self.calm_rate = random.choice((0.0, 0.05, 0.2))
        """How often everything that is due is done."""
        self.has_ttl = random.random() < 0.2
        self.world = QuorumWorld(self.world.names, self.members, random, self._options())

    def _options(self):
        random = self.random
        rejects = random.random() < 0.5
        return Options(
            max_length=random.choice((NO_LIMIT, NO_LIMIT, 5, 20)),
            rejects_publishes=rejects,
            delivery_limit=random.choice((NO_LIMIT, NO_LIMIT, 2)),
            dead_letters=(
                DeadLetterStrategy.AT_LEAST_ONCE if rejects and random.random() < 0.5
                else DeadLetterStrategy.AT_MOST_ONCE
            ),
            is_single_active=random.random() < 0.25,
            elects_by_priority=random.random() < 0.5,
            priorities=random.choice((1, 1, 2, 32)),
            delayed_retry=random.choice((DelayedRetry.DISABLED, *DelayedRetry)),
            delayed_retry_min_ms=50,
            delayed_retry_max_ms=500,
            consumer_timeout_ms=random.choice((NO_LIMIT, NO_LIMIT, NO_LIMIT, 20_000)),
        )  # fmt: skip

    def _choose(self):
        random = self.random
        if random.random() < self.use_rate:
            name = random.choice(self.world.names)
            node = self.world.nodes[name]
            if node.machine is not None and not node.is_paused:
                if random.random() < 0.01:
                    return ("remake", name)
                return ("use", name, *self._use(node.user))
        if random.random() < 0.03:
            return self._judge()
        leaders = [one for one in self.world.leaders() if not one.is_paused]
        if leaders and random.random() < self.member_rate / 15:
            return self._change(random.choice(leaders))
        if random.random() < self.calm_rate:
            self.world.run(random.choice((0, 1, 20, 200)))
            return None
        return super()._choose()

    def _use(self, user):
        random = self.random
        draw = random.random()
        if draw < 0.5 and user.waiting < 20:
            ttl_ms = random.choice((NO_LIMIT, 100)) if self.has_ttl else NO_LIMIT
            return ("publish", random.choice((1, 1, 2, 8)), random.choice((0, 9)), ttl_ms)
        holding = [at for at, one in enumerate(user.consumers) if one.held]
        if draw < 0.9 and holding:
            at = random.choice(holding)
            held = sorted(user.consumers[at].held)
            positions = held[: random.randint(1, len(held))]
            if random.random() < 0.2:
                positions = random.sample(held, random.randint(1, len(held)))
            kind = random.choice(
                ("settle", "settle", "settle", "return", "unseen", "fail", "discard")
            )
            return (kind, at, tuple(positions))
        subscribed = [at for at, one in enumerate(user.consumers) if not one.is_get]
        if len(subscribed) > 2 and random.random() < 0.5:
            return ("cancel", random.choice(subscribed))
        return ("consume", random.choice((0, 1, 3, 50)), random.choice((0, 0, 1)))

    def _judge(self):
        """The leader hears of a node from the cluster, rightly or wrongly."""
        world, random = self.world, self.random
        leaders = [one for one in world.leaders() if not one.is_paused]
        if not leaders:
            return None
        leader = random.choice(leaders).name
        if world.down and random.random() < 0.6:
            name, incarnation = random.choice(sorted(world.down))
            return ("node", name, "down", incarnation, leader)
        name = random.choice(world.names)
        what = random.choice(("down", "disconnected", "connected"))
        return ("node", name, what, world.lives[name], leader)

    def _settle(self):
        super()._settle()
        world = self.world
        options = replace(world.options, consumer_timeout_ms=NO_LIMIT)
        for _ in range(3):
            world.do(("configure", world.leaders()[-1].name, options))
            for name in world.names:
                leader = world.leaders()[-1].name
                world.do(("node", name, "connected", 0, leader))
                if (name, world.lives[name] - 1) in world.down:
                    leader = world.leaders()[-1].name
                    world.do(("node", name, "down", world.lives[name] - 1, leader))
            world.run(SETTLE_MS)
        users = [node.user for node in world.nodes.values()]
        world.books.check_end(users)


def run_seed(seed, sizes=(1, 5), machine=RaftMember):
    """Run one seed."""
    return run_scenario(QuorumScenario(seed, sizes, machine), seed, sizes, "quorum_scenario")


if __name__ == "__main__":
    run_command(QuorumScenario, run_seed, most_nodes=5)
