"""A kind of queue that removes nothing: a log in memory, which each consumer reads for itself.

It is what a kind of an installed package needs to be one whose messages stay: install it by the
entry point `log` (tests/installed_package.py), or add `LOG_QUEUES` to a node's table of kinds.
"""

from bisect import bisect_left
from dataclasses import replace
from types import SimpleNamespace

import msgspec

from leveret.broker.queues.contract.queue_client import QueueLength
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.contract.status import UP, AgeFigures, CoarseCounts, QueueStatus
from leveret.broker.queues.delivery.age import BOUNDS_MS
from leveret.broker.queues.stream_kind import STREAM_QUEUE
from leveret.broker.runtime.turns import Actor
from leveret.storage.contract.queue_status import StorageCounts
from leveret.storage.messages.message import Entry, Message

LOG_QUEUE = replace(STREAM_QUEUE, name="log", module="log_queue", is_replicated=False)
IS_LOG = {"x-queue-type": "log"}
SOURCE = "from tests.fakes.log_queue import log_queues"
"""The source of a package that brings the kind; its entry point is `log_queues`."""
OFFSET_HEADER = "x-stream-offset"


class LogQueue(Actor):
    """One log: messages, the times at which they came, and the offset of each consumer."""

    kind = LOG_QUEUE
    is_exclusive = is_exchange = is_down = may_redeliver = False
    publisher_hold = SimpleNamespace(is_wanted=False)
    demand = policy = operator_policy = None

    def __init__(self, owner, specification):
        super().__init__()
        (
            self.vhost_name, self.name, _, self.durable, self.auto_delete, self.arguments,
            self.declared, self.owner_connection, self.storage_id, self.placement,
        ) = specification  # fmt: skip
        self.options = self.declared
        self.bindings = {}
        self.is_deleted = False
        self.figures = LogFigures(self)
        self.messages = []
        self.offsets = {}
        self._times_ms = []
        self._owner = owner

    def __repr__(self):
        return f"<LogQueue {self.name!r}>"

    def apply(self, options):
        self.options = options

    def watch(self, demand):
        self.demand = demand

    def publish(self, publication):
        for message in publication.messages:
            self.messages.append(_with_offset(message, len(self.messages)))
            self._times_ms.append(int(self._owner.clock.wall_time_s() * 1000))
        self._owner.turns.wake(self)

    # Consumers

    def subscribe(self, consumer, answer):
        self.offsets[consumer] = self._first_offset(*consumer.start)
        answer.give(None)
        self._owner.turns.wake(self)

    def _first_offset(self, kind, value):
        end = len(self.messages)
        match kind:
            case "first":
                return 0
            case "last":
                return max(0, end - 1)
            case "offset":
                return value
            case "timestamp":
                return bisect_left(self._times_ms, value)
        return end

    def take_turn(self):
        for consumer in tuple(self.offsets):
            self._deliver(consumer)

    def _deliver(self, consumer):
        while (start := self.offsets[consumer]) < len(self.messages):
            room = consumer.room()
            if room <= 0:
                consumer.is_waiting = True
                return
            messages = self.messages[start : start + room]
            self.offsets[consumer] += len(messages)
            consumer.deliver(
                [Entry(message, offset) for offset, message in enumerate(messages, start)]
            )

    def credit(self, consumer):
        consumer.is_waiting = False
        self._owner.turns.wake(self)

    def cancel(self, consumer, channel_ended=False, answer=None):
        if consumer in self.offsets:
            if not channel_ended:
                self._deliver(consumer)
            del self.offsets[consumer]
        if answer is not None:
            answer.give(None)

    # Settling: consumers have room again by themselves.

    def ack(self, entries):
        pass

    def requeue(self, entries, is_failed=False):
        pass

    def discard(self, entries):
        pass

    # The queue as a whole

    def length(self, answer):
        answer.give(QueueLength(len(self.messages), len(self.offsets)))

    def delete(self, if_unused, if_empty, requester, answer):
        self._owner.delete_queue(self, requester, answer.preceding(0))

    def delete_now(self):
        return self.close()

    def close(self):
        self.is_deleted = True
        consumers, self.offsets = tuple(self.offsets), {}
        for consumer in consumers:
            consumer.queue_deleted()
        return consumers


class LogFigures:
    """The figures of one log."""

    def __init__(self, queue):
        self._queue = queue

    def refresh(self, answer):
        answer.give(None)

    def counts(self):
        return CoarseCounts(len(self._queue.messages), 0, len(self._queue.offsets))

    def ages(self):
        return AgeFigures(None, [0] * (len(BOUNDS_MS) + 1), 0)

    def consumers(self):
        end = len(self._queue.messages)
        return [
            msgspec.structs.replace(consumer.figures(UP), offset=offset, lag=max(0, end - offset))
            for consumer, offset in self._queue.offsets.items()
        ]

    def status(self):
        return QueueStatus(counts=self.counts(), storage=StorageCounts(), declared_at_s=0.0)

    def backing_queue_status(self):
        return {}


def _with_offset(message, offset):
    """A message as consumers get it."""
    headers = {**message.header.headers, OFFSET_HEADER: ("l", offset)}
    return Message(message.address, message.header.replace(headers=headers), message.body)


LOG_QUEUES = QueueFactory(LOG_QUEUE, LogQueue)


def log_queues():
    """The factory, for an entry point."""
    return LOG_QUEUES
