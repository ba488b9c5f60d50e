"""Browsing a queue: its ready messages are shown and stay in the queue.

A page begins at a position, which the previous page returns (`next_position`), so that no message
is read twice. `offset` counts messages instead, and all messages before it are read.
"""

from contextlib import aclosing
from typing import Any

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_form import field_to_json, text
from leveret.broker.queues.classic.inspection import Inspection
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.payloads import encode_payload
from leveret.mgmt.api.routes import Answerer, route
from leveret.mgmt.api.selection import Selection, filter_of, header_of, inspected, read
from leveret.mgmt.slices import GiveWay
from leveret.mgmt.views.to_json import properties_to_json
from leveret.storage.messages.message import Entry

COUNT_MAX = 500
POSITION_MAX = 2**63 - 1
SHOWN_BYTES_MAX = 32 * 1024 * 1024
"""The bytes of payloads in one answer; `next_position` is the position of the next messages."""
SCANNED_MAX = 100_000
TRUNCATE_BYTES = 50_000


@route("GET", "/queues/{vhost}/{queue}/messages", answered_by=Answerer.HOME_OF_QUEUE)
async def peek(call: Call) -> Any:
    """Browse ready messages without removing them."""
    _, inspection = await inspected(call)
    start = min(max(0, call.number("position", 0)), POSITION_MAX)
    first = call.number("offset", 0)
    skipped = 0 if start else first
    count = min(COUNT_MAX, call.number("count", 50))
    truncate = call.number("truncate", TRUNCATE_BYTES)
    scanned_max = min(SCANNED_MAX, call.number("scanned_max", SCANNED_MAX))
    wanted = filter_of(call)
    shown: list[dict[str, Any]] = []
    scanned = shown_bytes = 0
    following = None
    async with aclosing(read(inspection, call.node.give_way, start)) as entries:
        async for entry in entries:
            if skipped:
                skipped -= 1
                continue
            if len(shown) >= count or scanned >= scanned_max or shown_bytes >= SHOWN_BYTES_MAX:
                following = inspection.name_of(entry)
                break
            if wanted.takes(entry):
                shown.append(
                    await _message_view(
                        inspection, entry, first + scanned, truncate, call.node.give_way
                    )
                )
                shown_bytes += min(truncate, len(entry.message.body))
            scanned += 1
    return {
        "messages": shown, "scanned": scanned,
        "next_offset": None if following is None else first + scanned,
        "next_position": following,
        "total": inspection.queue.figures.counts().ready,
    }  # fmt: skip


@route("POST", "/queues/{vhost}/{queue}/messages/count", answered_by=Answerer.HOME_OF_QUEUE)
async def count_messages(call: Call) -> Any:
    """Count the chosen messages: those that match the filters, or exist."""
    _, inspection = await inspected(call)
    selection = Selection(inspection, await call.body())
    matching = 0
    async with aclosing(selection.entries(call.node.give_way)) as entries:
        async for _ in entries:
            matching += 1
    return {"matching": matching}


async def _message_view(
    inspection: Inspection, entry: Entry, position: int, truncate: int, give_way: GiveWay
) -> dict[str, Any]:
    message = entry.message
    header = header_of(entry)
    payload, encoding = await encode_payload(message.body[:truncate], "auto", give_way)
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
    """The deaths in x-death, the latest first."""
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
