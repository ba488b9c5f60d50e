"""Retained messages of MQTT: listing, showing and removing them (docs/reference/http-api.md)."""

from typing import Any, Final

from leveret.broker.retained.retained_message import RetainedMessage
from leveret.broker.runtime.pending_in_task import given_in_task, in_task
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request, not_found
from leveret.mgmt.api.payloads import encode_payload
from leveret.mgmt.api.routes import NoContent, route

COUNT_MAX: Final = 10_000
KIND: Final = "retained message"


def _view(vhost: str, topic: str, message: RetainedMessage) -> dict[str, Any]:
    return {
        "vhost": vhost,
        "topic": topic,
        "qos": message.qos,
        "payload_bytes": len(message.payload),
        "expires_at": message.expires_at_ms // 1000,
    }


async def _found(
    call: Call, vhost: str, topic_filter: str, count: int
) -> list[tuple[str, RetainedMessage]]:
    """The first messages whose topics match a filter."""
    messages: list[tuple[str, RetainedMessage]] = []

    def note(topic: str, message: RetainedMessage) -> None:
        messages.append((topic, message))

    for step in call.facade.retained.find_all(vhost, topic_filter, note):
        if len(messages) >= count:
            break
        if not isinstance(step, int):
            await given_in_task(step)
    return messages


@route("GET", "/mqtt/retained/{vhost}")
async def list_retained(call: Call) -> Any:
    """The messages of a vhost without their payloads, in the order of their topics."""
    call.require_administrator()
    vhost, count = call.vhost(), call.number("count", 100)
    if not 0 < count <= COUNT_MAX:
        raise bad_request(f"count must be from 1 to {COUNT_MAX:,}, and is {count}")
    found = await _found(call, vhost, call.query("filter", "#"), count)
    totals = call.facade.retained.counts(vhost)
    return {
        "messages": totals.messages,
        "bytes": totals.bytes,
        "items": [_view(vhost, topic, message) for topic, message in found],
    }


async def _message(call: Call, vhost: str) -> tuple[str, RetainedMessage]:
    """The message of the topic in the path. Raises 404."""
    topic = call.path("topic")
    found = [one for one in await _found(call, vhost, topic, 1) if one[0] == topic]
    if not found:
        raise not_found(f"vhost '{vhost}' has no retained message of topic '{topic}'")
    return found[0]


@route("GET", "/mqtt/retained/{vhost}/{topic}")
async def show_retained(call: Call) -> Any:
    """One message, with its payload."""
    call.require_administrator()
    vhost = call.vhost()
    topic, message = await _message(call, vhost)
    payload, encoding = await encode_payload(message.payload, "auto", call.node.give_way)
    return {**_view(vhost, topic, message), "payload": payload, "payload_encoding": encoding}


@route("DELETE", "/mqtt/retained/{vhost}/{topic}")
async def delete_retained(call: Call) -> Any:
    """Remove one message, on all nodes."""
    call.require_administrator()
    vhost = call.vhost()
    topic, _ = await _message(call, vhost)
    text = f"Removing the retained message of topic '{topic}' in vhost '{vhost}'"
    await call.note("retained_message.deleted", KIND, topic, text, vhost)
    await in_task(call.facade.retained.remove(vhost, topic))
    return NoContent()


@route("DELETE", "/mqtt/retained/{vhost}")
async def delete_all_retained(call: Call) -> Any:
    """Remove all messages of a vhost, on all nodes."""
    call.require_administrator()
    vhost = call.vhost()
    text = f"Removing all retained messages of vhost '{vhost}'"
    await call.note("retained_messages.deleted", KIND, "", text, vhost)
    await in_task(call.facade.retained.remove_all(vhost))
    return NoContent()
