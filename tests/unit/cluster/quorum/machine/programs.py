"""Programs of random commands for a quorum queue, chosen by a seed.

Some numbers come twice or out of order, and some positions are not held: such commands are to
change nothing.
"""

from random import Random

from leveret.cluster.quorum.machine import commands
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    DeadLetterStrategy,
    DelayedRetry,
    EnqueuedRun,
    Options,
    intervals_of,
    runs_of,
)
from leveret.cluster.quorum.machine.own_times import times_of

NODES = ("one", "two", "three", "four")


def random_options(random: Random) -> Options:
    """Options as a declaration and policies may give them."""

    def seldom(*values):
        return random.choice(values) if random.random() < 0.4 else NO_LIMIT

    is_single_active = random.random() < 0.25
    limit = seldom(0, 2, 5, 20)
    rejects = random.random() < 0.5
    strategies = list(DeadLetterStrategy)[: 3 if rejects else 2]
    return Options(
        max_length=seldom(0, 3, 10, 30),
        max_length_bytes=seldom(0, 50, 1000),
        rejects_publishes=rejects,
        delivery_limit=limit,
        message_ttl_ms=seldom(0, 20, 200),
        expires_ms=seldom(50, 500),
        dead_letters=random.choice(strategies),
        is_single_active=is_single_active,
        elects_by_priority=random.random() < 0.5,
        priorities=random.choice((1, 1, 2, 32)),
        returns_to_end=limit == NO_LIMIT and random.random() < 0.5,
        counts_returns=random.random() < 0.7,
        delayed_retry=random.choice((DelayedRetry.DISABLED, *DelayedRetry)),
        delayed_retry_min_ms=random.choice((10, 50)),
        delayed_retry_max_ms=random.choice((50, 100)),
        delayed_retry_multiplier=random.choice((0, 0, 1000, 2000)),
        delayed_expire=random.random() < 0.7,
        cache_size=random.choice((0, 1000)),
        cache_ttl_ms=random.choice((0, 40)),
        consumer_timeout_ms=seldom(30, 300),
        is_successor=random.random() < 0.15,
    )


class Program:
    """Gives one command after the other. model: what the queue is expected to hold."""

    def __init__(self, random: Random, model) -> None:
        self.random, self.model = random, model
        self.next_sender = 1
        self.numbers = {}
        self.now_ms = 1_000
        self.backlog_rate = random.choice((0.3, 0.5, 0.7))

    def first(self) -> commands.Configure:
        """The first entry of a queue."""
        return commands.Configure(random_options(self.random))

    def step(self):
        """The time of the next command, and the command."""
        random = self.random
        self.now_ms += random.choice((0, 0, 0, 1, 5, 20, -3))
        draw = random.random()
        if not self.numbers or draw < 0.02:
            return self.now_ms, self._join()
        if draw < 0.10:
            return self.now_ms, self._of_leader()
        sender = random.choice(list(self.numbers))
        number = self.numbers[sender] + 1
        wrong = random.random()
        if wrong < 0.03:
            number = max(1, number + random.choice((-1, -1, 1, 3)))
        command = self._of_client(sender, number, draw)
        if wrong >= 0.03:
            self.numbers[sender] = number
            known = self.model.senders.get(sender)
            if isinstance(command, commands.Leave) or known is None or known["ended"]:
                del self.numbers[sender]
        return self.now_ms, command

    def _join(self):
        sender, self.next_sender = self.next_sender, self.next_sender + 1
        self.numbers[sender] = 1
        return commands.Join(sender, 1, 0, self.random.choice(NODES), self.random.randint(1, 3))

    def _of_leader(self):
        random = self.random
        draw = random.random()
        if draw < 0.5:
            return commands.Expire() if draw < 0.2 else commands.Tick()
        if draw < 0.6:
            return commands.NodeDown(random.choice(NODES), random.randint(0, 3))
        if draw < 0.7:
            return commands.NodeDisconnected(random.choice(NODES))
        if draw < 0.85:
            return commands.NodeConnected(random.choice(NODES))
        letters = [one.position for _, one in self.model.letters]
        if draw < 0.95 and letters:
            return commands.LettersDone(self._some(letters))
        delayed = [one.position for one in self.model.delayed]
        if draw < 0.98 and delayed:
            positions = self._some(delayed) if random.random() < 0.7 else []
            return commands.EndDelays(positions, random.random() < 0.5)
        return commands.Configure(random_options(random)) if draw > 0.98 else commands.Tick()

    def _of_client(self, sender, number, draw):
        random = self.random
        seen = random.choice((0, number - 1))
        if draw < 0.10 + 0.5 * self.backlog_rate:
            return self._publish(sender, number, seen)
        if draw < 0.60:
            return self._subscription(sender, number, seen)
        if draw < 0.97:
            return self._settlement(sender, number, seen)
        if draw < 0.98:
            return commands.Purge(sender, number, seen)
        return (
            commands.Leave(sender, number, seen)
            if draw > 0.995
            else commands.Get(sender, number, seen, False)
        )

    def _publish(self, sender, number, seen):
        runs = self._runs()
        draw = self.random.random()
        if draw < 0.3:
            return commands.Enqueue(sender, number, seen, runs)
        if draw < 0.6:
            return self._timed(sender, number, seen, runs)
        keys = self.random.choices((b"", b"a", b"b", b"c", b"d"), k=sum(runs[::4]))
        return commands.EnqueueOnce(sender, number, seen, runs, keys)

    def _timed(self, sender, number, seen, runs):
        """A publish of messages that have times to live of their own."""
        random = self.random
        times = {}
        for at in range(0, len(runs), commands.RUN_FIELDS):
            if random.random() < 0.7:
                choices = random.choice(((10, 20, 40, 300), (0, 1, 15), (5, 1_000_000)))
                lives_ms = random.choices(choices, k=runs[at])
                times[at // commands.RUN_FIELDS] = times_of(lives_ms)
                runs[at + 2] = min(lives_ms) + 1
        return commands.EnqueueTimed(sender, number, seen, runs, times)

    def _runs(self):
        random = self.random
        return runs_of([
            EnqueuedRun(
                random.choice((1, 1, 3, 12)), random.choice((0, 10, 10, 100)),
                random.choice((NO_LIMIT, NO_LIMIT, 0, 15, 300)), random.choice((0, 4, 5, 31, 200)),
            )
            for _ in range(random.choice((1, 1, 2, 4)))
        ])  # fmt: skip

    def _subscription(self, sender, number, seen):
        random = self.random
        mine = [one.name[1] for one in self.model.consumers if one.name[0] == sender]
        if len(mine) > 2 and random.random() < 0.5:
            return commands.Cancel(sender, number, seen, random.choice(mine), random.random() < 0.5)
        if random.random() < 0.5:
            return commands.Get(sender, number, seen, False)
        return commands.Checkout(
            sender, number, seen, f"tag-{number}", random.choice((1, 2, 10, 2000)),
            random.choice((0, 0, 1, -1)), random.random() < 0.1,
            random.choice((NO_LIMIT, NO_LIMIT, 100)), b"",
        )  # fmt: skip

    def _settlement(self, sender, number, seen):
        random = self.random
        holders = [one for one in self.model.consumers if one.name[0] == sender and
                   (one.held or one.timed_out)]  # fmt: skip
        if not holders:
            return commands.Settle(sender, number, seen, random.randint(1, number), [1, 5])
        consumer = random.choice(holders)
        held = [one.position for one in consumer.held] + sorted(consumer.timed_out)
        positions = self._some(held)
        kind = random.random()
        if kind < 0.5:
            return commands.Settle(sender, number, seen, consumer.name[1], positions)
        if kind < 0.85:
            is_failed = random.random() < 0.4
            is_unseen = random.random() < 0.2
            return commands.Return(
                sender, number, seen, consumer.name[1], positions, is_failed, is_unseen
            )
        return commands.Discard(sender, number, seen, consumer.name[1], positions)

    def _some(self, positions):
        random = self.random
        positions = sorted(set(positions))
        draw = random.random()
        if draw < 0.3:
            return [positions[0], positions[-1]]
        if draw < 0.4:
            return [max(1, positions[0] - 2), positions[len(positions) // 2]]
        return intervals_of(sorted(random.sample(positions, random.randint(1, len(positions)))))
