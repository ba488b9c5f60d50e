"""What records are, for the tables: their columns, and what makes one unsound.

The fields are those of broker.tracing.record. Fields that are not known are left out. A record is
set aside, with the reason, if it is no JSON object, has a field of another type, lacks a field that
its event cannot do without, or is of an event that is not known.
"""

from typing import Any, NamedTuple

from broker.tracing import record

Record = dict[str, Any]


class Entry(NamedTuple):
    """A line, or what else is one record of a log. wrong: why `found` is of no use; or empty."""

    line: int
    found: object
    wrong: str
    text: bytes


_UNSEEN = ("body", "delivery_tag", "reply_code", "reply_text", "sample")
FIELDS: dict[str, str] = {
    field.name: field.type for field in record.FIELDS if field.name not in _UNSEEN
}
"""The fields that are looked at, and their types: tables need no others."""

IDS = ("message_id", "correlation_id")
"""Of the properties only those that identify are of use. They are taken from publishes."""

_KEPT = (
    "event", "time_us", "node", "vhost", "connection", "channel", "user", "message", "new_message",
    "exchange", "routing_keys", "queues", "queue", "consumer_tag", "redelivered", "no_ack",
    "requeue", "reason", "body_size", "count", "until_us", "lost",
)  # fmt: skip

COLUMNS: dict[str, str] = {
    **{name: FIELDS[name] for name in _KEPT},
    **dict.fromkeys(IDS, record.STRING),
    "weight": record.LONG,
    "wrong": record.STRING,
    "text": record.STRING,
    "file": record.STRING,
    "line": record.LONG,
}
"""The columns of records, as the job has them, and their types.

weight: how many messages a record stands for. wrong: what is wrong with it, null if it is sound;
only then there are text, file and line, too.
"""

_SQL_TYPES = {
    record.STRING: "string", record.LONG: "bigint", record.BOOLEAN: "boolean",
    record.STRINGS: "array<string>",
}  # fmt: skip
SQL_COLUMNS = ", ".join(f"`{name}` {_SQL_TYPES[kind]}" for name, kind in COLUMNS.items())

TEXT_MAX = 1_000
"""Characters of a bad line that are kept."""

_DISPENSABLE = {"consumer_tag", "properties", "user", "connection", "channel"}
"""Fields that the tables can do without, of records that are sound otherwise."""


def _events_that_need(name: str) -> frozenset[str]:
    return frozenset(event for event, fields in record.EVENTS.items() if name in fields)


NEEDED: dict[str, frozenset[str]] = {
    name: _events_that_need(name)
    for name in FIELDS
    if name not in _DISPENSABLE and _events_that_need(name)
}
"""Which events cannot do without a field."""


def what_is_wrong(found: object) -> str:
    """Why a record is of no use; empty if it is sound."""
    if not isinstance(found, dict):
        return "is not one JSON object"
    for name, kind in FIELDS.items():
        value = found.get(name)
        if value is not None and not _is_of_type(value, kind):
            return f"has a field {name} that is not of the type {kind}"
    event = found.get("event")
    if event is None:
        return "has no event"
    if event not in record.EVENTS:
        return f"the event {event} is not known"
    if (found.get("version") or 0) > record.VERSION:
        return "is of a version that is not known"
    missing = [name for name in FIELDS if event in NEEDED.get(name, ()) and found.get(name) is None]
    return f"has no {missing[0]}" if missing else ""


def _is_of_type(value: object, kind: str) -> bool:
    if kind == record.STRING:
        return _is_text(value)
    if kind == record.LONG:
        return type(value) is int and -(1 << 63) <= value < 1 << 63
    if kind == record.BOOLEAN:
        return isinstance(value, bool)
    if kind == record.STRINGS:
        return isinstance(value, list) and all(map(_is_text, value))
    return isinstance(value, dict) and all(_is_text(value.get(name) or "") for name in IDS)


def _is_text(value: object) -> bool:
    """It is a string that can be written: JSON knows halves of characters, too."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False
