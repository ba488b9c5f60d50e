"""RabbitMQ's own trace logs, as its tracing plugin writes them: text, or a JSON object a line.

Their messages have no numbers. Those that have a message-id get one made from it, so that publish
and deliveries are tied together; the others are in the traffic and in no more. The logs say nothing
of acknowledgements, so all deliveries are taken as needing none.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from analytics.erlang_terms import terms_of
from analytics.schema import Entry
from broker.tracing import record

Numbered = tuple[int, bytes]

_BAR = b"=" * 80
_FIELD = re.compile(r"^(Node|Connection|Virtual host|User|Channel|Exchange|Queue|Routing keys"
                    r"|Routed queues|Properties): +(.*)$")  # fmt: skip
_TITLE = re.compile(r"^(\d{4}-\S+(?: \S+)?): Message (published|received)$")
_GAP = re.compile(r"^(\d{4}-\S+): (\d+) messages lost until (\S+)$")
"""What Leveret writes into such logs in the place of messages that it could not write."""
_OLD_TIME = re.compile(r"^(\d+)-(\d+)-(\d+) (\d+):(\d+):(\d+)[:.](\d+)$")
"""As old versions wrote times; 3.10 does as ISO 8601 says."""
_NAMES = {
    "Node": "node", "Connection": "connection", "Virtual host": "vhost", "User": "user",
    "Channel": "channel", "Exchange": "exchange", "Queue": "queue", "Routing keys": "routing_keys",
    "Routed queues": "routed_queues",
}  # fmt: skip


class ForeignError(ValueError):
    """It is not what RabbitMQ writes."""


def records_of_json(lines: Iterator[Numbered]) -> Iterator[Entry]:
    """Records, in the fields of broker.tracing.record."""
    for number, line in lines:
        try:
            yield Entry(number, _record(json.loads(line.decode("utf-8", "replace"))), "", line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = f"is not a line of RabbitMQ's trace logs: {error}"
            yield Entry(number, None, reason, line)


def records_of_text(lines: Iterator[Numbered]) -> Iterator[Entry]:
    """The same of text logs: a record begins with a bar, and a title below it."""
    for number, block in _blocks(lines):
        try:
            yield Entry(number, _record(_fields(block)), "", b"")
        except (ValueError, KeyError, TypeError) as error:
            reason = f"is not an entry of RabbitMQ's trace logs: {error}"
            yield Entry(number, None, reason, b"\n".join(block))


def _blocks(lines: Iterator[Numbered]) -> Iterator[tuple[int, list[bytes]]]:
    """What is below each bar, and the number of the bar's line."""
    start, block = 1, list[bytes]()
    for number, line in lines:
        # A body, too, may have a bar in it.
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
        raise ForeignError("it has no title with the time")
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
    """The one list that a text is."""
    found = terms_of(text)
    if len(found) != 1 or not isinstance(found[0], list):
        raise ForeignError(f"{text!r} is no list")
    return found[0]


def _properties(text: str) -> dict[str, str]:
    """Those that are text; what is in headers is none of them."""
    triples = [one for one in _list(text) if isinstance(one, list) and len(one) == 3]
    return {name: value for name, kind, value in triples if kind == "longstr"}


def _record(entry: dict[str, Any]) -> dict[str, Any]:
    """A record as the broker writes it."""
    if entry["type"] == "gap":
        return _gap(entry)
    if entry["type"] not in ("published", "received"):
        raise ForeignError(f"the type {entry['type']!r} is not known")
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
    """The logs do not say whose it is."""
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
        return _of_iso(text)
    year, month, day, hour, minute, second, fraction = found.groups()
    date = datetime(
        int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC
    )
    return int(date.timestamp()) * 1_000_000 + int(fraction.ljust(6, "0")[:6])


def _of_iso(text: str) -> int:
    date = datetime.fromisoformat(text)
    since = date.replace(tzinfo=date.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)
