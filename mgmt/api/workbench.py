"""The dead-letter workbench: look into a queue, and retry, move, edit or delete its messages.

The queue is read with a cursor, READ_BYTES at a time, and the node's other work goes on after each
message (mgmt/slices.py): however long the queue is, and however much of it is on disk only, neither
memory nor a turn of the event loop is taken by more. To act, the chosen messages alone are taken
out of the queue, those of one read at a time. A message is published first and settled then, so
that a failure leaves it where it was.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, cast

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_form import field_to_json, text
from leveret.broker.amqp.properties import ContentHeader
from leveret.broker.direct import DirectConnection
from leveret.broker.patterns import OutOfTimeError, Pattern, compile_pattern
from leveret.broker.queues.classic_queue import CLASSIC_QUEUE, ClassicQueue
from leveret.broker.queues.dead_letter import without_deaths
from leveret.broker.queues.inspection import Inspection
from leveret.broker.vhost import VirtualHost
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import connect
from leveret.mgmt.api.errors import bad_request, from_fault
from leveret.mgmt.api.exchanges import payload_of
from leveret.mgmt.api.queues import encode_payload
from leveret.mgmt.api.routes import route
from leveret.mgmt.properties import PropertyError, header_of_json
from leveret.mgmt.views.to_json import properties_to_json
from leveret.storage.message import Entry

COUNT_MAX = 500
READ_BYTES = 128 * 1024
"""Some hundreds of small messages: read from disk in a millisecond or so."""
SHOWN_BYTES_MAX = 32 * 1024 * 1024
"""Payloads in one answer; the rest is further on."""
Publish = Callable[[DirectConnection, Entry], Awaitable[bool]] | None
"""Publishes a message that is acted on; whether it was routed."""
NOTED = ("all", "ids", "header", "body", "routing_key", "to", "destination")
"""What the audit log tells of a request."""
NOTED_MAX = 500
NOTED_CHARACTERS_MAX = 500
SCANNED_MAX = 100_000
TRUNCATE_BYTES = 50_000


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
    queue = _inspected(call, vhost)
    await _require_readable(call, vhost, queue)
    offset = call.number("offset", 0)
    count = min(COUNT_MAX, call.number("count", 50))
    truncate = call.number("truncate", TRUNCATE_BYTES)
    wanted = _filter_of(call)
    inspection = Inspection(queue)
    shown: list[dict[str, Any]] = []
    scanned = shown_bytes = 0
    position = -1
    next_offset = None
    async with aclosing(_read(call, inspection)) as entries:
        async for entry in entries:
            position += 1
            if position < offset:
                continue
            if len(shown) >= count or scanned >= SCANNED_MAX or shown_bytes >= SHOWN_BYTES_MAX:
                next_offset = position
                break
            scanned += 1
            if wanted.takes(entry):
                shown.append(_message_view(inspection, entry, position, truncate))
                shown_bytes += min(truncate, len(entry.message.body))
    return {
        "messages": shown, "scanned": scanned, "next_offset": next_offset,
        "total": queue.figures.counts().ready,
    }  # fmt: skip


def _inspected(call: Call, vhost: VirtualHost) -> ClassicQueue:
    """The queue that the path names. Raises 404, or 400 for one whose messages are elsewhere."""
    queue = call.queue(vhost)
    if queue.kind is not CLASSIC_QUEUE:
        raise bad_request(f"the messages of a {queue.kind.name} queue cannot be inspected")
    return cast(ClassicQueue, queue)


async def _read(call: Call, inspection: Inspection) -> AsyncGenerator[Entry, None]:
    """The ready messages of a queue, with the node's other work between them."""
    cursor = inspection.cursor()
    try:
        while entries := cursor.read(READ_BYTES):
            for entry in entries:
                yield entry
                await call.node.give_way()
    finally:
        cursor.close()


async def _require_readable(call: Call, vhost: VirtualHost, queue: ClassicQueue) -> None:
    """Raise 401, or 400 if the queue is a connection's alone: then it is nobody else's to read."""
    try:
        with connect(call, vhost) as connection:
            await connection.check_readable(queue)
    except (ChannelFault, ConnectionFault) as fault:
        raise from_fault(fault) from None


def _message_view(
    inspection: Inspection, entry: Entry, position: int, truncate: int
) -> dict[str, Any]:
    message = entry.message
    header = _header_of(entry)
    payload, encoding = encode_payload(message.body[:truncate], "auto")
    return {
        "id": inspection.name_of(entry),
        "position": position,
        "exchange": text(message.address.exchange),
        "routing_key": text(message.address.routing_key),
        "redelivered": entry.redelivered,
        "properties": properties_to_json(header.properties),
        "payload": payload,
        "payload_encoding": encoding,
        "payload_bytes": len(message.body),
        "truncated": len(message.body) > truncate,
        "age_ms": inspection.queue.age_ms(entry),
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

    def __init__(
        self, call: Call, vhost: VirtualHost, queue: ClassicQueue, body: dict[str, Any]
    ) -> None:
        self._call = call
        self._vhost = vhost
        self._inspection = Inspection(queue)
        self._ready_count = queue.figures.counts().ready
        self._everything = body.get("all") is True
        ids = body.get("ids") or []
        if not isinstance(ids, list) or (not ids and not self._everything):
            raise bad_request("ids must be a list of messages, or all must be true")
        self._ids = sorted(set(map(str, ids)))
        self._filter = _filter_of(body)
        self._publish: Publish = None
        self.failed: list[dict[str, Any]] = []
        self.done = 0

    async def run(self, publish: Publish) -> dict[str, Any]:
        """Do it. Raises 400 for an expression that takes too long to match."""
        self._publish = publish
        with connect(self._call, self._vhost) as connection:
            if self._everything:
                await self._handle_all(connection)
            else:
                for one in self._ids:
                    if not await self._handle(connection, [one]):
                        reason = "the message is no longer in the queue"
                        self.failed.append({"id": one, "reason": reason})
        return {"done": self.done, "failed": self.failed}

    async def _handle_all(self, connection: DirectConnection) -> None:
        """All that match, of as many as there were at the beginning: some may come back."""
        cursor = self._inspection.cursor()
        left = self._ready_count
        try:
            while left > 0 and (entries := cursor.read(READ_BYTES)[:left]):
                left -= len(entries)
                chosen = []
                for entry in entries:
                    if self._filter.takes(entry):
                        chosen.append(self._inspection.name_of(entry))
                    await self._call.node.give_way()
                await self._handle(connection, chosen)
        finally:
            cursor.close()

    async def _handle(self, connection: DirectConnection, names: list[str]) -> int:
        """Do it with the messages of these names that are ready; how many there were."""
        entries = self._inspection.take(names)
        tags = connection.deliver(self._inspection.queue, entries)
        try:
            for tag, entry in zip(tags, entries, strict=True):
                reason = await self._fault_of(connection, entry)
                if reason is None:
                    connection.ack(tag)
                    self.done += 1
                else:
                    self.failed.append({"id": self._inspection.name_of(entry), "reason": reason})
                await self._call.node.give_way()
        finally:
            self._inspection.put_back(connection.withdraw(tags))
        return len(entries)

    async def _fault_of(self, connection: DirectConnection, entry: Entry) -> str | None:
        """Publish a message, if it is to be; why that failed, or None."""
        try:
            if self._publish is None or await self._publish(connection, entry):
                return None
        except (ChannelFault, ConnectionFault) as fault:
            return fault.reply_text
        return "no queue would have got the message"


def origin_of(entry: Entry) -> tuple[str, str]:
    """Exchange and routing key of a message before it first died; its own if it never did."""
    deaths = deaths_of(_header_of(entry).headers)
    if not deaths:
        return entry.message.address.exchange, entry.message.address.routing_key
    first = deaths[-1]
    keys = first["routing_keys"] or [entry.message.address.routing_key]
    return str(first["exchange"] or ""), str(keys[0])


async def _prepare(call: Call) -> tuple[VirtualHost, ClassicQueue, dict[str, Any]]:
    vhost = call.vhost()
    queue = _inspected(call, vhost)
    await _require_readable(call, vhost, queue)
    return vhost, queue, await call.body()


async def _note(
    call: Call, action: str, vhost: VirtualHost, queue: ClassicQueue, body: dict[str, Any]
) -> None:
    """The audit line comes before the act: what cannot be written down is not done."""
    detail = {key: _noted(body[key]) for key in NOTED if key in body}
    if len(body.get("ids") or ()) > NOTED_MAX:
        detail["ids_count"] = len(body["ids"])
    if isinstance(body.get("edit"), dict):
        detail["edited"] = sorted(set(body["edit"]) & {"payload", "properties"})
    await call.node.audit.note(call.identity.name, action, vhost.name, queue.name, detail)


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
    await _note(call, "retry", vhost, queue, body)

    async def publish(connection: DirectConnection, entry: Entry) -> bool:
        exchange, key = origin_of(entry)
        if target is not None:
            exchange = str(target.get("exchange", exchange))
            key = str(target.get("routing_key", key))
        header, payload = edit(without_deaths(_header_of(entry)), entry.message.body)
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
        old_header if header is None else without_deaths(header),
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
    await _note(call, "move", vhost, queue, body)

    async def publish(connection: DirectConnection, entry: Entry) -> bool:
        return await connection.publish("", destination, _header_of(entry), entry.message.body)

    return await act.run(publish)


@route("POST", "/queues/{vhost}/{queue}/messages/delete")
async def delete(call: Call) -> Any:
    """Remove messages for good."""
    vhost, queue, body = await _prepare(call)
    act = Act(call, vhost, queue, body)
    await _note(call, "delete", vhost, queue, body)
    return await act.run(None)
