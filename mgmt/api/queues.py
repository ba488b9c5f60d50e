"""Queues: listing, declaring, deleting, purging, and getting messages."""

from collections.abc import Iterator
from typing import Any

import msgspec

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.json_form import text
from leveret.broker.amqp.reply_codes import ACCESS_REFUSED
from leveret.broker.queues.contract.queue_kind import STREAM
from leveret.broker.runtime.names import QUEUE, resource, without_line_breaks
from leveret.broker.sessions.declaring_queues import QueueProperties
from leveret.broker.sessions.direct import DirectConnection, GotMessage
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.consumers import consumers_of_queue
from leveret.mgmt.api.directly import (
    acting,
    arguments_of,
    as_closed_channel,
    connect,
    flag,
    require,
    require_short_name,
)
from leveret.mgmt.api.errors import ApiError, bad_request, not_authorised, not_found
from leveret.mgmt.api.joint_listing import JointListing
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.other_nodes import ask_others, other_nodes, pass_on
from leveret.mgmt.api.payloads import encode_payload
from leveret.mgmt.api.routes import Created, NoContent, route
from leveret.mgmt.api.windows import both
from leveret.mgmt.node_facade.facts import Place
from leveret.mgmt.slices import GiveWay, Slices
from leveret.mgmt.views import mirrors, raft, stream_lags
from leveret.mgmt.views.queues import DOWN, QueueViews
from leveret.mgmt.views.to_json import properties_to_json

ACK_MODES = (
    "ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"
)  # fmt: skip
ENCODINGS = ("auto", "base64")
ASKED_TIMES_MAX = 5
OF_MEMBERS = ("mirroring", "raft")
LAGS = "consumer_lags"
JOINED = {"mirroring": mirrors.add_part, "raft": raft.add_part, LAGS: stream_lags.add_part}
"""The fields to which each node adds what it knows: of its member, or of its consumers."""


@route("GET", "/queues", "/queues/detailed", "/queues/{vhost}")
async def list_queues(call: Call) -> Any:
    """Queues of all vhosts, or of one."""
    views, facade = _views(call), call.facade
    vhosts = dict.fromkeys(call.listed_vhosts())

    def all_queues() -> Iterator[Place]:
        for vhost in vhosts:
            yield from ((vhost, name) for name in facade.queue_names(vhost))

    def find(vhost: str, name: str) -> Place | None:
        return (vhost, name) if vhost in vhosts and facade.has_queue(vhost, name) else None

    def render(place: Place) -> dict[str, Any] | None:
        queue = facade.queue(*place)
        return None if queue is None else views.listed(queue)

    listing: Listing[Place] = Listing(
        lambda place: place[1],
        render,
        {
            "vhost": lambda place: place[0],
            "messages": lambda place: facade.queue_counts(place).messages,
            "messages_ready": lambda place: facade.queue_counts(place).ready,
            "messages_unacknowledged": lambda place: facade.queue_counts(place).unacked,
            "consumers": lambda place: facade.queue_counts(place).consumers,
        },
        order=lambda place: place,
        find=find,
    )
    return await JointListing(listing, lambda place: facade.home_of(*place)).answer(
        call, all_queues()
    )


@route("GET", "/queues/{vhost}/{queue}")
async def show_queue(call: Call) -> Any:
    """One queue: from its own node, but its consumers from the nodes of their channels.

    A replicated queue may move while the nodes are asked: then none says that it is its own.
    """
    shown = await _shown(call)
    for _ in range(ASKED_TIMES_MAX - 1 if other_nodes(call) else 0):
        is_led = any(shown.get(field, {}).get("leader") for field in OF_MEMBERS)
        if shown["state"] != DOWN or not is_led:
            break
        shown = await _shown(call)
    return shown


async def _shown(call: Call) -> dict[str, Any]:
    vhost = call.vhost()
    name = call.queue(vhost)
    consumers = await consumers_of_queue(call, vhost, name)
    queue = call.facade.queue(vhost, name)
    if queue is None:
        raise not_found()
    shown = _views(call).single(queue, call.facade.details(vhost, name))
    if queue.declared.kind == STREAM:
        shown[LAGS] = stream_lags.lags_view(call.node.sampler, (vhost, name), both(call)[1])
    joined = {field: shown[field] for field in JOINED if field in shown}
    for node, answer in (await ask_others(call, columns="")).items():
        found = msgspec.json.decode(answer, type=dict[str, Any])
        consumers += found["consumer_details"]
        for field, whole in joined.items():
            if field in found:
                JOINED[field](whole, found[field], node)
        is_home = node == call.facade.home_of(vhost, name)
        if found["state"] != DOWN or (shown["state"] == DOWN and is_home):
            shown = found
    return {**shown, "consumer_details": consumers, **joined}


def _views(call: Call) -> QueueViews:
    return QueueViews(call.node.sampler, call.node.name, both(call))


def properties_of(body: dict[str, Any]) -> QueueProperties:
    """What a body declares a queue with. Raises 400."""
    return QueueProperties(
        durable=flag(body, "durable"),
        auto_delete=flag(body, "auto_delete"),
        arguments=arguments_of(body),
    )


@route("PUT", "/queues/{vhost}/{queue}")
async def declare_queue(call: Call) -> Any:
    """Declare a queue."""
    vhost, name = call.vhost(), call.path("queue")
    await require(call, vhost, (QUEUE, without_line_breaks(name), "configure"))
    body = await call.body()
    require_short_name(QUEUE, name)
    node = body.get("node") or call.node.name
    if node != call.node.name:
        if node not in other_nodes(call):
            raise bad_request(f"Node {node} could not be contacted")
        return await pass_on(call, node)
    is_new = not call.facade.has_queue(vhost, name)
    properties = properties_of(body)
    with acting(call, vhost) as connection:
        await connection.declare_queue(name, properties)
    return Created(is_new)


@route("DELETE", "/queues/{vhost}/{queue}")
async def delete_queue(call: Call) -> Any:
    """Delete a queue; with if-empty=true or if-unused=true only if it is empty or unused.

    An exclusive queue can be deleted by its own connection only.
    """
    vhost = call.vhost()
    queue = call.queue(vhost)
    if_unused, if_empty = (call.query(one) == "true" for one in ("if-unused", "if-empty"))
    with acting(call, vhost) as connection:
        await connection.delete_queue(queue, if_unused=if_unused, if_empty=if_empty)
    return NoContent()


@route("DELETE", "/queues/{vhost}/{queue}/contents")
async def purge_queue(call: Call) -> Any:
    """Purge a queue: drop its ready messages."""
    vhost = call.vhost()
    queue = call.queue(vhost)
    with acting(call, vhost) as connection:
        await connection.purge_queue(queue)
    return NoContent()


@route("POST", "/queues/{vhost}/{queue}/get")
async def get_messages(call: Call) -> Any:
    """Get messages, and acknowledge, reject or requeue them."""
    vhost = call.vhost()
    queue = call.path("queue")
    if not call.facade.has_queue(vhost, queue):
        what = resource(QUEUE, queue, vhost)
        raise ApiError(404, "not_found", f"NOT_FOUND - no {what}")
    body = await call.body("count", "ackmode", "encoding")
    count = _count(body["count"])
    if body["ackmode"] not in ACK_MODES:
        raise bad_request(f"ackmode must be one of {', '.join(ACK_MODES)}")
    if body["encoding"] not in ENCODINGS:
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    truncate = None if body.get("truncate") is None else _count(body["truncate"])
    if not body["ackmode"].endswith("true"):
        await _note_removal(call, vhost, queue, count)
    try:
        with connect(call, vhost) as connection:
            tags: list[int] = []
            shown: list[dict[str, Any]] = []
            slices = Slices()
            for _ in range(count):
                await slices.give_way()
                got = await connection.get(queue)
                if got is None:
                    break
                tags.append(got.delivery_tag)
                view = await _message_view(got, body["encoding"], truncate, slices.give_way)
                shown.append(view)
            if body["ackmode"] != "ack_requeue_true":
                for tag in tags:
                    await slices.give_way()
                    await _settle(connection, body["ackmode"], tag)
            # Otherwise the end of the connection returns them to the front of their queue.
            return shown
    except (ChannelFault, ConnectionFault) as fault:
        if fault.reply_code == ACCESS_REFUSED:
            raise not_authorised(fault.reply_text) from None
        raise as_closed_channel(fault) from None


async def _note_removal(call: Call, vhost: str, queue: str, count: int) -> None:
    text = (
        f"Getting up to {count} messages from {resource(QUEUE, queue, vhost)}, which removes them"
    )
    await call.note("messages.get", QUEUE, queue, text, vhost, {"count": count})


def _count(value: Any) -> int:
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        raise bad_request(["not_integer", value])
    try:
        count = int(value)
    except (OverflowError, ValueError):
        raise bad_request(["not_integer", value]) from None
    if count < 0:
        raise bad_request(f"count must not be negative, and is {count}")
    return count


async def _settle(connection: DirectConnection, ackmode: str, tag: int) -> None:
    if ackmode == "ack_requeue_false":
        connection.ack(tag)
    else:
        await connection.reject(tag, requeue=ackmode.endswith("true"))


async def _message_view(
    got: GotMessage, encoding: str, truncate: int | None, give_way: GiveWay
) -> dict[str, Any]:
    message = got.message
    header = message.header
    assert isinstance(header, ContentHeader)
    payload = message.body[:truncate]
    shown, encoded_as = await encode_payload(payload, encoding, give_way)
    return {
        "payload_bytes": len(message.body),
        "redelivered": got.redelivered,
        "exchange": text(message.address.exchange),
        "routing_key": text(message.address.routing_key),
        "message_count": got.message_count,
        "properties": properties_to_json(header.properties),
        "payload": shown,
        "payload_encoding": encoded_as,
    }
