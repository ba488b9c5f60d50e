"""Messages that wait at an exchange of the type x-delayed-message: shown, sent now, cancelled.

A message waits on the node to which it was published, and those of a replicated exchange are those
of the node that leads its queue. So all running nodes are asked. Messages are chosen by their
message ids, headers and routing keys, or all of them.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from heapq import heappush, heapreplace
from typing import Any, Final, NamedTuple

import msgspec

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.json_form import text
from leveret.broker.runtime.names import EXCHANGE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task, in_task
from leveret.broker.vhost.delayed_inspection import (
    ExchangeInspection,
    WaitingMessage,
    WaitingPiece,
)
from leveret.cluster.rpc.rpc import NotAnswered
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import require
from leveret.mgmt.api.errors import ApiError, bad_request, from_fault, not_found
from leveret.mgmt.api.other_nodes import ask, ask_others, other_nodes
from leveret.mgmt.api.payloads import encode_payload
from leveret.mgmt.api.routes import route
from leveret.mgmt.api.selection import READ_BYTES, filter_of, header_of, readable
from leveret.mgmt.views.to_json import properties_to_json
from leveret.storage.messages.message import Address

View = dict[str, Any]
COUNT_MAX: Final = 1000
TRUNCATE_BYTES: Final = 50_000
IDS_MAX: Final = 10_000
NOTED_MAX: Final = 100
"""As many message ids of a request are in the audit log."""
ACTIONS: Final = {"Sending": "delayed_messages.sent", "Cancelling": "delayed_messages.cancelled"}
"""The names of the acts in the audit log."""


class ListedMessage(NamedTuple):
    """What is kept of a message while others are read. payload: truncated."""

    due_ms: int
    address: Address
    header: ContentHeader
    payload: bytes
    payload_bytes: int

    @classmethod
    def of(cls, one: WaitingMessage, truncate: int) -> "ListedMessage":
        """The part of a message that is shown."""
        message = one.entry.message
        body = message.body
        return cls(
            one.due_ms, message.address, header_of(one.entry), bytes(body[:truncate]), len(body)
        )


class Chosen:
    """The messages that a query or a body chooses."""

    def __init__(self, ids: list[str], source: Any) -> None:
        """source: has the other filters (`filter_of`). Raises 400."""
        self._ids = frozenset(ids)
        self._filter = filter_of(source)
        self.are_all = not ids and self._filter.takes_all

    def takes(self, one: WaitingMessage) -> bool:
        """Whether a message is chosen. Raises 400 for an expression that takes too long."""
        if self._ids and header_of(one.entry).properties.get("message_id") not in self._ids:
            return False
        return self._filter.takes(one.entry)


def _inspection(call: Call, vhost: str, exchange: str) -> ExchangeInspection:
    """The messages at the exchange in the path. Raises 404, 400, and 503 without a leader."""
    facts = call.facade.exchange(vhost, exchange)
    if facts is None:
        raise not_found()
    inspection = call.facade.delayed_inspection(vhost, exchange)
    if inspection is None:
        raise bad_request(
            f"{resource(EXCHANGE, exchange, vhost)} has the type {facts.type}: messages wait only "
            "at exchanges of the type x-delayed-message"
        )
    if not call.wants_only_own and not call.facade.has_leader(vhost, exchange):
        what = resource(EXCHANGE, exchange, vhost)
        reason = f"the queue of {what}, in which its messages wait, has no leader now: try again"
        raise ApiError(503, "service_unavailable", reason)
    return inspection


@contextmanager
def _faults() -> Iterator[None]:
    """Raise the reply of a fault: the leader of a queue has changed, or cannot read a message."""
    try:
        yield
    except (ChannelFault, ConnectionFault) as fault:
        raise from_fault(fault) from None


async def _pieces(inspection: ExchangeInspection) -> AsyncGenerator[WaitingPiece, None]:
    """All messages that wait on this node. Raises 503 if they cannot be read from disk."""
    async with aclosing(inspection.pieces(READ_BYTES)) as pieces:
        while True:
            with readable(), _faults():
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece


async def _chosen_pieces(
    call: Call, inspection: ExchangeInspection, chosen: Chosen
) -> AsyncGenerator[tuple[WaitingPiece, list[WaitingMessage]], None]:
    """The pieces of this node, each with those of its messages that are chosen."""
    async with aclosing(_pieces(inspection)) as pieces:
        async for piece in pieces:
            found = []
            for one in piece.messages:
                if chosen.takes(one):
                    found.append(one)
                await call.node.give_way()
            yield piece, found


# Listing


@route("GET", "/exchanges/{vhost}/{exchange}/delayed")
async def list_delayed(call: Call) -> Any:
    """The messages that wait at an exchange of the type x-delayed-message, the next due first."""
    vhost, exchange = call.vhost(), call.exchange_name()
    inspection = _inspection(call, vhost, exchange)
    await require(call, vhost, (EXCHANGE, exchange, "read"))
    count, truncate = call.number("count", 100), call.number("truncate", TRUNCATE_BYTES)
    if not 0 <= count <= COUNT_MAX:
        raise bad_request(f"count must be a number from 0 to {COUNT_MAX}, and is {count}")
    if truncate < 0:
        raise bad_request(f"truncate must not be negative, and is {truncate}")
    chosen = Chosen(call.request.query.getall("message_id", []), call)
    answer = await _of_this_node(call, inspection, chosen, count, truncate)
    for content in (await ask_others(call, takes_long=not chosen.are_all)).values():
        other = msgspec.json.decode(content)
        for name in ("messages", "matching"):
            answer[name] += other[name]
        answer["items"] += other["items"]
    answer["items"].sort(key=lambda one: one["due_ms"])
    del answer["items"][count:]
    return answer


async def _of_this_node(
    call: Call, inspection: ExchangeInspection, chosen: Chosen, count: int, truncate: int
) -> View:
    matching = 0
    # The heap has the earliest messages, and the latest of them first.
    heap: list[tuple[int, int, ListedMessage]] = []
    async with aclosing(_chosen_pieces(call, inspection, chosen)) as pieces:
        async for piece, found in pieces:
            for one in found:
                matching += 1
                if len(heap) < count:
                    heappush(heap, (-one.due_ms, -matching, ListedMessage.of(one, truncate)))
                elif heap and -one.due_ms > heap[0][0]:
                    heapreplace(heap, (-one.due_ms, -matching, ListedMessage.of(one, truncate)))
            is_full = len(heap) == count and (not heap or -heap[0][0] <= piece.rest_due_ms)
            if chosen.are_all and is_full:
                matching = inspection.count
                break
    items = [await _view(call, one) for _, _, one in sorted(heap, reverse=True)]
    return {"messages": inspection.count, "matching": matching, "items": items}


async def _view(call: Call, one: ListedMessage) -> View:
    payload, encoding = await encode_payload(one.payload, "auto", call.node.give_way)
    return {
        "node": call.node.name,
        "due_ms": one.due_ms,
        "exchange": text(one.address.exchange),
        "routing_key": text(one.address.routing_key),
        "properties": properties_to_json(one.header.properties),
        "payload": payload,
        "payload_encoding": encoding,
        "payload_bytes": one.payload_bytes,
        "truncated": one.payload_bytes > len(one.payload),
    }


# Acting


@route("POST", "/exchanges/{vhost}/{exchange}/delayed/send")
async def send_delayed(call: Call) -> Any:
    """Send messages now that wait at an exchange of the type x-delayed-message."""
    vhost, exchange = call.vhost(), call.exchange_name()
    inspection = _inspection(call, vhost, exchange)
    await require(call, vhost, (EXCHANGE, exchange, "write"))
    chosen = await _chosen(call)
    await _note(call, "Sending", vhost, exchange)
    sent = await _act(call, inspection, chosen, _release)
    return await _with_others(call, "sent", sent)


@route("POST", "/exchanges/{vhost}/{exchange}/delayed/cancel")
async def cancel_delayed(call: Call) -> Any:
    """Cancel messages that wait at an exchange of the type x-delayed-message: drop them."""
    vhost, exchange = call.vhost(), call.exchange_name()
    inspection = _inspection(call, vhost, exchange)
    await require(call, vhost, (EXCHANGE, exchange, "configure"))
    chosen = await _chosen(call)
    await _note(call, "Cancelling", vhost, exchange)
    cancelled = await _act(call, inspection, chosen, _cancel)
    await in_task(inspection.safe())
    return await _with_others(call, "cancelled", cancelled)


async def _chosen(call: Call) -> Chosen:
    """The messages that the body chooses. Raises 400 if it names none."""
    body = await call.body()
    ids = body.get("message_ids") or []
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise bad_request("message_ids must be a list of texts")
    if len(ids) > IDS_MAX:
        raise bad_request(f"message_ids has {len(ids)} ids; the limit is {IDS_MAX}")
    names = [name for name in ("message_ids", "header", "routing_key", "body") if body.get(name)]
    if not names and body.get("all") is not True:
        raise bad_request(
            "choose messages by message_ids, header, routing_key or body, or all: true"
        )
    return Chosen(ids, body)


async def _note(call: Call, doing: str, vhost: str, exchange: str) -> None:
    """Write the audit line before the act, on the node that got the request."""
    if call.wants_only_own:
        return
    body = await call.body()
    names = ("message_ids", "header", "routing_key", "body", "all")
    detail = {name: body[name] for name in names if body.get(name)}
    if len(detail.get("message_ids", ())) > NOTED_MAX:
        detail["message_ids"] = detail["message_ids"][:NOTED_MAX]
        detail["message_ids_count"] = len(body["message_ids"])
    what = f"{doing} messages that wait at {resource(EXCHANGE, exchange, vhost)}"
    await call.note(ACTIONS[doing], EXCHANGE, exchange, what, vhost, detail)


def _release(piece: WaitingPiece, chosen: list[WaitingMessage]) -> Answer[int]:
    return piece.release(chosen)


def _cancel(piece: WaitingPiece, chosen: list[WaitingMessage]) -> Answer[int]:
    return piece.cancel(chosen)


async def _act(
    call: Call,
    inspection: ExchangeInspection,
    chosen: Chosen,
    act: Callable[[WaitingPiece, list[WaitingMessage]], Answer[int]],
) -> int:
    """Act on the chosen messages of this node. Returns how many there were."""
    done = 0
    async with aclosing(_chosen_pieces(call, inspection, chosen)) as pieces:
        async for piece, found in pieces:
            with _faults():
                done += await given_in_task(act(piece, found))
            # Otherwise all that is sent would be in memory at once.
            await in_task(inspection.released())
    return done


async def _with_others(call: Call, name: str, done: int) -> View:
    """The sum over all nodes. Raises 503 if one did not answer, with the sum of the others."""
    names = other_nodes(call)
    answers = await asyncio.gather(
        *(ask(call, node, takes_long=True) for node in names), return_exceptions=True
    )
    missing = []
    for node, answer in zip(names, answers, strict=True):
        if isinstance(answer, NotAnswered) or (
            not isinstance(answer, BaseException) and answer.status >= 500
        ):
            missing.append(node)
        elif isinstance(answer, BaseException):
            raise answer
        elif answer.status == 200:
            done += msgspec.json.decode(answer.content)[name]
    if missing:
        reason = f"{done} messages were {name}, and node {', '.join(missing)} did not answer"
        raise ApiError(503, "service_unavailable", reason, details={name: done})
    return {name: done}
