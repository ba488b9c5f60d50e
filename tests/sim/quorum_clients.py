"""The clients of a simulated quorum queue: what a node publishes, consumes and settles.

Each node has one, around the pure core of its client (cluster/quorum/client). Messages are numbered
texts, such as b"a17", so that each one can be followed through everything.
"""

from itertools import count

from leveret.cluster.groups.uses import GroupUse
from leveret.cluster.quorum.client.consuming_client import ConsumerCommand, ConsumingClient
from leveret.cluster.quorum.client.delivered_run import DeliveredRun
from leveret.cluster.quorum.machine.commands import (
    NO_LIMIT,
    Cancel,
    Checkout,
    Discard,
    Enqueue,
    EnqueuedRun,
    EnqueueTimed,
    Get,
    Join,
    Purge,
    Return,
    Settle,
    encode_command,
    intervals_of,
    runs_of,
)
from leveret.cluster.quorum.machine.effects import Outcome
from leveret.cluster.quorum.machine.own_times import times_of
from leveret.cluster.replicated_queues.client.group_client import SendCommands, StartSession
from leveret.cluster.replicated_queues.client.numbered_command import NumberedCommand
from tests.sim.raft_world import GROUP


def expanded(intervals):
    """The numbers of intervals."""
    return [
        number
        for at in range(0, len(intervals), 2)
        for number in range(intervals[at], intervals[at + 1] + 1)
    ]


class JoinQueue(NumberedCommand):
    """The first command of a sender."""

    def __init__(self, user):
        super().__init__()
        self.user = user

    def encode(self, sender, seen):
        user = self.user
        return encode_command(Join(sender, self.number, seen, user.name, user.incarnation))

    def sender_ended(self):
        return False


class Publish(NumberedCommand):
    """Publishes messages of one priority. If they expire, each has a time to live of its own."""

    def __init__(self, user, texts, priority, ttl_ms):
        super().__init__()
        self.user, self.texts, self.priority, self.ttl_ms = user, texts, priority, ttl_ms

    def encode(self, sender, seen):
        runs = runs_of([EnqueuedRun(len(self.texts), 10, self.ttl_ms, self.priority)])
        if self.ttl_ms == NO_LIMIT or len(self.texts) == 1:
            command = Enqueue(sender, self.number, seen, runs)
        else:
            lives_ms = [self.ttl_ms + place * 37 % 50 for place in range(len(self.texts))]
            command = EnqueueTimed(sender, self.number, seen, runs, {0: times_of(lives_ms)})
        return encode_command(command, b" ".join(self.texts))

    def applied(self, result):
        refused = expanded(result.refused) if result else []
        for place, text in enumerate(self.texts):
            self.user.books.published(text, place not in refused)
        self.user.waiting -= 1

    def sender_forgotten(self):
        self.user.waiting -= 1
        return False


class Consume(ConsumerCommand):
    """Subscribes, or takes one message. held: by position, what has arrived and is not settled.

    sender: of a message that was taken, the sender that got it.
    """

    def __init__(self, user, credit, priority):
        super().__init__()
        self.user, self.credit, self.priority = user, credit, priority
        self.held = {}
        self.sender = 0
        self.is_answered = False

    @property
    def is_get(self):
        return self.credit == 0

    def encode(self, sender, seen):
        if self.is_get:
            return encode_command(Get(sender, self.number, seen, no_ack=False))
        return encode_command(
            Checkout(sender, self.number, seen, "tag", self.credit, self.priority, False, NO_LIMIT,
                     b"")
        )  # fmt: skip

    def applied(self, result):
        self.is_answered = True
        if self.is_get and result.outcome is not Outcome.GOT:
            self.user.end(self)

    def sender_ended(self):
        if self.is_get and self in self.user.consumers:
            self.is_answered = True
            self.user.consumers.remove(self)
        return self in self.user.consumers

    def arrived(self, runs):
        if self.is_get:
            self.user.client.forget(self)
            self.sender = self.user.client.sender
        for delivered in runs:
            run = delivered.run
            texts = delivered.data[delivered.start :].split()
            for at in range(run.count):
                text = texts[run.place + at]
                self.held[run.position + at] = text
                self.user.books.delivered(self, text, run.position + at, run.returns)

    def timed_out(self, positions):
        if self in self.user.consumers:
            self.user.cancel(self)

    def holder_ended(self):
        self.held = {}


class GiveUp(NumberedCommand):
    """Settles, returns or rejects messages that a consumer holds, or ends the consumer."""

    def __init__(self, user, kind, holder, held):
        super().__init__()
        self.user, self.kind, self.held = user, kind, held
        self.consumer = holder.number

    def encode(self, sender, seen):
        name = (sender, self.number, seen, self.consumer)
        if self.kind == "cancel":
            return encode_command(Cancel(*name, returns=True))
        positions = intervals_of(sorted(self.held))
        if self.kind == "settle":
            return encode_command(Settle(*name, positions))
        if self.kind == "discard":
            return encode_command(Discard(*name, positions))
        return encode_command(Return(*name, positions, self.kind == "fail", self.kind == "unseen"))

    def sender_ended(self):
        return False


class PurgeQueue(NumberedCommand):
    """Purges the queue."""

    def __init__(self, user):
        super().__init__()
        self.user = user

    def encode(self, sender, seen):
        return encode_command(Purge(sender, self.number, seen))

    def sender_ended(self):
        return False


class User:
    """The client of one life of a node. waiting: how many publishes are not answered."""

    def __init__(self, name, incarnation, senders, books, host, numbers=None):
        self.name, self.incarnation, self.books = name, incarnation, books
        self._senders = senders
        self.client = ConsumingClient(self)
        self.consumers = []
        self.waiting = 0
        self.use = GroupUse(host, None, GROUP, list(host.nodes), self)
        self.numbers = numbers or count(incarnation * 100_000)

    def begin(self):
        """Ask all nodes who leads."""
        for node in self.use.nodes:
            self.use.find(node)

    # The leader

    def leader_found(self):
        self.client.leader_found()

    def leader_lost(self):
        self.client.leader_lost()

    def do_outputs(self):
        for output in self.client.take_outputs():
            if isinstance(output, StartSession):
                self.use.attach(output.session, output.sender, output.seen, output.received)
            elif isinstance(output, SendCommands):
                self.use.send(output.session, output.payloads)

    # The senders of the client

    def next_number(self):
        return next(self._senders)

    def join(self):
        return JoinQueue(self)

    # What its users do

    def publish(self, number, priority, ttl_ms):
        texts = [b"%s%d" % (self.name.encode(), next(self.numbers)) for _ in range(number)]
        self.waiting += 1
        self.client.add(Publish(self, texts, priority, ttl_ms))

    def consume(self, credit, priority):
        consumer = Consume(self, credit, priority)
        self.consumers.append(consumer)
        self.client.add(consumer)

    def give_up(self, consumer, kind, positions):
        held = {position: consumer.held.pop(position) for position in positions}
        if kind == "unseen":
            for text in held.values():
                self.books.unseen(text, self)
        self.client.add(GiveUp(self, kind, consumer.holder, held))
        if consumer.is_get and not consumer.held:
            self.end(consumer)

    def cancel(self, consumer):
        self.client.add(GiveUp(self, "cancel", consumer.holder, consumer.held))
        consumer.held = {}
        self.end(consumer)

    def end(self, consumer):
        self.client.forget(consumer)
        self.consumers.remove(consumer)

    # What the leader says

    def _timed_out(self, number):
        """A message that was taken is held for too long: its channel is closed."""
        for consumer in list(self.consumers):
            if consumer.holder.number == number:
                self.cancel(consumer)

    def told(self, session, sender, kind, *what):
        client = self.client
        if sender != client.sender:
            return
        if kind == "applied":
            client.applied(session, *what)
        elif kind == "result":
            client.result(session, *what)
        elif kind == "deliver":
            consumer, runs = what
            client.deliver(session, consumer, [DeliveredRun(*one) for one in runs])
        elif kind == "timed out":
            client.timed_out(session, *what)
            if session == client.session:
                self._timed_out(what[0])
        elif kind == "unknown":
            client.sender_unknown(session)
        else:
            client.sender_ended(session)
        self.consumers = [one for one in self.consumers if one.sender in {0, client.sender}]
