"""Super streams: an exchange, the streams that are its partitions, and a binding for each.

What was declared of a super stream is deleted if a part of it is refused.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.queue_kind import STREAM, TYPE_ARGUMENT
from leveret.broker.queues.contract.stream_arguments import ORDER_ARGUMENT, SUPER_STREAM_ARGUMENT
from leveret.broker.runtime.names import EXCHANGE, QUEUE
from leveret.broker.sessions.declaring_exchanges import ExchangeProperties
from leveret.broker.sessions.declaring_queues import QueueProperties
from leveret.broker.sessions.direct import DirectConnection
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import acting, arguments_of, require, require_short_name
from leveret.mgmt.api.errors import bad_request, not_found
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.routes import Created, NoContent, route
from leveret.mgmt.node_facade.facts import BindingFacts, ExchangeFacts

PARTITIONS_MAX: Final = 1000


@route("PUT", "/stream/super-streams/{vhost}/{name}")
async def declare_super_stream(call: Call) -> Any:
    """Declare a super stream: with a number of `partitions`, or with `binding-keys`.

    The keys are a text with commas. The `arguments` are those of each stream.
    """
    vhost, name = call.vhost(), call.path("name")
    body = await call.body()
    keys = _keys(body)
    streams = [f"{name}-{key}" for key in keys]
    require_short_name(EXCHANGE, name)
    for stream in streams:
        require_short_name(QUEUE, stream)
    names = [(EXCHANGE, name), *((QUEUE, stream) for stream in streams)]
    await require(call, vhost, *((kind, one, "configure") for kind, one in names))
    _require_new(call, vhost, name, streams)
    properties = QueueProperties(
        durable=True, arguments={TYPE_ARGUMENT: ("S", STREAM), **arguments_of(body)}
    )
    with acting(call, vhost) as connection:
        try:
            await _declare(connection, name, dict(zip(streams, keys, strict=True)), properties)
        except (ChannelFault, ConnectionFault):
            await _delete(connection, name, streams)
            raise
    return Created(True)


@route("GET", "/stream/super-streams", "/stream/super-streams/{vhost}")
async def list_super_streams(call: Call) -> Any:
    """Super streams, each with its partitions in their order."""
    facade, vhosts = call.facade, call.listed_vhosts()

    def all_super_streams() -> Iterator[ExchangeFacts]:
        for vhost in vhosts:
            yield from filter(is_super_stream, facade.exchanges(vhost))

    listing: Listing[ExchangeFacts] = Listing(
        lambda one: one.name,
        lambda one: _view(call, one.vhost, one.name),
        {"vhost": lambda one: one.vhost},
    )
    return await listing.answer(call, all_super_streams())


def _view(call: Call, vhost: str, name: str) -> dict[str, Any]:
    return {
        "name": text(name), "vhost": text(vhost),
        "partitions": [
            {"stream": text(one.destination), "routing_key": text(one.routing_key)}
            for one in _partitions(call, vhost, name)
        ],
    }  # fmt: skip


@route("DELETE", "/stream/super-streams/{vhost}/{name}")
async def delete_super_stream(call: Call) -> Any:
    """Delete a super stream: its exchange and its partitions."""
    vhost, name = call.vhost(), call.path("name")
    exchange = call.facade.exchange(vhost, name)
    if exchange is None or not is_super_stream(exchange):
        raise not_found()
    streams = [one.destination for one in _partitions(call, vhost, name)]
    with acting(call, vhost) as connection:
        await _delete(connection, name, dict.fromkeys(streams))
    return NoContent()


def is_super_stream(exchange: ExchangeFacts) -> bool:
    """Whether an exchange is that of a super stream."""
    return exchange.arguments.get(SUPER_STREAM_ARGUMENT) == ("t", True)


def _partitions(call: Call, vhost: str, name: str) -> list[BindingFacts]:
    """The bindings to the streams of a super stream, in their order."""
    bindings = call.facade.bindings_from(vhost, name)
    return sorted((one for one in bindings if _is_to_stream(call, one)), key=_order)


def _order(binding: BindingFacts) -> tuple[int, str]:
    """The place of a partition. Those without one are the last ones."""
    order = binding.arguments.get(ORDER_ARGUMENT, ("V", None))[1]
    return (order if isinstance(order, int) else sys.maxsize, binding.destination)


def _keys(body: dict[str, Any]) -> list[str]:
    """The keys of the partitions. Raises 400."""
    count, keys = body.get("partitions"), body.get("binding-keys")
    if (count is None) == (keys is None):
        raise bad_request("give either the number of partitions, or binding-keys")
    if isinstance(keys, str):
        found = [key.strip() for key in keys.split(",")]
        if not all(found) or len(set(found)) < len(found) or len(found) > PARTITIONS_MAX:
            raise bad_request(
                f"binding-keys are different texts with commas, at most {PARTITIONS_MAX}"
            )
        return found
    if type(count) is not int or not 1 <= count <= PARTITIONS_MAX:
        raise bad_request(f"partitions are a number from 1 to {PARTITIONS_MAX}")
    return [str(number) for number in range(count)]


def _require_new(call: Call, vhost: str, name: str, streams: list[str]) -> None:
    """Raise 400 if there is an exchange or a queue with one of the names."""
    if call.facade.has_exchange(vhost, name):
        raise bad_request(f"there is an exchange '{name}'")
    for stream in streams:
        if call.facade.has_queue(vhost, stream):
            raise bad_request(f"there is a queue '{stream}'")


def _is_to_stream(call: Call, binding: BindingFacts) -> bool:
    queue = None
    if binding.destination_kind == QUEUE:
        queue = call.facade.declared_queue(binding.vhost, binding.destination)
    return queue is not None and queue.kind == STREAM


async def _declare(
    connection: DirectConnection, name: str, keys: dict[str, str], properties: QueueProperties
) -> None:
    """Declare everything. keys: of the bindings, by the names of the streams."""
    arguments = {SUPER_STREAM_ARGUMENT: ("t", True)}
    await connection.declare_exchange(name, ExchangeProperties("direct", arguments, durable=True))
    for order, (stream, key) in enumerate(keys.items()):
        await connection.declare_queue(stream, properties)
        await connection.bind_queue(stream, name, key, {ORDER_ARGUMENT: ("l", order)})


async def _delete(connection: DirectConnection, name: str, streams: Iterable[str]) -> None:
    for stream in streams:
        await connection.delete_queue(stream, if_unused=False, if_empty=False)
    await connection.delete_exchange(name, if_unused=False)
