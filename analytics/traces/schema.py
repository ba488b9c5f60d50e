"""The columns of records, and the checks that make a record valid.

The fields are those of leveret.broker.tracing.record; unknown fields are ignored. A record is
rejected, with a reason, if it is not a JSON object, a field has the wrong type or a number that
cannot be, a field that its event requires is missing, or its event is unknown.
"""

from typing import Any, NamedTuple

from leveret.broker.tracing import record
from leveret.broker.tracing.record import SAMPLE_MAX

Record = dict[str, Any]


class LogUnit(NamedTuple):
    """A line, or another unit, of a log. wrong: why `found` is rejected; empty if it is valid."""

    line: int
    found: object
    wrong: str
    text: bytes


_UNSEEN = ("body", "delivery_tag", "reply_code", "reply_text", "sample", "publisher")
FIELDS: dict[str, str] = {
    field.name: field.type for field in record.FIELDS if field.name not in _UNSEEN
}
"""The fields that the tables use, and their types."""

KEPT_PROPERTIES: dict[str, str] = {
    "message_id": record.STRING, "correlation_id": record.STRING, "content_type": record.STRING,
    "app_id": record.STRING, "type": record.STRING, "reply_to": record.STRING,
    "priority": record.LONG,
}  # fmt: skip
"""The only message properties that are kept, and their types. They are taken from publishes."""
OF_DELIVERIES = ("priority",)
"""Those of them that are taken from deliveries, too."""

KEPT = (
    "event", "time_us", "node", "vhost", "connection", "channel", "user", "message", "new_message",
    "exchange", "routing_keys", "queues", "queue", "consumer_tag", "redelivered", "no_ack",
    "requeue", "reason", "body_size", "count", "until_us", "lost", "streams", "offset", "messages",
    "published_us", "lag", "filtered", "first_offset", "max_age_us", "max_bytes", "segment_bytes",
)  # fmt: skip
"""The fields that are kept of records."""

REPEATED = (
    "event", "node", "vhost", "connection", "user", "exchange", "queue", "consumer_tag", "reason",
    "content_type", "app_id", "type", "reply_to",
)  # fmt: skip
"""Those of them that have few different texts in many records."""

COLUMNS: dict[str, str] = {
    **{name: FIELDS[name] for name in KEPT},
    **KEPT_PROPERTIES,
    "weight": record.LONG,
    "format": record.STRING,
    "wrong": record.STRING,
    "text": record.STRING,
    "file": record.STRING,
    "line": record.LONG,
}
"""The columns of staged records, and their types.

weight: the number of messages that a record stands for. format: text or json, of logs of the
tracing plugin; null for logs of the broker. wrong: why the record was rejected, null if it is
valid; only rejected records have text, file and line, and as `lost` the bytes that were skipped.
"""

_SQL_TYPES = {
    record.STRING: "string", record.LONG: "bigint", record.BOOLEAN: "boolean",
    record.STRINGS: "array<string>",
}  # fmt: skip
SQL_COLUMNS = ", ".join(f"`{name}` {_SQL_TYPES[kind]}" for name, kind in COLUMNS.items())

TEXT_MAX = 1_000
"""Characters that are kept of a rejected line."""

_TIMES = range(253_402_300_800_000_000)
"""Microseconds from the year 1970 to 9999, which are those of which engines make dates."""
_MANY = range(1 << 40)
_OFFSETS = range(1 << 61)
RANGES: dict[str, range] = {
    "time_us": _TIMES, "until_us": _TIMES, "channel": range(1 << 16), "message": range(1 << 63),
    "new_message": range(1 << 63), "body_size": range(1 << 32), "count": _MANY,
    "messages": _MANY, "lost": _MANY,
    "published_us": _TIMES, "offset": _OFFSETS, "first_offset": _OFFSETS, "lag": _OFFSETS,
    "max_age_us": _OFFSETS, "max_bytes": _OFFSETS, "segment_bytes": _OFFSETS,
}  # fmt: skip
"""The numbers that a field can have: more would overflow the sums of tables, which ends a job."""
PRIORITIES = range(256)
"""The values that the property has on the wire."""
SAMPLES = range(1, SAMPLE_MAX + 1)
"""The messages that one in a log can stand for, as its header says."""

_DISPENSABLE = {
    "consumer_tag", "properties", "user", "connection", "channel", "max_age_us", "max_bytes",
}  # fmt: skip
"""Fields that the tables can do without: a record is valid without them."""


def _events_that_need(name: str) -> frozenset[str]:
    return frozenset(event for event, fields in record.EVENTS.items() if name in fields)


NEEDED: dict[str, frozenset[str]] = {
    name: _events_that_need(name)
    for name in FIELDS
    if name not in _DISPENSABLE and _events_that_need(name)
}
"""For each field, the events that require it."""


def what_is_wrong(found: object) -> str:
    """Return why a record is rejected; empty if it is valid."""
    if not isinstance(found, dict):
        return "is not one JSON object"
    for name, kind in FIELDS.items():
        value = found.get(name)
        if value is None:
            continue
        if not _is_of_type(value, kind):
            return f"has a field {name} that is not of the type {kind}"
        if name in RANGES and value not in RANGES[name]:
            return f"has a field {name} that is not {in_words(RANGES[name])}"
    event = found.get("event")
    if event is None:
        return "has no event"
    if event not in record.EVENTS:
        return f"the event {event} is unknown"
    if (found.get("version") or 0) > record.VERSION:
        return "is of an unknown version"
    missing = [name for name in FIELDS if event in NEEDED.get(name, ()) and found.get(name) is None]
    return f"has no {missing[0]}" if missing else ""


def in_words(numbers: range) -> str:
    """Return which numbers are allowed."""
    return f"from {numbers.start} to {numbers.stop - 1}"


def _is_of_type(value: object, kind: str) -> bool:
    if kind == record.STRING:
        return _is_text(value)
    if kind == record.LONG:
        return type(value) is int and -(1 << 63) <= value < 1 << 63
    if kind == record.BOOLEAN:
        return isinstance(value, bool)
    if kind == record.STRINGS:
        return isinstance(value, list) and all(map(_is_text, value))
    return isinstance(value, dict) and all(
        _is_text(value.get(name) or "") if kind == record.STRING
        else type(value.get(name) or 0) is int and (value.get(name) or 0) in PRIORITIES
        for name, kind in KEPT_PROPERTIES.items()
    )  # fmt: skip


def _is_text(value: object) -> bool:
    """Tell whether a value is a string that UTF-8 can encode: JSON allows lone surrogates."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False
