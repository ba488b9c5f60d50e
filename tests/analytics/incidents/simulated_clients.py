"""Publishers and consumers of a simulated broker.

A publisher publishes at a rate that may change, and in bursts. A consumer works on one message
after the other (or several at a time), for a time that may vary, and then acknowledges, rejects,
requeues, keeps the message, or crashes. While it stalls, its work stands still.
"""

import itertools
from dataclasses import dataclass, field
from typing import Any

ACK, REJECT, REQUEUE, KEEP, CRASH = "ack", "reject", "requeue", "keep", "crash"


def number_of(value, broker, time_s):
    """Return a value, or the result of a function of the random numbers and the time."""
    return value(broker.random, time_s) if callable(value) else value


@dataclass
class Publisher:
    """Publishes until `until_s`.

    rate: messages per second, or pairs of the time from which a rate holds and the rate. bursts:
    triples of a time, a number of messages and the seconds they take. key: a key, or a function of
    the random numbers and the time, as are `mandatory`, `message_id`, `size` and each of the
    `properties`. opens: the connection is
    opened in the trace.
    """

    broker: Any
    user: str
    exchange: str
    key: Any
    rate: Any = 0.0
    from_s: float = 0.0
    until_s: float = 1e9
    bursts: tuple = ()
    even: bool = False
    size: Any = 200
    properties: dict = field(default_factory=dict)
    mandatory: Any = False
    message_id: Any = None
    opens: bool = False
    host: str = "10.0.0.5"

    def start(self):
        self.who = self.broker.connection(self.user, self.host)
        self._rates = [(self.from_s, self.rate)] if not isinstance(self.rate, list) else self.rate
        if self.opens:
            about = {**self.who, "channel": 0}
            self.broker.at(self.from_s, lambda: self.broker.write("open", **about))
        for at_s, count, over_s in self.bursts:
            for number in range(count):
                self.broker.at(at_s + number * over_s / count, self.publish)
        self._plan(self.from_s)
        return self

    def publish(self):
        """Publish one message."""
        broker, now_s = self.broker, self.broker.now_s
        identity = number_of(self.message_id, broker, now_s)
        properties = {"delivery_mode": 2} | ({"message_id": identity} if identity else {})
        for name, value in self.properties.items():
            properties[name] = number_of(value, broker, now_s)
        broker.publish(
            self.who, self.exchange, number_of(self.key, broker, now_s),
            number_of(self.size, broker, now_s), properties,
            number_of(self.mandatory, broker, now_s),
        )  # fmt: skip

    def _plan(self, time_s):
        """Plan the next message after a time."""
        while time_s < self.until_s:
            rate, until_s = self._rate_at(time_s)
            if rate > 0:
                gap_s = 1 / rate if self.even else self.broker.random.expovariate(rate)
                if time_s + gap_s <= until_s:
                    break
            time_s = until_s
        else:
            return
        if time_s + gap_s < self.until_s:
            self.broker.at(time_s + gap_s, self._publish_and_plan)

    def _publish_and_plan(self):
        self.publish()
        self._plan(self.broker.now_s)

    def _rate_at(self, time_s):
        """Return the rate at a time, and until when it holds."""
        changes = [*self._rates, (1e9, 0.0)]
        for (from_s, rate), (until_s, _) in itertools.pairwise(changes):
            if from_s <= time_s < until_s:
                return rate, until_s
        return 0.0, changes[0][0] if time_s < changes[0][0] else 1e9


@dataclass
class Consumer:
    """Consumes a queue from `from_s` on.

    takes_s: seconds for a message, or a function of the random numbers and the time. prefetch: 0
    for no limit. workers: messages it works on at a time. ends: what it does with a message; may
    be a function of the entry and the time. stalls: pairs of times between which it does nothing.
    dies_s: its connection is closed. cancels_s: it gets no more messages, and its connection stays.
    back_after_s: seconds after which it connects again when it has died. acks_every: it
    acknowledges this number at a time.
    """

    broker: Any
    queue: Any
    takes_s: Any = 0.005
    prefetch: int = 20
    workers: int = 1
    ends: Any = ACK
    no_ack: bool = False
    from_s: float = 0.0
    stalls: tuple = ()
    dies_s: float | None = None
    cancels_s: float | None = None
    back_after_s: float | None = None
    acks_every: int = 1
    round_trip_s: float = 0.0
    user: str = "worker"
    tag: str = ""
    host: str = "10.0.0.8"
    opens: bool = False
    held: dict = field(default_factory=dict)

    def start(self):
        self.tag = self.tag or f"ctag-{next(self.broker.tags)}"
        self.broker.at(self.from_s, self._connect, self.opens or self.from_s > 0)
        if self.dies_s is not None:
            self.broker.at(self.dies_s, self.die)
        if self.cancels_s is not None:
            self.broker.at(self.cancels_s, self.cancel)
        return self

    def _connect(self, is_seen):
        self.who = self.broker.connection(self.user, self.host)
        self.session = object()
        self.held, self.inbox, self.working, self.settled = {}, [], 0, []
        self._delivery_tags = itertools.count(1)
        self._prepare(is_seen)
        self.queue.consumers.append(self)
        self.queue.serve()

    def _prepare(self, is_seen):
        if is_seen:
            self.broker.write("open", **{**self.who, "channel": 0})

    def has_room(self):
        """Tell whether its prefetch limit allows another message."""
        return self.no_ack or not self.prefetch or len(self.held) < self.prefetch

    def take(self, entry):
        """A message is delivered to it."""
        message, tag = entry.message, next(self._delivery_tags)
        self.broker.write(
            "deliver", **self.who, message=message.number, queue=self.queue.name,
            exchange=message.exchange, routing_keys=[message.key], consumer_tag=self.tag,
            delivery_tag=tag, redelivered=entry.deliveries > 0, no_ack=self.no_ack,
            body_size=message.size, properties=message.properties,
        )  # fmt: skip
        entry.deliveries += 1
        if not self.no_ack:
            self.held[tag] = entry
            self._later(self.round_trip_s / 2, self._receive, tag)

    def _later(self, delay_s, action, *arguments):
        if delay_s:
            self.broker.at(self.broker.now_s + delay_s, self._if_still_open, self.session, action,
                           arguments)  # fmt: skip
        else:
            action(*arguments)

    def _if_still_open(self, session, action, arguments):
        if session is self.session:
            action(*arguments)

    def _receive(self, tag):
        self.inbox.append(tag)
        self._work()

    def _work(self):
        while self.inbox and self.working < self.workers:
            self.working += 1
            tag = self.inbox.pop(0)
            took_s = max(number_of(self.takes_s, self.broker, self.broker.now_s), 1e-6)
            self._later(self._with_stalls(took_s), self._finish, tag)

    def _with_stalls(self, took_s):
        """Return how long work takes if it stands still during stalls."""
        begins_s = self.broker.now_s
        for from_s, until_s in self.stalls:
            if begins_s < until_s and begins_s + took_s > from_s:
                took_s += until_s - max(begins_s, from_s)
        return took_s

    def _finish(self, tag):
        self.working -= 1
        entry, ends = self.held[tag], self.ends
        end = ends(entry, self.broker.now_s) if callable(ends) else ends
        if end == CRASH:
            self.die()
            return
        if end != KEEP:
            self._later(self.round_trip_s / 2, self._settle, tag, end)
        self._work()

    def _settle(self, tag, end):
        if end == ACK:
            self.settled.append(tag)
            if len(self.settled) < self.acks_every:
                return
            for one in self.settled:
                entry = self.held.pop(one)
                self._about("ack", entry, one)
            self.settled = []
        else:
            entry = self.held.pop(tag)
            self._about("reject", entry, tag, requeue=end == REQUEUE)
            self.queue.requeue([entry]) if end == REQUEUE else self.queue.reject(entry)
        self.queue.serve()

    def _about(self, event, entry, tag, **more):
        self.broker.write(event, **self.who, message=entry.message.number, queue=self.queue.name,
                          delivery_tag=tag, **more)  # fmt: skip

    def cancel(self):
        """Get no more messages."""
        if self in self.queue.consumers:
            self.queue.consumers.remove(self)

    def die(self):
        """The connection is closed, and what it holds is requeued."""
        self.cancel()
        self.session = None
        entries = list(self.held.values())
        for entry in entries:
            self.broker.write("requeue", message=entry.message.number, queue=self.queue.name)
        self.broker.write("close", **{**self.who, "channel": 0})
        self.held = {}
        self.queue.requeue(entries)
        if self.back_after_s is not None:
            self.broker.at(self.broker.now_s + self.back_after_s, self._connect, True)


@dataclass
class Getter:
    """Empties a queue with basic.get at certain times, one message each `takes_s`."""

    broker: Any
    queue: Any
    times_s: tuple
    takes_s: float = 0.01
    user: str = "collector"

    def start(self):
        self.who = self.broker.connection(self.user, "10.0.0.9")
        self._tags = itertools.count(1)
        for time_s in self.times_s:
            self.broker.at(time_s, self._get)
        return self

    def _get(self):
        entry = self.queue.take()
        if entry is None:
            return
        message, tag = entry.message, next(self._tags)
        about = {**self.who, "message": message.number, "queue": self.queue.name}
        self.broker.write(
            "deliver", **about, exchange=message.exchange, routing_keys=[message.key],
            consumer_tag=None, delivery_tag=tag, redelivered=entry.deliveries > 0, no_ack=False,
            body_size=message.size, properties=message.properties,
        )  # fmt: skip
        entry.deliveries += 1
        self.broker.at(self.broker.now_s + self.takes_s, self._ack_and_get, about, tag)

    def _ack_and_get(self, about, tag):
        self.broker.write("ack", **about, delivery_tag=tag)
        self._get()
