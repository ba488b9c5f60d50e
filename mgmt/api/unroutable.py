"""Messages that reached no queue, on all nodes (docs/reference/http-api.md)."""

import asyncio
from itertools import islice
from typing import Any, Final

import msgspec

from leveret.broker.amqp.json_form import text
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.api.other_nodes import ask, ask_others, other_nodes
from leveret.mgmt.api.payloads import encode_payload
from leveret.mgmt.api.routes import NoContent, route
from leveret.mgmt.node_facade.facts import UnroutableMessageFacts
from leveret.mgmt.views.to_json import properties_to_json

View = dict[str, Any]
KIND: Final = "unroutable messages"
COUNT_MAX: Final = 1000
TRUNCATE_BYTES: Final = 50_000


@route("GET", "/unroutable/{vhost}")
async def list_unroutable(call: Call) -> Any:
    """The counts by exchange and key prefix, the largest first, and the last messages."""
    call.require_administrator()
    vhost = call.vhost()
    count, truncate = call.number("count", 100), call.number("truncate", TRUNCATE_BYTES)
    if not 0 <= count <= COUNT_MAX:
        raise bad_request(f"count must be a number from 0 to {COUNT_MAX}, and is {count}")
    if truncate < 0:
        raise bad_request(f"truncate must not be negative, and is {truncate}")
    answer = await _of_this_node(call, vhost, count, truncate)
    for content in (await ask_others(call)).values():
        other = msgspec.json.decode(content)
        _add_counts(answer["counts"], other["counts"])
        answer["items"] += other["items"]
    answer["counts"].sort(key=lambda one: (-one["messages"], one["exchange"], one["prefix"]))
    answer["items"].sort(key=lambda one: -one["time_ms"])
    del answer["items"][count:]
    return {"messages": sum(one["messages"] for one in answer["counts"]), **answer}


async def _of_this_node(call: Call, vhost: str, count: int, truncate: int) -> dict[str, list[View]]:
    counts = [
        {
            "exchange": text(one.exchange), "prefix": text(one.prefix), "messages": one.messages,
            "returned": one.returned, "last_ms": one.last_ms,
        }
        for one in call.facade.unroutable_counts(vhost)
    ]  # fmt: skip
    items = []
    for message in islice(call.facade.unroutable_messages(vhost), count):
        items.append(await _view(call, message, truncate))
        await call.node.give_way()
    return {"counts": counts, "items": items}


async def _view(call: Call, message: UnroutableMessageFacts, truncate: int) -> View:
    shown = message.body[:truncate]
    payload, encoding = await encode_payload(shown, "auto", call.node.give_way)
    return {
        "node": call.node.name,
        "time_ms": message.time_ms,
        "user": text(message.user),
        "exchange": text(message.exchange),
        "routing_key": text(message.routing_key),
        "returned": message.is_returned,
        "properties": properties_to_json(message.properties),
        "payload": payload,
        "payload_encoding": encoding,
        "payload_bytes": message.body_bytes,
        "truncated": len(shown) < message.body_bytes,
    }


def _add_counts(counts: list[View], others: list[View]) -> None:
    """Add the counts of another node."""
    known = {(one["exchange"], one["prefix"]): one for one in counts}
    for other in others:
        one = known.get((other["exchange"], other["prefix"]))
        if one is None:
            counts.append(other)
            continue
        one["messages"] += other["messages"]
        one["returned"] += other["returned"]
        one["last_ms"] = max(one["last_ms"], other["last_ms"])


@route("DELETE", "/unroutable/{vhost}")
async def forget_unroutable(call: Call) -> Any:
    """Forget counts and messages, on all nodes that answer."""
    call.require_administrator()
    vhost = call.vhost()
    if not call.wants_only_own:
        what = f"Forgetting the unroutable messages of vhost '{vhost}'"
        await call.note("unroutable_messages.forgotten", KIND, "", what, vhost)
    call.facade.forget_unroutable(vhost)
    await asyncio.gather(*(ask(call, node) for node in other_nodes(call)), return_exceptions=True)
    return NoContent()
