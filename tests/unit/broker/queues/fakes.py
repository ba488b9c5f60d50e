"""Test doubles for the surroundings of a queue."""

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.classic.priority import PriorityQueue
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.queues.contract.queue_client import Consumer
from leveret.broker.queues.contract.status import ConnectionFigures, ConsumerFigures
from leveret.broker.queues.served_kinds import served_kinds
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.shared_features import SharedFeatures
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.storage.messages.message import Address, Message
from leveret.storage.queue.transient_queue import TransientQueue
from tests.storage.reading import ready_entries
from tests.turns_by_hand import TurnsByHand

ADDRESS = Address("", "q", encode_address("", "q"))
HEADER = read_header(b"\0\0")


class FakeVhost:
    """Records dead letters and deletions."""

    name = "/"

    def __init__(self):
        self.turns = TurnsByHand()
        self.clock = VirtualClock()
        self.features = SharedFeatures()
        self.dead = []
        self.discarded = []
        self.deleted = []
        self.tracer = None
        self.expires_on_time = False
        self.node = ""

    def make_backing(self, queue, levels):
        if levels is not None:
            return PriorityQueue(levels, lambda level: TransientQueue())
        return TransientQueue()

    def lives_here(self, queue):
        return True

    def dead_letter(self, queue, messages, reason):
        self.dead += [(message.body, reason) for message in messages]

    def note_discarded(self, queue, reason, count):
        self.discarded += [reason] * count

    def delete_unused(self, queue, is_urgent):
        self.delete_queue(queue)

    def delete_queue(self, queue, _requester=THE_NODE, answer=None):
        self.deleted.append(queue)
        consumers = queue.delete_now()
        if answer is not None:
            answer.give(None)
        for consumer in consumers:
            consumer.tell_cancelled()


class FakeConsumer(Consumer):
    """A consumer with credit for a number of messages."""

    def __init__(self, tag="c", credit=1000, no_ack=False):
        super().__init__(tag, no_ack, is_exclusive=False, priority=0)
        self.credit = credit
        self.entries = []
        self.is_without_queue = self.was_told = False

    def room(self):
        return self.credit

    def deliver(self, entries):
        assert len(entries) <= self.credit
        self.credit -= len(entries)
        self.entries += entries

    def queue_replaced(self, queue):
        self.queue = queue

    def queue_deleted(self):
        self.is_without_queue = True

    def tell_cancelled(self):
        self.was_told = True

    def figures(self, activity):
        return ConsumerFigures(
            tag=self.tag, ack_required=not self.no_ack, activity=activity,
            is_exclusive=self.is_exclusive, priority=self.priority, prefetch_count=0,
            credit=self.credit, timeout_ms=None, arguments={},
            connection=ConnectionFigures("a connection", "127.0.0.1", 50_000),
            channel_name="a connection (1)", channel_number=1, user="guest",
        )  # fmt: skip

    @property
    def bodies(self):
        return [entry.message.body for entry in self.entries]


class FakePublisher:
    """Records the refused messages by number."""

    def __init__(self):
        self.refused = []

    def refuse(self, number):
        self.refused.append(number)


def declared(vhost, auto_delete=False, **arguments):
    """Declare a queue; x_max_length=5 is its argument x-max-length."""
    letters = {int: "I", str: "S", bool: "t"}
    table = {
        name.replace("_", "-"): (letters[type(value)], value) for name, value in arguments.items()
    }
    return ClassicQueue(vhost, specified(table, auto_delete=auto_delete))


def specified(arguments, **properties):
    """The specification of the queue `q` in the vhost `/`."""
    return served_kinds().specify("/", "q", arguments, **properties)


def publish(queue, *bodies, ttl_ms=None, publisher=None, first=1, header=HEADER):
    """Publish messages, numbered from `first`."""
    for sequence, body in enumerate(bodies, first):
        message = Message(ADDRESS, header, body)
        queue.publish(publication_of([message], ttl_ms, publisher, sequence))


def subscribed(queue, consumer):
    """The consumer, which gets messages from now on. Raises what the queue answers."""
    answer = Answer()
    queue.subscribe(consumer, answer)
    answer.result()
    return consumer


def got(queue, ack_required=True):
    """The entry that basic.get takes, or None."""
    answer = Answer()
    queue.get(ack_required, answer)
    found = answer.result()
    return found and found.entry


def purged(queue):
    """How many messages a purge dropped."""
    answer = Answer()
    queue.purge(answer)
    return answer.result()


def length(queue):
    """Its (ready_count, consumer_count)."""
    answer = Answer()
    queue.length(answer)
    return answer.result()


def deleted(queue, if_unused=False, if_empty=False):
    """How many messages a deletion dropped. Raises what the queue answers."""
    answer = Answer()
    queue.delete(if_unused, if_empty, "guest", answer)
    return answer.result()


def ready(queue):
    """Return the ready messages, in order."""
    return [entry.message.body for entry in ready_entries(queue.backing)]
