"""A quorum queue without a group: each command is an entry, applied at once.

queue = QueueByHand(Options(max_length=3))
one = queue.client()
one.publish(5)
one.consume(credit=2)
assert queue.delivered == [(one, 3, 0), (one, 4, 0)]     client, position, count of its returns
"""

from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    Cancel,
    Checkout,
    Discard,
    Enqueue,
    EnqueuedRun,
    Expire,
    Get,
    Join,
    Leave,
    Modify,
    Options,
    Purge,
    Return,
    Settle,
    Tick,
    encode_command,
    entry_of,
    intervals_of,
    runs_of,
)
from leveret.cluster.quorum.machine.effects import (
    ActiveChanged,
    Deliver,
    Effects,
    PublishDeadLetters,
    Result,
)
from leveret.cluster.quorum.machine.figures import figures
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine


class QueueByHand:
    """The queue. effects: of the last command."""

    def __init__(self, options=None):
        self.machine = QuorumMachine(options or Options())
        self.index = 0
        self.now_ms = 1_000
        self.effects = []
        self.clients = {}

    def apply(self, command):
        """Apply a command, and return its effects."""
        effects = Effects()
        self.index += 1
        self.machine.apply(self.index, entry_of(encode_command(command), self.now_ms), effects)
        self.effects = effects.take()
        return self.effects

    def pass_time(self, ms, everywhere=False):
        """Time passes, and the leader has noticed. everywhere: messages expire not only at the
        head.
        """
        self.now_ms += ms
        return self.apply(Expire() if everywhere else Tick())

    def client(self, node="", incarnation=1):
        """A new client of a node, which is another one unless it is named."""
        sender = len(self.clients) + 1
        client = Client(self, sender, node or f"node-{sender}", incarnation)
        self.clients[client.sender] = client
        return client

    def of(self, kind):
        """The effects of one kind."""
        return [one for one in self.effects if isinstance(one, kind)]

    @property
    def delivered(self):
        """What was delivered: to which client, which position, how often it was returned."""
        return [
            (self.clients[effect.sender], run.position + at, run.delivery_count)
            for effect in self.of(Deliver)
            for run in effect.runs
            for at in range(run.count)
        ]

    @property
    def positions(self):
        """The positions that were delivered."""
        return [position for _, position, _ in self.delivered]

    @property
    def died(self):
        """The positions that have died, and why."""
        return [
            (effect.reason.name, run.position + at)
            for effect in self.of(PublishDeadLetters)
            for run in effect.runs
            for at in range(run.count)
        ]

    @property
    def results(self):
        """The results: outcome and value, or refused places."""
        return [(one.outcome.name, one.refused or one.value) for one in self.of(Result)]

    @property
    def active(self):
        """Which consumers became active, or are no longer."""
        return [(one.sender, one.consumer, one.is_active) for one in self.of(ActiveChanged)]

    @property
    def counts(self):
        """The numbers of ready messages, and of those that consumers hold."""
        now = figures(self.machine)
        return now.ready, now.unacked


class Client:
    """A client of a node, whose commands are numbered."""

    def __init__(self, queue, sender, node, incarnation):
        self.queue, self.sender, self.number = queue, sender, 0
        self.do(Join, node, incarnation)

    def __repr__(self):
        return f"client {self.sender}"

    def do(self, kind, *fields, seen=0):
        """Give the next command; returns its number."""
        self.number += 1
        self.queue.apply(kind(self.sender, self.number, seen, *fields))
        return self.number

    def publish(self, count=1, priority=0, ttl_ms=NO_LIMIT, size=10):
        return self.do(Enqueue, runs_of([EnqueuedRun(count, size, ttl_ms, priority)]))

    def consume(self, credit=100, priority=0, timeout_ms=NO_LIMIT):
        return self.do(Checkout, "tag", credit, priority, False, timeout_ms, b"")

    def get(self):
        return self.do(Get, False)

    def settle(self, consumer, *positions):
        self.do(Settle, consumer, intervals_of(positions))

    def give_back(self, consumer, *positions, is_failed=False):
        self.do(Return, consumer, intervals_of(positions), is_failed)

    def discard(self, consumer, *positions):
        self.do(Discard, consumer, intervals_of(positions))

    def modify(
        self, consumer, *positions, is_failed=False, is_rejected=False, ready_ms=0, **annotations
    ):
        self.do(
            Modify, consumer, intervals_of(positions), is_failed, is_rejected, annotations, ready_ms
        )

    def cancel(self, consumer, returns=False):
        self.do(Cancel, consumer, returns)

    def purge(self):
        self.do(Purge)

    def leave(self):
        self.do(Leave)
