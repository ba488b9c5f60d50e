"""Retrying in the dead-letter workbench: messages are published again where they came from.

The origin of a message is read from its x-death header, which a client may have written: a client
that may publish to one queue could make an administrator publish anywhere. Therefore the request
names the destination: `to` for all messages, or the `targets` that its user has seen and confirms.
A message with another target stays in its queue. `messages/targets` lists them.
"""

from collections import Counter
from contextlib import aclosing
from typing import Any, NamedTuple

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.queues.dead_letters.header import cc_keys, without_deaths
from leveret.broker.sessions.direct import DirectConnection
from leveret.mgmt.api.acting import NOT_ROUTED, Act, note, prepare, without_cc
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.api.payloads import decode_payload
from leveret.mgmt.api.properties import PropertyError, header_of_json
from leveret.mgmt.api.routes import Answerer, route
from leveret.mgmt.api.selection import Selection, header_of
from leveret.mgmt.api.workbench import deaths_of
from leveret.mgmt.slices import GiveWay
from leveret.storage.messages.message import Entry

TARGETS_MAX = 100


class RetryTarget(NamedTuple):
    """Where a message goes. routing_keys: its own first, then those in its CC header."""

    exchange: str
    routing_keys: tuple[str, ...]


def target_of(entry: Entry) -> RetryTarget:
    """Where a message was published before it first died; its own address if it never did."""
    headers = header_of(entry).headers
    exchange, key = entry.message.address.exchange, entry.message.address.routing_key
    deaths = deaths_of(headers)
    if deaths:
        exchange = str(deaths[-1]["exchange"] or "")
        keys = deaths[-1]["routing_keys"]
        key = str(keys[0]) if isinstance(keys, list) and keys else key
    return RetryTarget(exchange, (key, *cc_keys(headers)))


@route("POST", "/queues/{vhost}/{queue}/messages/targets", answered_by=Answerer.HOME_OF_QUEUE)
async def list_targets(call: Call) -> Any:
    """Targets to which a retry would publish the chosen messages, to be confirmed."""
    _, inspection, body = await prepare(call)
    counts: Counter[RetryTarget] = Counter()
    has_more = False
    async with aclosing(Selection(inspection, body).entries(call.node.give_way)) as entries:
        async for entry in entries:
            target = target_of(entry)
            if target in counts or len(counts) < TARGETS_MAX:
                counts[target] += 1
            else:
                has_more = True
    targets = [{**target._asdict(), "messages": count} for target, count in counts.items()]
    return {"targets": targets, "has_more": has_more}


@route("POST", "/queues/{vhost}/{queue}/messages/retry", answered_by=Answerer.HOME_OF_QUEUE)
async def retry(call: Call) -> Any:
    """Publish messages again, to the exchange of their first death or to a given one."""
    vhost, inspection, body = await prepare(call)
    act = Act(call, vhost, inspection, body)
    to = _named(body)
    confirmed = _confirmed(body) if to is None else set()
    edit = await _edit_of(body, call.node.give_way)
    await note(call, "Retrying", vhost, inspection.queue.name, body)

    async def publish(connection: DirectConnection, entry: Entry) -> str | None:
        target, header = target_of(entry), without_deaths(header_of(entry))
        if to is not None:
            target, header = to, without_cc(header)
        elif target not in confirmed:
            keys = ", ".join(map(repr, target.routing_keys))
            return f"exchange '{target.exchange}' with routing key {keys} is not confirmed"
        edited, payload = edit(header, entry.message.body)
        routed = await connection.publish(target.exchange, target.routing_keys[0], edited, payload)
        return None if routed else NOT_ROUTED

    return await act.run(publish)


def _named(body: dict[str, Any]) -> RetryTarget | None:
    """The target that a request names for all messages. Raises 400."""
    to = body.get("to")
    if to is None:
        return None
    if not isinstance(to, dict) or not all(
        isinstance(to.get(key), str) for key in ("exchange", "routing_key")
    ):
        raise bad_request("to must be an object with exchange and routing_key")
    return RetryTarget(to["exchange"], (to["routing_key"],))


def _confirmed(body: dict[str, Any]) -> set[RetryTarget]:
    """The targets that a request confirms. Raises 400 without them."""
    try:
        return {
            RetryTarget(str(one["exchange"]), tuple(map(str, one["routing_keys"])))
            for one in body["targets"]
        }
    except (KeyError, TypeError):
        raise bad_request(
            "to or targets must say where the messages go: x-death may be forged. "
            "messages/targets lists targets, each with exchange and routing_keys"
        ) from None


async def _edit_of(body: dict[str, Any], give_way: GiveWay) -> Any:
    """The function that changes properties and payload of one message. Raises 400."""
    edit = body.get("edit")
    if edit is None:
        return lambda header, payload: (header, payload)
    if not isinstance(edit, dict) or len(body.get("ids") or []) != 1:
        raise bad_request("edit must be an object, and is for a single message")
    payload: bytes | None = None
    if "payload" in edit:
        encoding = edit.get("payload_encoding", "string")
        payload = await decode_payload(edit["payload"], encoding, give_way)
    header: ContentHeader | None = None
    if "properties" in edit:
        try:
            header = without_deaths(header_of_json(edit["properties"]))
        except PropertyError as error:
            raise bad_request(error.reason) from None
    return lambda old_header, old_payload: (
        old_header if header is None else header,
        old_payload if payload is None else payload,
    )
