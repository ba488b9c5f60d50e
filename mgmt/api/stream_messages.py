"""A look at the messages of a stream from any offset or time, without consuming them.

The node that is asked reads its own member, or asks the leader's node if it has none. An answer
has a limited number of messages and bytes; `next_offset` is where the next one begins.
"""

from typing import Any, Final

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.offset_specification import OFFSET_ARGUMENT
from leveret.broker.runtime.names import QUEUE
from leveret.cluster.streams.client.message_window import WindowMessage
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.api.payloads import encode_payload
from leveret.mgmt.api.routes import route
from leveret.mgmt.api.stream_positions import position_of, using
from leveret.mgmt.node_facade import stream_positions
from leveret.mgmt.slices import GiveWay
from leveret.mgmt.views.to_json import properties_to_json

COUNT_MAX: Final = 500
TRUNCATE_BYTES: Final = 50_000


@route("GET", "/stream/{vhost}/{queue}/messages")
async def look(call: Call) -> Any:
    """Show messages of a stream from an offset or a time on. They stay, and nothing is stored."""
    vhost, stream = call.vhost(), call.path("queue")
    start = position_of(call.query("offset") or "first", "offset")
    count, truncate = call.number("count", 50), call.number("truncate", TRUNCATE_BYTES)
    if not 1 <= count <= COUNT_MAX:
        raise bad_request(f"count must be a number from 1 to {COUNT_MAX}, and is {count}")
    if truncate < 0:
        raise bad_request(f"truncate must not be negative, and is {truncate}")
    with using(call, vhost) as connection:
        await connection.check(QUEUE, stream, "read")
        found = await stream_positions.look(connection.vhost, stream, start, count)
    shown = [await _message_view(one, truncate, call.node.give_way) for one in found.part.messages]
    return {
        "messages": shown, "next_offset": found.part.next_offset, "first_offset": found.first,
        "end_offset": found.end,
    }  # fmt: skip


async def _message_view(found: WindowMessage, truncate: int, give_way: GiveWay) -> dict[str, Any]:
    message = found.message
    header = message.header
    assert isinstance(header, ContentHeader)
    properties = dict(header.properties)
    # The broker has added this one.
    headers = {k: v for k, v in properties.pop("headers", {}).items() if k != OFFSET_ARGUMENT}
    if headers:
        properties["headers"] = headers
    payload, encoding = await encode_payload(message.body[:truncate], "auto", give_way)
    return {
        "offset": found.offset,
        "time_ms": found.time_ms,
        "exchange": text(message.address.exchange),
        "routing_key": text(message.address.routing_key),
        "properties": properties_to_json(properties),
        "payload": payload,
        "payload_encoding": encoding,
        "payload_bytes": len(message.body),
        "truncated": len(message.body) > truncate,
    }
