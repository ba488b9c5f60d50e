"""Exchanges, publishing to them, and bindings."""

import base64
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, unquote_plus

from pamqp import base, commands

from broker.amqp.errors import ChannelFault, ConnectionFault
from broker.amqp.properties import ContentHeader
from broker.binding import Binding, Exchange
from broker.names import EXCHANGE, QUEUE
from broker.queues.actor import Queue
from broker.vhost import VirtualHost
from mgmt.api.call import Call
from mgmt.api.directly import (
    arguments_of,
    as_closed_channel,
    connect,
    do,
    flag,
    make,
    require_short_name,
)
from mgmt.api.errors import bad_request, not_authorised, not_found
from mgmt.api.listing import Listing
from mgmt.api.routes import Created, NoContent, route
from mgmt.api.windows import window
from mgmt.properties import PropertyError, header_of_json
from mgmt.views.exchanges import binding_view, default_binding_view, exchange_view, properties_key

TYPES = {"q": "queue", "e": "exchange", "queue": "queue", "exchange": "exchange"}


@route("GET", "/exchanges", "/exchanges/{vhost}")
async def list_exchanges(call: Call) -> Any:
    """Exchanges of all vhosts, or of one."""
    message_window = window(call, "msg_rates")
    found = [(vhost, one) for vhost in call.listed_vhosts() for one in vhost.exchanges.values()]
    listing: Listing[tuple[VirtualHost, Exchange]] = Listing(
        lambda pair: pair[1].name,
        lambda pair: exchange_view(*pair, call.node.sampler, message_window),
        {"vhost": lambda pair: pair[0].name, "type": lambda pair: pair[1].type_name},
    )
    return await listing.answer(call, found)


@route("GET", "/exchanges/{vhost}/{exchange}")
async def show_exchange(call: Call) -> Any:
    """One exchange."""
    vhost = call.vhost()
    exchange = call.exchange(vhost)
    shown = exchange_view(vhost, exchange, call.node.sampler, window(call, "msg_rates"))
    return {**shown, "incoming": [], "outgoing": []}


@route("PUT", "/exchanges/{vhost}/{exchange}")
async def declare_exchange(call: Call) -> Any:
    """Declare an exchange."""
    vhost, name = call.vhost(), call.exchange_name()
    body = await call.body()
    require_short_name(EXCHANGE, name)
    kind = body.get("type", "direct")
    if not isinstance(kind, str):
        raise bad_request(["not_string", kind])
    is_new = name not in vhost.exchanges
    await do(
        call,
        vhost,
        make(
            commands.Exchange.Declare,
            exchange=name,
            exchange_type=kind,
            durable=flag(body, "durable"),
            auto_delete=flag(body, "auto_delete"),
            internal=flag(body, "internal"),
            arguments=arguments_of(body),
        ),
    )
    return Created(is_new)


@route("DELETE", "/exchanges/{vhost}/{exchange}")
async def delete_exchange(call: Call) -> Any:
    """Delete an exchange; with if-unused=true only if nothing is bound from it."""
    vhost = call.vhost()
    exchange = call.exchange(vhost)
    if_unused = call.query("if-unused") == "true"
    await do(
        call, vhost, make(commands.Exchange.Delete, exchange=exchange.name, if_unused=if_unused)
    )
    return NoContent()


@route("POST", "/exchanges/{vhost}/{exchange}/publish")
async def publish(call: Call) -> Any:
    """Publish one message, and say whether it was routed."""
    if call.path("vhost") not in call.broker.services.vhosts:
        raise not_authorised("Access refused.")
    vhost, name = call.vhost(), call.exchange_name()
    body = await call.body("routing_key", "properties", "payload", "payload_encoding")
    key, payload = body["routing_key"], payload_of(body["payload"], body["payload_encoding"])
    if not isinstance(key, str):
        raise bad_request(["not_string", key])
    try:
        header = header_of_json(body["properties"])
    except PropertyError as error:
        raise bad_request(error.reason) from None
    routed = await _publish(call, vhost, name, key, header, payload)
    return {"routed": routed}


async def _publish(
    call: Call, vhost: VirtualHost, exchange: str, key: str, header: ContentHeader, payload: bytes
) -> bool:
    try:
        with connect(call, vhost) as connection:
            return await connection.publish(exchange, key, header, payload)
    except ValueError as error:
        raise bad_request(str(error)) from None
    except (ChannelFault, ConnectionFault) as fault:
        raise as_closed_channel(fault) from None


def payload_of(payload: Any, encoding: Any) -> bytes:
    """The bytes of a body. Raises 400."""
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if encoding == "string":
        return payload.encode()
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(payload, validate=True)
    except ValueError:
        raise bad_request(["not_base64", payload]) from None


# Bindings

Bound = tuple[VirtualHost, Binding | Queue]
"""A binding; or a queue, for its binding to the default exchange."""


def _bindings_of(vhost: VirtualHost) -> Iterable[Bound]:
    for queue in vhost.queues.values():
        yield vhost, queue
    for exchange in vhost.exchanges.values():
        for binding in exchange.bindings.values():
            yield vhost, binding


def _render(bound: Bound) -> dict[str, Any]:
    vhost, binding = bound
    if isinstance(binding, Queue):
        return default_binding_view(vhost, binding)
    return binding_view(vhost, binding)


def _place(bound: Bound) -> tuple[str, ...]:
    """What bindings are in the order of."""
    vhost, binding = bound
    if isinstance(binding, Queue):
        return vhost.name, "", QUEUE, binding.name, binding.name
    return (
        vhost.name, binding.source.name, binding.destination_kind, binding.destination.name,
        binding.routing_key,
    )  # fmt: skip


async def _answer(call: Call, found: Iterable[Bound]) -> Any:
    listing: Listing[Bound] = Listing(
        lambda bound: bound[1].name if isinstance(bound[1], Queue) else bound[1].destination.name,
        _render,
        order=_place,
    )
    return await listing.answer(call, found)


@route("GET", "/bindings", "/bindings/{vhost}")
async def list_bindings(call: Call) -> Any:
    """Bindings of all vhosts, or of one."""
    return await _answer(
        call, [bound for vhost in call.listed_vhosts() for bound in _bindings_of(vhost)]
    )


@route("GET", "/exchanges/{vhost}/{exchange}/bindings/source")
async def list_bindings_from(call: Call) -> Any:
    """Bindings from an exchange."""
    vhost = call.vhost()
    exchange = vhost.exchanges.get(call.exchange_name())
    if exchange is None:
        return await _answer(call, [])
    if not exchange.name:
        return await _answer(call, [(vhost, queue) for queue in vhost.queues.values()])
    return await _answer(call, [(vhost, binding) for binding in exchange.bindings.values()])


@route("GET", "/exchanges/{vhost}/{exchange}/bindings/destination")
async def list_bindings_to(call: Call) -> Any:
    """Bindings from other exchanges to this one."""
    vhost = call.vhost()
    exchange = vhost.exchanges.get(call.exchange_name())
    found = () if exchange is None else exchange.incoming.values()
    return await _answer(call, [(vhost, binding) for binding in found])


@route("GET", "/queues/{vhost}/{queue}/bindings")
async def list_bindings_of_queue(call: Call) -> Any:
    """Bindings to a queue, that to the default exchange among them."""
    vhost = call.vhost()
    queue = vhost.queues.get(call.path("queue"))
    if queue is None:
        return await _answer(call, [])
    return await _answer(
        call, [(vhost, queue), *((vhost, binding) for binding in queue.bindings.values())]
    )


def _ends(call: Call) -> tuple[VirtualHost, Exchange, Queue | Exchange, str]:
    """Raises 404 if an end is missing."""
    vhost = call.vhost()
    kind = TYPES.get(call.path("kind"))
    if kind is None:
        raise not_found()
    source = vhost.exchanges.get(call.exchange_name("source"))
    destination: Queue | Exchange | None
    if kind == QUEUE:
        destination = vhost.queues.get(call.path("destination"))
    else:
        destination = vhost.exchanges.get(call.exchange_name("destination"))
    if source is None or destination is None:
        raise not_found()
    return vhost, source, destination, kind


def _between(source: Exchange, destination: Queue | Exchange) -> list[Binding]:
    return [one for one in source.bindings.values() if one.destination is destination]


@route("GET", "/bindings/{vhost}/e/{source}/{kind}/{destination}")
async def list_bindings_between(call: Call) -> Any:
    """Bindings from an exchange to a queue or another exchange."""
    vhost, source, destination, _ = _ends(call)
    if not source.name and isinstance(destination, Queue):
        return await _answer(call, [(vhost, destination)])
    return await _answer(call, [(vhost, one) for one in _between(source, destination)])


@route("POST", "/bindings/{vhost}/e/{source}/{kind}/{destination}")
async def bind(call: Call) -> Any:
    """Bind a queue or an exchange to an exchange."""
    vhost = call.vhost()
    kind = TYPES.get(call.path("kind"))
    if kind is None:
        raise not_found()
    body = await call.body()
    key = body.get("routing_key", "")
    if not isinstance(key, str):
        raise bad_request(["not_string", key])
    arguments = arguments_of(body)
    where: dict[str, Any] = {"routing_key": key, "arguments": arguments}
    source = call.exchange_name("source")
    if kind == QUEUE:
        destination = call.path("destination")
        await do(
            call, vhost, make(commands.Queue.Bind, queue=destination, exchange=source, **where)
        )
    else:
        destination = call.exchange_name("destination")
        await do(
            call,
            vhost,
            make(commands.Exchange.Bind, destination=destination, source=source, **where),
        )
    place = quote(properties_key(key, arguments), safe="~")
    return Created(location=f"{quote(call.path('destination'), safe='')}/{place}")


def _find(call: Call) -> tuple[VirtualHost, Binding | Queue]:
    vhost, source, destination, _ = _ends(call)
    wanted = call.path("props")
    if not source.name and isinstance(destination, Queue):
        if unquote_plus(wanted) == destination.name:
            return vhost, destination
        raise not_found()
    for binding in _between(source, destination):
        if _is_called(binding, wanted):
            return vhost, binding
    raise not_found()


def _is_called(binding: Binding, wanted: str) -> bool:
    """Whether the properties key is the binding's; some clients encode it once, some twice."""
    key = properties_key(binding.routing_key, binding.arguments)
    if key in (wanted, quote(wanted, safe="~+")) or unquote_plus(key) == unquote_plus(wanted):
        return True
    return not binding.arguments and binding.routing_key == wanted


@route("GET", "/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}")
async def show_binding(call: Call) -> Any:
    """One binding."""
    return _render(_find(call))


@route("DELETE", "/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}")
async def unbind(call: Call) -> Any:
    """Take a binding away."""
    vhost, binding = _find(call)
    if isinstance(binding, Queue):
        raise not_authorised("Access refused.")
    names: dict[str, Any] = {"routing_key": binding.routing_key, "arguments": binding.arguments}
    method: base.Frame
    end, source = binding.destination.name, binding.source.name
    if binding.destination_kind == QUEUE:
        method = make(commands.Queue.Unbind, queue=end, exchange=source, **names)
    else:
        method = make(commands.Exchange.Unbind, destination=end, source=source, **names)
    await do(call, vhost, method)
    return NoContent()
