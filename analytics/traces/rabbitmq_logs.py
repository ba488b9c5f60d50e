"""Reads the logs of RabbitMQ's tracing plugin: text, or one JSON object a line.

Their messages have no numbers. A message with a message-id gets a number made from it, which links
its publish and deliveries; messages without one are counted as traffic only. The logs have no
acknowledgements, so all deliveries are taken as no-ack.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from leveret.analytics.traces.schema import LogUnit
from leveret.analytics.traces.trace_files import microseconds_of
from leveret.broker.erlang.parser import parse_term
from leveret.broker.tracing import record

Numbered = tuple[int, bytes]

_BAR = b"=" * 80
_FIELD = re.compile(r"^(Node|Connection|Virtual host|User|Channel|Exchange|Queue|Routing keys"
                    r"|Routed queues|Properties): +(.*)$")  # fmt: skip
_TITLE = re.compile(r"^(\d{4}-\S+(?: \S+)?): Message (published|received)$")
_GAP = re.compile(r"^(\d{4}-\S+): (\d+) messages lost until (\S+)$")
"""The line that Leveret writes into such logs for messages that it could not write."""
_OLD_TIME = re.compile(r"^(\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+)[:.](\d+)$")
"""The time format of old versions; RabbitMQ 3.10 writes ISO 8601."""
_NAMES = {
    "Node": "node", "Connection": "connection", "Virtual host": "vhost", "User": "user",
    "Channel": "channel", "Exchange": "exchange", "Queue": "queue", "Routing keys": "routing_keys",
    "Routed queues": "routed_queues",
}  # fmt: skip


class LogFormatError(ValueError):
    """The text is not in RabbitMQ's format."""


def records_of_json(lines: Iterator[Numbered]) -> Iterator[LogUnit]:
    """Convert JSON lines to entries with the fields of leveret.broker.tracing.record."""
    for number, line in lines:
        try:
            yield LogUnit(number, _record(json.loads(line.decode("utf-8", "replace"))), "", line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = f"is not a line of RabbitMQ's trace logs: {error}"
            yield LogUnit(number, None, reason, line)


def records_of_text(lines: Iterator[Numbered]) -> Iterator[LogUnit]:
    """Convert text logs to such entries: each record begins with a bar and a title below it."""
    for number, block in _blocks(lines):
        try:
            yield LogUnit(number, _record(_fields(block)), "", b"")
        except (ValueError, KeyError, TypeError) as error:
            reason = f"is not an entry of RabbitMQ's trace logs: {error}"
            yield LogUnit(number, None, reason, b"\n".join(block))


def _blocks(lines: Iterator[Numbered]) -> Iterator[tuple[int, list[bytes]]]:
    """Return the lines below each bar, with the line number of the bar."""
    start, block = 1, list[bytes]()
    for number, line in lines:
        # A body can contain a bar, too.
        if block and block[-1] == _BAR and _is_title(line):
            before = block[:-2] if block[-2:-1] == [b""] else block[:-1]
            if any(before):
                yield start, before
            start, block = number - 1, []
        block.append(line)
    if any(block):
        yield start, block


def _is_title(line: bytes) -> bool:
    text = line.decode("utf-8", "replace")
    return _TITLE.match(text) is not None or _GAP.match(text) is not None


def _fields(block: list[bytes]) -> dict[str, Any]:
    first = block[0].decode("utf-8", "replace")
    if gap := _GAP.match(first):
        return {"type": "gap", "timestamp": gap[1], "lost": int(gap[2]), "until": gap[3]}
    title = _TITLE.match(first)
    if title is None:
        raise LogFormatError("it has no title line with the time")
    found: dict[str, str] = {}
    name, start = "", len(block)
    for index, content in enumerate(block):
        line = content.decode("utf-8", "replace")
        if line.rstrip() == "Payload:":
            start = index + 1
            break
        field = _FIELD.match(line)
        if field is not None:
            name = field[1]
            found[name] = field[2]
        elif name:
            found[name] += line.strip()
    payload = b"\n".join(block[start:])
    entry = {_NAMES[name]: value for name, value in found.items() if name in _NAMES}
    return {
        **entry,
        "timestamp": title[1],
        "type": title[2],
        "channel": int(entry["channel"]),
        "routing_keys": _list(entry["routing_keys"]),
        "routed_queues": _list(entry.get("routed_queues", "[]")),
        "properties": _properties(found["Properties"]),
        "payload": base64.b64encode(payload).decode(),
    }


def _list(text: str) -> list[Any]:
    """Parse a text that is a list. Raises TermError, LogFormatError."""
    found = parse_term(text)
    if not isinstance(found, list):
        raise LogFormatError(f"{text!r} is not a list")
    return found


def _properties(text: str) -> dict[str, str]:
    """Return the properties that are strings; headers are not."""
    triples = [one for one in _list(text) if isinstance(one, tuple) and len(one) == 3]
    return {name: value for name, kind, value in triples if kind == "longstr"}


def _record(entry: dict[str, Any]) -> dict[str, Any]:
    """Convert an entry to a record in the broker's own format."""
    if entry["type"] == "gap":
        return _gap(entry)
    if entry["type"] not in ("published", "received"):
        raise LogFormatError(f"the type {entry['type']!r} is unknown")
    is_publish = entry["type"] == "published"
    properties = entry["properties"] if isinstance(entry["properties"], dict) else {}
    found = {
        "event": record.PUBLISH if is_publish else record.DELIVER,
        "time_us": _time_us(entry["timestamp"]),
        **{name: entry[name] for name in ("node", "vhost", "connection", "channel", "user")},
        "message": _number(entry["vhost"], properties.get("message_id")),
        "exchange": entry["exchange"],
        "routing_keys": entry["routing_keys"],
        "body_size": len(base64.b64decode(entry["payload"])),
        "properties": properties,
    }
    if is_publish:
        found["queues"] = entry["routed_queues"]
    else:
        found |= {"queue": entry["queue"], "consumer_tag": None, "delivery_tag": 0}
        found |= {"redelivered": False, "no_ack": True}
    return found


def _gap(entry: dict[str, Any]) -> dict[str, Any]:
    """Convert a gap. The log does not say for which virtual host and node."""
    return {
        "event": record.GAP, "time_us": _time_us(entry["timestamp"]), "node": "", "vhost": "",
        "until_us": _time_us(entry["until"]), "lost": entry["lost"],
    }  # fmt: skip


def _number(vhost: str, message_id: Any) -> int:
    if not message_id:
        return 0
    digest = hashlib.blake2b(f"{vhost}\0{message_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1 or 1


def _time_us(text: str) -> int:
    found = _OLD_TIME.match(text)
    if found is None:
        return microseconds_of(datetime.fromisoformat(text))
    year, month, day, hour, minute, second, fraction = found.groups()
    return microseconds_of(
        datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second),
            int(fraction.ljust(6, "0")[:6]),
        )
    )  # fmt: skip
