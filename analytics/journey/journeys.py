"""Builds journeys from trace records: what happened to a message and its state in each queue. Pure.

A `Journey` belongs to one message number. A dead letter is a new message with a journey of its own,
linked from the first by `came_from`.

The records of a journey may come from several nodes of a cluster, whose clocks differ a little. So
a message enters its queues before anything else happens to it there, whatever the times say, and
its fate as recorded by the node of its queue outweighs a client's reject.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from leveret.broker.tracing import record

Record = dict[str, Any]


class MessageState(Enum):
    """The state of a message in a queue."""

    READY = "ready"
    UNACKED = "unacknowledged"
    CONSUMED = "delivered as no-ack"
    ACKNOWLEDGED = "acknowledged"
    REJECTED = "rejected"
    EXPIRED = "expired"
    DROPPED = "dropped"
    DEAD_LETTERED = "dead-lettered"

    @property
    def is_end(self) -> bool:
        """The message has left the queue."""
        return self not in {MessageState.READY, MessageState.UNACKED}


@dataclass
class QueueHistory:
    """A message in one queue. All times are microseconds since 1970, None if unknown.

    came_us: when it entered the queue. ready_us: when it last became ready. last: the last
    delivery.
    """

    queue: str
    came_us: int | None
    state: MessageState = MessageState.READY
    ready_us: int | None = None
    deliveries: int = 0
    last: Record | None = None
    changed_us: int = 0


@dataclass
class Journey:
    """All records of one message. publish: None if the publish is not in the log.

    node: where it was published, or else that of its first record. nodes: of all its records.
    """

    node: str
    vhost: str
    number: int
    publish: Record | None = None
    events: list[Record] = field(default_factory=list)
    histories: dict[str, QueueHistory] = field(default_factory=dict)
    came_from: Record | None = None

    @property
    def nodes(self) -> set[str]:
        """The names of the nodes that recorded its events."""
        return {str(event.get("node", "")) for event in self.events}

    @property
    def begins_us(self) -> int:
        """The time of its first event, in microseconds."""
        first = self.came_from or (self.events[0] if self.events else {})
        return time_us(first)

    @property
    def is_over(self) -> bool:
        """Whether the log has the journey's beginning, and no queue still holds the message."""
        has_begun = self.publish is not None or self.came_from is not None
        return has_begun and all(history.state.is_end for history in self.histories.values())

    @property
    def properties(self) -> Record:
        """The known properties of the message."""
        for event in self.events:
            if isinstance(found := event.get("properties"), dict):
                return found
        return {}


def journeys(records: Iterable[Record]) -> list[Journey]:
    """Build the journeys of records that are in order of time; the earliest journey comes first."""
    found: dict[tuple[str, int], Journey] = {}
    numbered = [event for event in records if isinstance(event.get("message"), int)]
    for event in numbered:
        if event.get("event") == record.PUBLISH:
            journey = _journey(found, event, event["message"])
            journey.publish = event
            _came(journey, event)
        letter = event.get("new_message")
        if isinstance(letter, int) and letter:
            journey = _journey(found, event, letter)
            journey.came_from = event
            _came(journey, event)
    for event in numbered:
        journey = _journey(found, event, event["message"])
        journey.events.append(event)
        _apply(journey, event)
    known = [journey for journey in found.values() if journey.events or journey.came_from]
    return sorted(known, key=lambda journey: (journey.begins_us, journey.number))


def _journey(found: dict[tuple[str, int], Journey], event: Record, number: int) -> Journey:
    vhost = str(event.get("vhost", ""))
    if (vhost, number) not in found:
        found[vhost, number] = Journey(str(event.get("node", "")), vhost, number)
    return found[vhost, number]


def names(event: Record, field_name: str) -> list[str]:
    """Return a list of names; empty if a damaged record has none."""
    value = event.get(field_name)
    return [str(name) for name in value] if isinstance(value, list) else []


def count(event: Record, field_name: str) -> int:
    """Return a number; 0 if a damaged record has none."""
    value = event.get(field_name)
    return value if isinstance(value, int) else 0


def time_us(event: Record) -> int:
    """Return the time of a record, in microseconds."""
    return count(event, "time_us")


def _came(journey: Journey, event: Record) -> None:
    """A publish or a dead letter's record names the queues that it entered."""
    moment = time_us(event)
    for queue in names(event, "queues"):
        journey.histories[queue] = QueueHistory(queue, moment, ready_us=moment, changed_us=moment)


def _apply(journey: Journey, event: Record) -> None:
    kind = event.get("event")
    name = event.get("queue")
    state = _state_after(event)
    if not isinstance(name, str) or state is None:
        return
    history = journey.histories.setdefault(name, QueueHistory(name, None))
    event["waited_us"] = _waited_us(history, event)
    if kind == record.DELIVER:
        history.deliveries += 1
        history.last = event
    elif state is MessageState.READY:
        history.ready_us = time_us(event)
    if state is not MessageState.REJECTED or history.state is not MessageState.DEAD_LETTERED:
        history.state = state
    history.changed_us = time_us(event)


def _waited_us(history: QueueHistory, event: Record) -> int | None:
    """Return how long the message waited: in the queue before a delivery, unacked before an ack."""
    since = history.ready_us
    if event.get("event") in {record.ACK, record.REJECT, record.REQUEUE}:
        since = None if history.last is None else time_us(history.last)
    return None if since is None else max(0, time_us(event) - since)


def _state_after(event: Record) -> MessageState | None:
    match event.get("event"):
        case record.DELIVER:
            return MessageState.CONSUMED if event.get("no_ack") else MessageState.UNACKED
        case record.REJECT:
            return MessageState.READY if event.get("requeue") else MessageState.REJECTED
        case kind:
            return _STATES.get(str(kind))


_STATES = {
    record.ACK: MessageState.ACKNOWLEDGED,
    record.REQUEUE: MessageState.READY,
    record.EXPIRE: MessageState.EXPIRED,
    record.DROP: MessageState.DROPPED,
    record.DEAD_LETTER: MessageState.DEAD_LETTERED,
}
