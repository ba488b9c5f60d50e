"""Messages that wait for their retry: listed, delivered now, or discarded."""

from typing import Any, Final

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.queue_kind import QUORUM
from leveret.broker.queues.contract.waiting_retries import (
    LISTED_MAX,
    ChosenRetries,
    WaitingRetries,
    WaitingRetry,
)
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import require
from leveret.mgmt.api.errors import bad_request, from_fault
from leveret.mgmt.api.routes import Answerer, route
from leveret.mgmt.api.selection import header_of_message, inspected
from leveret.mgmt.views.to_json import properties_to_json

CHOICES: Final = ("all", "positions", "message_id")
POSITIONS_MAX: Final = 10_000
_CHOOSE: Final = (
    "the body must have one of all (true), positions (a list of at most "
    f"{POSITIONS_MAX} numbers, as they are listed) and message_id (a text)"
)


@route("GET", "/queues/{vhost}/{queue}/retries", answered_by=Answerer.HOME_OF_QUEUE)
async def list_retries(call: Call) -> Any:
    """The first messages that wait, in the order of their times."""
    _, _, retries = await _retries(call)
    count = call.number("count", 100)
    if not 0 <= count <= LISTED_MAX:
        raise bad_request(f"count must be a number from 0 to {LISTED_MAX}, and is {count}")
    answer: Answer[list[WaitingRetry]] = Answer()
    retries.first(count, answer)
    found = await _answered(answer)
    return {"messages": retries.count, "items": [_view(one) for one in found]}


@route("POST", "/queues/{vhost}/{queue}/retries/deliver", answered_by=Answerer.HOME_OF_QUEUE)
async def deliver(call: Call) -> Any:
    """Deliver messages now."""
    return await _end_waiting(call, "Delivering", "messages.delivered_now", is_discarded=False)


@route("POST", "/queues/{vhost}/{queue}/retries/discard", answered_by=Answerer.HOME_OF_QUEUE)
async def discard(call: Call) -> Any:
    """Drop messages. They are not dead-lettered."""
    return await _end_waiting(call, "Discarding", "messages.discarded", is_discarded=True)


async def _end_waiting(call: Call, doing: str, action: str, *, is_discarded: bool) -> Any:
    vhost, name, retries = await _retries(call)
    body = await call.body()
    chosen = _chosen(body)
    what = f"{doing} delayed retries of {resource(QUEUE, name, vhost)}"
    await call.note(action, QUEUE, name, what, vhost, {"all": chosen.are_all})
    answer: Answer[int] = Answer()
    retries.end(chosen, is_discarded, answer)
    return {"done": await _answered(answer)}


async def _answered(answer: Answer[Any]) -> Any:
    """The result of an answer. Raises the reply of a fault."""
    try:
        return await given_in_task(answer)
    except (ChannelFault, ConnectionFault) as fault:
        raise from_fault(fault) from None


async def _retries(call: Call) -> tuple[str, str, WaitingRetries]:
    """The vhost and the name of the queue in the path, and its messages that wait. Raises as
    `inspected`.
    """
    vhost = call.vhost()
    queue = call.facade.declared_queue(vhost, call.path("queue"))
    if queue is None or queue.kind != QUORUM:
        vhost, inspection = await inspected(call)
        return vhost, inspection.queue.name, inspection.retries
    await require(call, vhost, (QUEUE, queue.name, "read"))
    retries = call.facade.retries_here(vhost, queue.name)
    if retries is None:
        raise bad_request("no node leads the queue now: try again")
    return vhost, queue.name, retries


def _chosen(body: dict[str, Any]) -> ChosenRetries:
    """The messages that a request names. Raises 400 unless it names some in one way."""
    given = [name for name in CHOICES if name in body]
    if len(given) != 1:
        raise bad_request(_CHOOSE)
    (name,) = given
    value = body[name]
    if name == "all" and value is True:
        return ChosenRetries()
    if name == "message_id" and isinstance(value, str):
        return ChosenRetries(message_id=value)
    if name == "positions" and isinstance(value, list) and _are_positions(value):
        return ChosenRetries(positions=value)
    raise bad_request(_CHOOSE)


def _are_positions(values: list[Any]) -> bool:
    """JSON's true is a number in Python."""
    return len(values) <= POSITIONS_MAX and all(
        isinstance(one, int) and not isinstance(one, bool) for one in values
    )


def _view(one: WaitingRetry) -> dict[str, Any]:
    message = one.message
    return {
        "position": one.position,
        "returns": one.returns,
        "due_at": one.due_ms,
        "exchange": text(message.address.exchange),
        "routing_key": text(message.address.routing_key),
        "properties": properties_to_json(header_of_message(message).properties),
        "payload_bytes": len(message.body),
    }
