"""A message's way, out of its records: what happened, and how it ended in each queue. Pure.

A `Journey` is one message number. A dead letter is a message of its own, with a journey of its own,
to which the first one leads.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from broker.tracing import record

Record = dict[str, Any]


class State(Enum):
    """How a message stands in a queue."""

    READY = "waits"
    UNACKED = "delivered, and not acknowledged"
    CONSUMED = "delivered without asking for an acknowledgement"
    ACKNOWLEDGED = "acknowledged"
    REJECTED = "rejected"
    EXPIRED = "expired"
    DROPPED = "dropped"
    DEAD_LETTERED = "dead-lettered"

    @property
    def is_end(self) -> bool:
        """The message is out of the queue."""
        return self not in {State.READY, State.UNACKED}


@dataclass
class Passage:
    """A message in one queue. All times are microseconds since 1970, and None if not known.

    came_us: into the queue. ready_us: when it last began to wait. last: the last delivery.
    """

    queue: str
    came_us: int | None
    state: State = State.READY
    ready_us: int | None = None
    deliveries: int = 0
    last: Record | None = None
    changed_us: int = 0


@dataclass
class Journey:
    """All that is known of one message. publish: None if it is not in the log."""

    node: str
    vhost: str
    number: int
    publish: Record | None = None
    events: list[Record] = field(default_factory=list)
    passages: dict[str, Passage] = field(default_factory=dict)
    came_from: Record | None = None

    @property
    def begins_us(self) -> int:
        """Its first event."""
        first = self.came_from or (self.events[0] if self.events else {})
        return time_us(first)

    @property
    def is_over(self) -> bool:
        """It began in the log, and is in no queue any more."""
        has_begun = self.publish is not None or self.came_from is not None
        return has_begun and all(passage.state.is_end for passage in self.passages.values())

    @property
    def properties(self) -> Record:
        """The message's properties, as far as known."""
        for event in self.events:
            if isinstance(found := event.get("properties"), dict):
                return found
        return {}


def journeys(records: Iterable[Record]) -> list[Journey]:
    """The journeys that records (in order of time) tell of, the earliest first."""
    found: dict[tuple[str, int], Journey] = {}
    for event in records:
        number = event.get("message")
        if not isinstance(number, int):
            continue
        journey = _journey(found, event, number)
        journey.events.append(event)
        _apply(journey, event)
        letter = event.get("new_message")
        if isinstance(letter, int) and letter:
            began = _journey(found, event, letter)
            began.came_from = event
            for queue in names(event, "queues"):
                _came(began, queue, event)
    known = [journey for journey in found.values() if journey.events or journey.came_from]
    return sorted(known, key=lambda journey: (journey.begins_us, journey.number))


def _journey(found: dict[tuple[str, int], Journey], event: Record, number: int) -> Journey:
    node = str(event.get("node", ""))
    if (node, number) not in found:
        found[node, number] = Journey(node, str(event.get("vhost", "")), number)
    return found[node, number]


def names(event: Record, field_name: str) -> list[str]:
    """A list of names, which a damaged record may not have."""
    value = event.get(field_name)
    return [str(name) for name in value] if isinstance(value, list) else []


def count(event: Record, field_name: str) -> int:
    """A number, which a damaged record may not have."""
    value = event.get(field_name)
    return value if isinstance(value, int) else 0


def time_us(event: Record) -> int:
    """When it happened."""
    return count(event, "time_us")


def _came(journey: Journey, queue: str, event: Record) -> None:
    moment = time_us(event)
    journey.passages[queue] = Passage(queue, moment, ready_us=moment, changed_us=moment)


def _apply(journey: Journey, event: Record) -> None:
    kind = event.get("event")
    if kind == record.PUBLISH:
        journey.publish = event
        for queue in names(event, "queues"):
            _came(journey, queue, event)
        return
    name = event.get("queue")
    state = _state_after(event)
    if not isinstance(name, str) or state is None:
        return
    passage = journey.passages.setdefault(name, Passage(name, None))
    event["waited_us"] = _waited_us(passage, event)
    if kind == record.DELIVER:
        passage.deliveries += 1
        passage.last = event
    elif state is State.READY:
        passage.ready_us = time_us(event)
    passage.state, passage.changed_us = state, time_us(event)


def _waited_us(passage: Passage, event: Record) -> int | None:
    """How long it waited for this: in the queue for a delivery, with the consumer for an ack."""
    since = passage.ready_us
    if event.get("event") in {record.ACK, record.REJECT, record.REQUEUE}:
        since = None if passage.last is None else time_us(passage.last)
    return None if since is None else time_us(event) - since


def _state_after(event: Record) -> State | None:
    match event.get("event"):
        case record.DELIVER:
            return State.CONSUMED if event.get("no_ack") else State.UNACKED
        case record.REJECT:
            return State.READY if event.get("requeue") else State.REJECTED
        case kind:
            return _STATES.get(str(kind))


_STATES = {
    record.ACK: State.ACKNOWLEDGED,
    record.REQUEUE: State.READY,
    record.EXPIRE: State.EXPIRED,
    record.DROP: State.DROPPED,
    record.DEAD_LETTER: State.DEAD_LETTERED,
}
