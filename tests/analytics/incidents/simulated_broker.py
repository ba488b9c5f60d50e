"""A broker of one virtual host in simulated time, which writes the records of a trace log.

It has exchanges that route by key, and queues with a TTL, a maximum length, a dead-letter exchange
and consumers that are served in turn within their prefetch limits. Each step writes the records
that the real broker writes for it (broker/tracing/log_sink.py), in the same order. Nothing waits
and nothing is random but by the seed, so a day takes less than a second and is always the same.
"""

import heapq
import itertools
import random
from collections import deque

from tests.analytics.incidents.simulated_log import MIDNIGHT_US, NODE, SECOND_US


class Message:
    """A message as it was published: its number, address and properties."""

    def __init__(self, number, exchange, key, size, properties):
        self.number, self.exchange, self.key = number, exchange, key
        self.size, self.properties = size, properties
        self.letters = 0


class Entry:
    """A message in a queue."""

    def __init__(self, message, position, came_s):
        self.message, self.position, self.came_s = message, position, came_s
        self.priority = message.properties.get("priority", 0)
        self.deliveries = 0


class Broker:
    """The virtual host. Times are seconds since the trace begins."""

    def __init__(self, seed, length_s, begins_s=8 * 3600, vhost="/"):
        self.random = random.Random(seed)
        self.length_s, self.now_s, self.vhost = length_s, 0.0, vhost
        self.records = []
        self._begins_us = MIDNIGHT_US + int(begins_s * SECOND_US)
        self._events, self._order = [], itertools.count()
        self._number = (self._begins_us // SECOND_US) << 32
        self._bindings, self.queues = {}, {}
        self._ports, self.tags = itertools.count(40_000), itertools.count(1)

    def at(self, time_s, action, *arguments):
        """Do something at a time, if the trace lasts until then."""
        if time_s < self.length_s:
            heapq.heappush(
                self._events, (max(time_s, self.now_s), next(self._order), action, arguments)
            )

    def run(self):
        """Let the time pass, and return the records."""
        while self._events:
            self.now_s, _, action, arguments = heapq.heappop(self._events)
            action(*arguments)
        return self.records

    def write(self, event, **fields):
        """Write a record."""
        time_us = self._begins_us + int(self.now_s * SECOND_US)
        self.records.append(
            {"event": event, "node": NODE, "vhost": self.vhost, "time_us": time_us, **fields}
        )

    # Declarations

    def queue(self, name, **options):
        """Declare a queue; options: those of Queue."""
        self.queues[name] = Queue(self, name, **options)
        return self.queues[name]

    def bind(self, exchange, key, *queues):
        """Bind queues to an exchange. The key `#` matches every key."""
        self._bindings.setdefault(exchange, []).append((key, queues))

    def connection(self, user, host="10.0.0.7"):
        """Return the fields of a new connection's records."""
        name = f"{host}:{next(self._ports)} -> 10.0.9.9:5672"
        return {"connection": name, "channel": 1, "user": user}

    # Messages

    def publish(self, who, exchange, key, size=200, properties=None, mandatory=False):
        """Publish a message, and return it to the publisher if it has no queue."""
        message = Message(self._next_number(), exchange, key, size, properties or {})
        names = self._route(exchange, key)
        self.write("publish", **who, message=message.number, exchange=exchange, routing_keys=[key],
                   queues=names, body_size=size, properties=message.properties)  # fmt: skip
        if not names and mandatory:
            self.write("return", **who, message=message.number, exchange=exchange,
                       routing_keys=[key], reply_code=312, reply_text="NO_ROUTE")  # fmt: skip
        for name in names:
            self.queues[name].enter(message)

    def dead_letter(self, queue, message, reason):
        """Publish a dead letter, if the queue has a dead-letter exchange."""
        if queue.dead_letter_to is None:
            return
        exchange, key = queue.dead_letter_to
        key = message.key if key is None else key
        letter = Message(self._next_number(), exchange, key, message.size, message.properties)
        letter.letters = message.letters + 1
        names = self._route(exchange, key)
        self.write("dead_letter", message=message.number, queue=queue.name, reason=reason,
                   new_message=letter.number, exchange=exchange, routing_keys=[key],
                   queues=names)  # fmt: skip
        for name in names:
            self.queues[name].enter(letter)

    def _next_number(self):
        self._number += 1
        return self._number

    def _route(self, exchange, key):
        if not exchange:
            return [key] if key in self.queues else []
        bindings = self._bindings.get(exchange, ())
        found = [queues for bound, queues in bindings if bound in (key, "#")]
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))


class Queue:
    """A queue. overflow: drop-head or reject-publish. dead_letter_to: an exchange and a key.

    has_priorities: messages of a higher priority are delivered first.
    """

    def __init__(
        self, broker, name, ttl_s=None, length_max=None, overflow="drop-head", dead_letter_to=None,
        has_priorities=False,
    ):  # fmt: skip
        self.broker, self.name = broker, name
        self.ttl_s, self.length_max, self.overflow = ttl_s, length_max, overflow
        self.dead_letter_to, self.has_priorities = dead_letter_to, has_priorities
        self.ready, self.consumers = deque(), deque()
        self._positions = itertools.count()

    def enter(self, message):
        """A message is routed to the queue."""
        if self.overflow == "reject-publish" and len(self.ready) >= (self.length_max or 1e9):
            self.broker.write("drop", queue=self.name, reason="maxlen", message=message.number)
            return
        entry = Entry(message, next(self._positions), self.broker.now_s)
        place = len(self.ready)
        while self.has_priorities and place and self.ready[place - 1].priority < entry.priority:
            place -= 1
        self.ready.insert(place, entry)
        if self.ttl_s is not None:
            self.broker.at(self.broker.now_s + self.ttl_s, self._expire)
        self.serve()
        while self.length_max is not None and len(self.ready) > self.length_max:
            message = self.ready.popleft().message
            self.broker.write("drop", queue=self.name, reason="maxlen", message=message.number)
            self.broker.dead_letter(self, message, "maxlen")

    def serve(self):
        """Deliver to the consumers in turn, up to their prefetch limits."""
        while self.ready:
            for _ in range(len(self.consumers)):
                self.consumers.rotate(-1)
                if self.consumers[-1].has_room():
                    break
            else:
                return
            self.consumers[-1].take(self.ready.popleft())

    def take(self):
        """Return the first message for basic.get; None if there is none."""
        return self.ready.popleft() if self.ready else None

    def requeue(self, entries):
        """Messages go back to their places."""
        self.ready.extendleft(sorted(entries, key=lambda one: -one.position))
        self._expire()
        self.serve()

    def reject(self, entry):
        """A consumer rejects a message without requeueing it."""
        self.broker.dead_letter(self, entry.message, "rejected")

    def empty(self, reason="purge"):
        """Drop all ready messages: a purge, or queue_deleted."""
        if self.ready:
            self.broker.write("drop", queue=self.name, reason=reason, count=len(self.ready))
            self.ready.clear()

    def delete(self):
        """Delete the queue with its messages."""
        self.empty("queue_deleted")
        self.broker.queues.pop(self.name)

    def _expire(self):
        if self.ttl_s is None:
            return
        # Half a microsecond: times are sums of floats.
        until_s = self.broker.now_s - self.ttl_s + 5e-7
        while self.ready and self.ready[0].came_s <= until_s:
            message = self.ready.popleft().message
            self.broker.write("expire", queue=self.name, message=message.number)
            self.broker.dead_letter(self, message, "expired")
