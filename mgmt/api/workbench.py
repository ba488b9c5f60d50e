"""The dead-letter workbench: look into a queue, and retry, move, edit or delete its messages.

To look takes nothing out (`BackingQueue.entries`). To act, the chosen messages are fetched one
after the other with all that is before them, as a consumer would be given them; what was not chosen
is requeued at its old place, unmarked by it. A chosen message is published first and settled then,
so that a failure leaves it where it was.
"""

import re
from collections.abc import Iterator
from typing import Any

from broker.amqp.errors import ChannelFault, ConnectionFault
from broker.amqp.field_table import Table
from broker.amqp.properties import ContentHeader
from broker.direct import DirectConnection
from broker.patterns import OutOfTimeError, Pattern, compile_pattern
from broker.queues.actor import Queue
from broker.vhost import VirtualHost
from mgmt.api.call import Call
from mgmt.api.directly import connect
from mgmt.api.errors import bad_request, from_fault
from mgmt.api.exchanges import payload_of
from mgmt.api.queues import encode_payload
from mgmt.api.routes import route
from mgmt.properties import PropertyError, header_of_json
from mgmt.views.values import field_to_json, properties_to_json, text
from storage.message import Entry

COUNT_MAX = 500
NOTED = ("all", "ids", "header", "body", "routing_key", "to", "destination")
"""What the audit log tells of a request."""
NOTED_MAX = 500
NOTED_CHARACTERS_MAX = 500
SCANNED_MAX = 100_000
TRUNCATE_BYTES = 50_000
DEATH_HEADERS = ("x-death", "x-first-death-queue", "x-first-death-reason", "x-first-death-exchange")


class Filter:
    """Which messages are meant. Raises 400 for a bad expression."""

    def __init__(self, headers: list[str], body: str, routing_key: str) -> None:
        self._headers = [self._header(one) for one in headers]
        self._body = self._compiled(body, "body")
        self._routing_key = self._compiled(routing_key, "routing_key")

    @staticmethod
    def _compiled(pattern: str, what: str) -> Pattern[str] | None:
        if not pattern:
            return None
        try:
            return compile_pattern(pattern)
        except re.error as error:
            raise bad_request(f"{what}: '{pattern}' is no regular expression: {error}") from None

    def _header(self, expression: str) -> tuple[str, Pattern[str] | None]:
        name, _, pattern = expression.partition(":")
        return name, self._compiled(pattern, "header")

    def takes(self, entry: Entry) -> bool:
        """Whether a message is meant. Raises 400 for an expression that is a trap."""
        try:
            return self._takes(entry)
        except OutOfTimeError:
            raise bad_request("header, body or routing_key takes too long to match") from None

    def _takes(self, entry: Entry) -> bool:
        message = entry.message
        key = self._routing_key
        if key is not None and not key.is_found_in(message.address.routing_key):
            return False
        for name, pattern in self._headers:
            field = _header_of(entry).headers.get(name)
            if field is None or (pattern and not pattern.is_found_in(str(field_to_json(field)))):
                return False
        if self._body is None:
            return True
        return self._body.is_found_in(message.body.decode("utf-8", "replace"))


def _header_of(entry: Entry) -> ContentHeader:
    header = entry.message.header
    assert isinstance(header, ContentHeader)
    return header


def _filter_of(source: Any) -> Filter:
    """A query's or a body's filters."""
    if isinstance(source, Call):
        headers = source.request.query.getall("header", [])
        return Filter(headers, source.query("body"), source.query("routing_key"))
    headers = source.get("header") or []
    listed = [headers] if isinstance(headers, str) else headers
    body, routing_key = source.get("body") or "", source.get("routing_key") or ""
    if not isinstance(listed, list) or not all(
        isinstance(one, str) for one in (*listed, body, routing_key)
    ):
        raise bad_request("header, body and routing_key must be texts; header may be a list")
    return Filter(listed, body, routing_key)


# Looking


@route("GET", "/queues/{vhost}/{queue}/messages")
async def peek(call: Call) -> Any:
    """Ready messages, left where they are."""
    vhost = call.vhost()
    queue = call.queue(vhost)
    await _require_readable(call, vhost, queue)
    offset = call.number("offset", 0)
    count = min(COUNT_MAX, call.number("count", 50))
    truncate = call.number("truncate", TRUNCATE_BYTES)
    wanted = _filter_of(call)
    queue.settle_deliveries()
    shown: list[dict[str, Any]] = []
    scanned = position = 0
    next_offset = None
    for position, entry in enumerate(_entries(queue)):
        if position < offset:
            continue
        if len(shown) >= count or scanned >= SCANNED_MAX:
            next_offset = position
            break
        scanned += 1
        if wanted.takes(entry):
            shown.append(_message_view(queue, entry, position, truncate))
        await call.node.give_way()
    return {
        "messages": shown, "scanned": scanned, "next_offset": next_offset,
        "total": queue.backing.ready_count,
    }  # fmt: skip


def _entries(queue: Queue) -> Iterator[Entry]:
    # A list of its own: the queue goes on meanwhile.
    yield from tuple(queue.backing.entries())


async def _require_readable(call: Call, vhost: VirtualHost, queue: Queue) -> None:
    """Raise 401, or 400 if the queue is a connection's alone: then it is nobody else's to read."""
    try:
        with connect(call, vhost) as connection:
            await connection.check_readable(queue)
    except (ChannelFault, ConnectionFault) as fault:
        raise from_fault(fault) from None


def message_id(entry: Entry) -> str:
    """Names a message as long as it is in its queue: its priority and its place."""
    return f"{entry.message.header.priority or 0}-{entry.position}"


def _message_view(queue: Queue, entry: Entry, position: int, truncate: int) -> dict[str, Any]:
    message = entry.message
    header = _header_of(entry)
    payload, encoding = encode_payload(message.body[:truncate], "auto")
    ages = queue.level_ages
    known = queue.ages if ages is None else ages.get(message.header.priority or 0, queue.ages)
    return {
        "id": message_id(entry),
        "position": position,
        "exchange": text(message.address.exchange),
        "routing_key": text(message.address.routing_key),
        "redelivered": entry.redelivered,
        "properties": properties_to_json(header.properties),
        "payload": payload,
        "payload_encoding": encoding,
        "payload_bytes": len(message.body),
        "truncated": len(message.body) > truncate,
        "age_ms": known.age_ms(entry.position, queue.now_ms()),
        "deaths": deaths_of(header.headers),
    }


def deaths_of(headers: Table) -> list[dict[str, Any]]:
    """What x-death says, the latest death first."""
    field = headers.get("x-death")
    if field is None or field[0] != "A":
        return []
    found = []
    for item in field[1]:
        if item[0] != "F":
            continue
        table = {name: field_to_json(value) for name, value in item[1].items()}
        found.append(
            {
                "queue": table.get("queue"), "reason": table.get("reason"),
                "count": table.get("count"), "time": table.get("time"),
                "exchange": table.get("exchange"), "routing_keys": table.get("routing-keys", []),
                "original_expiration": table.get("original-expiration"),
            }
        )  # fmt: skip
    return found


# Acting


class Act:
    """What is to be done with chosen messages: `publish` says how, or None to delete them."""

    def __init__(self, call: Call, vhost: VirtualHost, queue: Queue, body: dict[str, Any]) -> None:
        self._call = call
        self._vhost = vhost
        self._queue = queue
        self._everything = body.get("all") is True
        ids = body.get("ids") or []
        if not isinstance(ids, list) or (not ids and not self._everything):
            raise bad_request("ids must be a list of messages, or all must be true")
        self._ids = set(map(str, ids))
        self._filter = _filter_of(body)
        self.failed: list[dict[str, Any]] = []
        self.done = 0

    def _is_chosen(self, entry: Entry) -> bool:
        if self._everything:
            return self._filter.takes(entry)
        return message_id(entry) in self._ids

    async def run(self, publish: Any) -> dict[str, Any]:
        """Do it. publish: takes a connection and a message; whether it was routed."""
        queue = self._queue
        queue.settle_deliveries()
        left = queue.backing.ready_count
        kept: list[Entry] = []
        try:
            with connect(self._call, self._vhost) as connection:
                while left > 0 and (self._everything or self._ids):
                    left -= 1
                    entries = queue.backing.fetch(1, True)
                    if not entries:
                        break
                    kept.append(entries[0])
                    if await self._handle(connection, entries[0], publish):
                        kept.pop()
                    await self._call.node.give_way()
        finally:
            self._put_back(kept)
        for one in sorted(self._ids):
            if not self._everything:
                self.failed.append({"id": one, "reason": "the message is no longer in the queue"})
        return {"done": self.done, "failed": self.failed}

    async def _handle(self, connection: DirectConnection, entry: Entry, publish: Any) -> bool:
        """Whether the message is gone from the queue."""
        if not self._is_chosen(entry):
            return False
        self._ids.discard(message_id(entry))
        reason = "no queue would have got the message"
        try:
            is_done = publish is None or await publish(connection, entry)
        except (ChannelFault, ConnectionFault) as fault:
            is_done, reason = False, fault.reply_text
        if not is_done:
            self.failed.append({"id": message_id(entry), "reason": reason})
            return False
        self._queue.backing.ack(entry)
        self.done += 1
        return True

    def _put_back(self, kept: list[Entry]) -> None:
        """At their old places, and not marked as redelivered: nobody was given them."""
        if not kept or self._queue.is_deleted:
            return
        marks = [entry.redelivered for entry in kept]
        self._queue.backing.requeue(kept)
        for entry, mark in zip(kept, marks, strict=True):
            entry.redelivered = mark
        self._queue.wake()


def origin_of(entry: Entry) -> tuple[str, str]:
    """Exchange and routing key of a message before it first died; its own if it never did."""
    deaths = deaths_of(_header_of(entry).headers)
    if not deaths:
        return entry.message.address.exchange, entry.message.address.routing_key
    first = deaths[-1]
    keys = first["routing_keys"] or [entry.message.address.routing_key]
    return str(first["exchange"] or ""), str(keys[0])


def _without_deaths(header: ContentHeader) -> ContentHeader:
    """A message that is retried begins anew, so that it may die in the same queue again."""
    kept = {
        name: field
        for name, field in header.headers.items()
        if name not in DEATH_HEADERS and not name.startswith("x-last-death-")
    }
    return header if len(kept) == len(header.headers) else header.replace(headers=kept)


async def _prepare(call: Call) -> tuple[VirtualHost, Queue, dict[str, Any]]:
    vhost = call.vhost()
    queue = call.queue(vhost)
    await _require_readable(call, vhost, queue)
    return vhost, queue, await call.body()


def _note(call: Call, action: str, vhost: VirtualHost, queue: Queue, body: dict[str, Any]) -> None:
    """The audit line comes before the act: what cannot be written down is not done."""
    detail = {key: _noted(body[key]) for key in NOTED if key in body}
    if len(body.get("ids") or ()) > NOTED_MAX:
        detail["ids_count"] = len(body["ids"])
    if isinstance(body.get("edit"), dict):
        detail["edited"] = sorted(set(body["edit"]) & {"payload", "properties"})
    call.node.audit.note(call.identity.name, action, vhost.name, queue.name, detail)


def _noted(value: Any) -> Any:
    """As much of a value as the audit log holds."""
    if isinstance(value, dict):
        return {key: _noted(value[key]) for key in ("exchange", "routing_key") if key in value}
    if isinstance(value, list):
        return [str(one)[:NOTED_CHARACTERS_MAX] for one in value[:NOTED_MAX]]
    return value[:NOTED_CHARACTERS_MAX] if isinstance(value, str) else bool(value)


@route("POST", "/queues/{vhost}/{queue}/messages/retry")
async def retry(call: Call) -> Any:
    """Publish messages again to where they came from, or elsewhere."""
    vhost, queue, body = await _prepare(call)
    target = body.get("to")
    if target is not None and not isinstance(target, dict):
        raise bad_request("to must be an object with exchange and routing_key")
    edit = _edit_of(body)
    act = Act(call, vhost, queue, body)
    _note(call, "retry", vhost, queue, body)

    async def publish(connection: DirectConnection, entry: Entry) -> bool:
        exchange, key = origin_of(entry)
        if target is not None:
            exchange = str(target.get("exchange", exchange))
            key = str(target.get("routing_key", key))
        header, payload = edit(_without_deaths(_header_of(entry)), entry.message.body)
        return await connection.publish(exchange, key, header, payload)

    return await act.run(publish)


def _edit_of(body: dict[str, Any]) -> Any:
    """What changes properties and payload of a single message. Raises 400."""
    edit = body.get("edit")
    if edit is None:
        return lambda header, payload: (header, payload)
    if not isinstance(edit, dict) or len(body.get("ids") or []) != 1:
        raise bad_request("edit must be an object, and is for a single message")
    payload = None
    if "payload" in edit:
        payload = payload_of(edit["payload"], edit.get("payload_encoding", "string"))
    header = None
    if "properties" in edit:
        try:
            header = header_of_json(edit["properties"])
        except PropertyError as error:
            raise bad_request(error.reason) from None
    return lambda old_header, old_payload: (
        old_header if header is None else _without_deaths(header),
        old_payload if payload is None else payload,
    )


@route("POST", "/queues/{vhost}/{queue}/messages/move")
async def move(call: Call) -> Any:
    """Put messages into another queue, as they are."""
    vhost, queue, body = await _prepare(call)
    destination = body.get("destination")
    if not isinstance(destination, str) or destination not in vhost.queues:
        raise bad_request(f"destination must be a queue in vhost '{vhost.name}'")
    if destination == queue.name:
        raise bad_request("destination must be another queue")
    act = Act(call, vhost, queue, body)
    _note(call, "move", vhost, queue, body)

    async def publish(connection: DirectConnection, entry: Entry) -> bool:
        return await connection.publish("", destination, _header_of(entry), entry.message.body)

    return await act.run(publish)


@route("POST", "/queues/{vhost}/{queue}/messages/delete")
async def delete(call: Call) -> Any:
    """Remove messages for good."""
    vhost, queue, body = await _prepare(call)
    act = Act(call, vhost, queue, body)
    _note(call, "delete", vhost, queue, body)
    return await act.run(None)
