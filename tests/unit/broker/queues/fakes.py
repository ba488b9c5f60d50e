"""What a queue has around it, in the form in which a test can look at it."""

from broker.amqp.content import encode_address
from broker.amqp.properties import ContentHeader
from broker.queues.actor import Queue
from broker.queues.priority import PriorityQueue
from broker.virtual_clock import VirtualClock
from storage.message import Address, Message
from storage.transient_queue import TransientQueue

ADDRESS = Address("", "q", encode_address("", "q"))
HEADER = ContentHeader(b"\0\0")


class FakeTurns:
    """Turns that are taken when the test says so."""

    def __init__(self):
        self.woken = []
        self.now_ms = 0

    def wake(self, actor):
        if not actor.is_awake:
            actor.is_awake = True
            self.woken.append(actor)

    def run(self):
        """One round."""
        woken, self.woken = self.woken, []
        for actor in woken:
            actor.is_awake = False
            actor.take_turn()


class FakeVhost:
    """Dead letters and deletions, written down."""

    def __init__(self):
        self.turns = FakeTurns()
        self.clock = VirtualClock()
        self.dead = []
        self.discarded = []
        self.deleted = []
        self.tracer = None

    def make_backing(self, queue):
        if queue.options.max_priority:
            return PriorityQueue(queue.options.max_priority, lambda level: TransientQueue())
        return TransientQueue()

    def dead_letter(self, queue, message, reason):
        self.dead.append((message.body, reason))

    def note_discarded(self, reason):
        self.discarded.append(reason)

    def delete_queue(self, queue):
        self.deleted.append(queue)
        return queue.delete()


class FakeConsumer:
    """A consumer with credit for so many messages."""

    is_exclusive = False
    is_waiting = False
    priority = 0

    def __init__(self, tag="c", credit=1000, no_ack=False):
        self.tag = tag
        self.credit = credit
        self.no_ack = no_ack
        self.entries = []
        self.was_told = False

    def room(self):
        return self.credit

    def deliver(self, entries):
        assert len(entries) <= self.credit
        self.credit -= len(entries)
        self.entries += entries

    def queue_deleted(self):
        self.was_told = True

    @property
    def bodies(self):
        return [entry.message.body for entry in self.entries]


class FakePublisher:
    """The refusals of messages, by their numbers."""

    def __init__(self):
        self.refused = []

    def refuse(self, sequence):
        self.refused.append(sequence)


def declared(vhost, auto_delete=False, **arguments):
    """A queue; x_max_length=5 is its argument x-max-length."""
    letters = {int: "I", str: "S", bool: "t"}
    table = {
        name.replace("_", "-"): (letters[type(value)], value) for name, value in arguments.items()
    }
    return Queue(vhost, "q", False, auto_delete, table)


def publish(queue, *bodies, ttl_ms=None, publisher=None, first=1, header=HEADER):
    """Publish messages, numbered from `first`."""
    for sequence, body in enumerate(bodies, first):
        message = Message(ADDRESS, header, body)
        if ttl_ms is None:
            queue.publish([message], len(body), publisher, sequence)
        else:
            queue.publish_expiring(message, ttl_ms, publisher, sequence)


def ready(queue):
    """What is ready, in order."""
    return [entry.message.body for entry in queue.backing.entries()]
