"""The form of an incident of the independent set, and of the cause that a report must name.

The set is written by an author who has not read how findings are made, so a cause does not depend
on one kind of finding: it lists all kinds that an operator would accept, and the names that lead
the operator to the culprit. Wording is not judged.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

from tests.analytics.incidents.incident import BACKLOG, SYMPTOMS, WAITS, Day
from tests.analytics.incidents.simulated_broker import Broker
from tests.analytics.incidents.simulated_clients import ACK, Consumer

HOUR, DAY = 3600, 86_400
LAG = (BACKLOG, WAITS)
"""Messages wait: kinds of finding that are right where no consumer is at fault."""


@dataclass(frozen=True)
class Cause:
    """What a report must say.

    kinds: the kinds of finding that are right; empty if any is. about: names, one of which the
    finding must be about. named: what its text must contain; alternatives are a tuple. since_s:
    seconds from the beginning of the trace, which the finding must know within `within_s`.
    """

    kinds: tuple[str, ...]
    about: tuple[str, ...]
    named: tuple[str | tuple[str, ...], ...] = ()
    since_s: float | None = None
    within_s: float = 60


@dataclass(frozen=True)
class Scene:
    """An incident, or a healthy day if it has no causes.

    also: pairs of kinds and a name, which are true as well, and worth saying.
    """

    name: str
    story: str
    script: Callable[[Day], None]
    length_s: float
    begins_s: float
    causes: tuple[Cause, ...]
    also: tuple[tuple[tuple[str, ...], str], ...]

    def records(self):
        """Return the records of its trace, of a virtual host with its name."""
        broker = Broker(zlib.crc32(self.name.encode()), self.length_s, self.begins_s, self.name)
        self.script(Day(broker))
        return broker.run()


SCENES: dict[str, Scene] = {}


def incident(length_s, *causes, also=(), begins_s=8 * HOUR):
    """Register a script as an incident with the name and docstring of its function.

    That messages wait in a queue of a cause may be said as well.
    """

    def registered(script):
        lag = [(SYMPTOMS, name) for cause in causes for name in cause.about]
        SCENES[script.__name__] = Scene(
            script.__name__, script.__doc__, script, length_s, begins_s, causes, (*lag, *also)
        )
        return script

    return registered


def healthy_day(length_s, also=(), begins_s=8 * HOUR):
    """Register a script of a day on which all is as the operators want it."""
    return incident(length_s, also=also, begins_s=begins_s)


class MessageConsumer(Consumer):
    """A consumer whose work depends on the message: takes_s is a function of it."""

    def _work(self):
        while self.inbox and self.working < self.workers:
            self.working += 1
            tag = self.inbox.pop(0)
            took_s = self.takes_s(self.held[tag].message)
            self._later(self._with_stalls(took_s), self._finish, tag)


def message_consumer(day, queue, takes_s, **options):
    """Start a consumer whose work depends on the message."""
    return MessageConsumer(day.broker, day.broker.queues[queue], takes_s, **options).start()


def numbered(prefix):
    """Return a function that makes one message id after the other."""
    count = 0

    def identity(_random, _now_s):
        nonlocal count
        count += 1
        return f"{prefix}{count}"

    return identity


def the_first_after(at_s, end):
    """Return what happens to the first message that is done after a time, and to others."""
    first = set()

    def ends(entry, now_s):
        if now_s > at_s and not first:
            first.add(entry.message.number)
        return end if entry.message.number in first else ACK

    return ends


def absent(day, consumer, from_s, until_s):
    """A consumer is cancelled, and consumes again on its channel after a time."""

    def consume_again():
        consumer.queue.consumers.append(consumer)
        consumer.queue.serve()

    day.at(from_s, consumer.cancel)
    day.at(until_s, consume_again)


def calls_with_reply_queues(day, queue, times_s, waits_s):
    """Each request has a reply queue of its own, which its client deletes when it gives up."""

    def begin(number):
        name = f"amq.gen-{number:04}"
        reply_queue = day.queue(name)
        day.consumer(reply_queue, takes_s=0.001, user="web", tag=f"web-{number}")
        day.broker.publish(web, "", queue, 300, {"reply_to": name, "correlation_id": str(number)})
        day.at(day.broker.now_s + waits_s, reply_queue.delete)

    web = day.broker.connection("web", "10.0.0.6")
    for number, at_s in enumerate(times_s):
        day.at(at_s, lambda number=number: begin(number))
