"""Exchanges, publishing to them, and bindings."""

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote_plus

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.field_table import encode_table
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.names import EXCHANGE, QUEUE, resource, without_line_breaks
from leveret.broker.sessions.declaring_exchanges import ExchangeProperties
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import (
    acting,
    arguments_of,
    as_closed_channel,
    connect,
    flag,
    require,
    require_short_name,
)
from leveret.mgmt.api.errors import bad_request, not_authorised, not_found
from leveret.mgmt.api.joint_listing import SummedListing, summed
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.payloads import decode_payload
from leveret.mgmt.api.properties import PropertyError, header_of_json
from leveret.mgmt.api.routes import Created, NoContent, route
from leveret.mgmt.api.windows import window
from leveret.mgmt.views.exchanges import (
    ShownBinding,
    binding_view,
    default_binding,
    exchange_view,
    properties_key,
    shown_binding,
)

SUMMED = ("message_stats",)
"""The columns of an exchange that are sums over the nodes."""
TYPES = {"q": "queue", "e": "exchange", "queue": "queue", "exchange": "exchange"}


@route("GET", "/exchanges", "/exchanges/{vhost}")
async def list_exchanges(call: Call) -> Any:
    """Exchanges of all vhosts, or of one."""
    message_window = window(call, "msg_rates")
    vhosts = {vhost.name: vhost for vhost in call.listed_vhosts()}

    def all_exchanges() -> Iterator[tuple[VirtualHost, Exchange]]:
        for vhost in vhosts.values():
            yield from ((vhost, one) for one in tuple(vhost.exchanges.values()))

    def find(vhost: str, name: str) -> tuple[VirtualHost, Exchange] | None:
        one = vhosts[vhost].exchanges.get(name) if vhost in vhosts else None
        return None if one is None else (vhosts[vhost], one)

    listing: Listing[tuple[VirtualHost, Exchange]] = Listing(
        lambda pair: pair[1].name,
        lambda pair: exchange_view(*pair, call.node.sampler, message_window),
        {"vhost": lambda pair: pair[0].name, "type": lambda pair: pair[1].type_name},
        find=find,
    )
    return await SummedListing(listing, SUMMED).answer(call, all_exchanges())


@route("GET", "/exchanges/{vhost}/{exchange}")
async def show_exchange(call: Call) -> Any:
    """One exchange."""
    vhost = call.vhost()
    exchange = call.exchange(vhost)
    shown = exchange_view(vhost, exchange, call.node.sampler, window(call, "msg_rates"))
    return {**await summed(call, shown, SUMMED), "incoming": [], "outgoing": []}


@route("PUT", "/exchanges/{vhost}/{exchange}")
async def declare_exchange(call: Call) -> Any:
    """Declare an exchange."""
    vhost, name = call.vhost(), call.exchange_name()
    await require(call, vhost, (EXCHANGE, without_line_breaks(name), "configure"))
    body = await call.body()
    require_short_name(EXCHANGE, name)
    kind = body.get("type", "direct")
    if not isinstance(kind, str):
        raise bad_request(["not_string", kind])
    is_new = name not in vhost.exchanges
    properties = ExchangeProperties(
        kind,
        arguments_of(body),
        durable=flag(body, "durable"),
        auto_delete=flag(body, "auto_delete"),
        internal=flag(body, "internal"),
    )
    with acting(call, vhost) as connection:
        await connection.declare_exchange(name, properties)
    return Created(is_new)


@route("DELETE", "/exchanges/{vhost}/{exchange}")
async def delete_exchange(call: Call) -> Any:
    """Delete an exchange; with if-unused=true only if it has no bindings."""
    vhost = call.vhost()
    exchange = call.exchange(vhost)
    if_unused = call.query("if-unused") == "true"
    with acting(call, vhost) as connection:
        await connection.delete_exchange(exchange.name, if_unused=if_unused)
    return NoContent()


@route("POST", "/exchanges/{vhost}/{exchange}/publish")
async def publish(call: Call) -> Any:
    """Publish one message, and answer whether it was routed, when it is confirmed."""
    if call.path("vhost") not in call.broker.services.vhosts:
        raise not_authorised("Access refused.")
    vhost, name = call.vhost(), call.exchange_name()
    await require(call, vhost, (EXCHANGE, name, "write"))
    body = await call.body("properties", "payload", "payload_encoding", nullable=("routing_key",))
    key = _key_of(body)
    payload = await decode_payload(body["payload"], body["payload_encoding"], call.node.give_way)
    try:
        header = header_of_json(body["properties"])
    except PropertyError as error:
        raise bad_request(error.reason) from None
    text = (
        f"Publishing a message to {resource(EXCHANGE, name, vhost.name)} with routing key '{key}'"
    )
    await call.note("message.published", EXCHANGE, name, text, vhost.name, {"routing_key": key})
    routed = await _publish(call, vhost, name, key, header, payload)
    return {"routed": routed}


def _key_of(body: dict[str, Any]) -> str:
    """The routing key; empty if it is null or missing. Raises 400."""
    key = body.get("routing_key")
    if key is not None and not isinstance(key, str):
        raise bad_request(["not_string", key])
    return key or ""


async def _publish(
    call: Call, vhost: VirtualHost, exchange: str, key: str, header: ContentHeader, payload: bytes
) -> bool:
    try:
        with connect(call, vhost) as connection:
            is_routed = await connection.publish(exchange, key, header, payload)
            if not await connection.confirmed():
                raise bad_request("rejected Unable to publish message. Check queue limits.")
            return is_routed
    except ValueError as error:
        raise bad_request(str(error)) from None
    except (ChannelFault, ConnectionFault) as fault:
        raise as_closed_channel(fault) from None


# Bindings


async def _of_queues(call: Call, vhost: VirtualHost) -> list[ShownBinding]:
    """The bindings of all queues to the default exchange."""
    found = []
    for name in tuple(vhost.queues):
        found.append(default_binding(vhost, name))
        await call.node.give_way()
    return found


async def _of_exchange(call: Call, vhost: VirtualHost, exchange: Exchange) -> list[ShownBinding]:
    """The bindings that were declared from an exchange."""
    found = []
    for binding in tuple(exchange.bindings.values()):
        found.append(shown_binding(vhost, binding))
        await call.node.give_way()
    return found


async def _answer(call: Call, found: Iterable[ShownBinding]) -> Any:
    listing: Listing[ShownBinding] = Listing(
        lambda binding: binding.destination, binding_view, order=_place_in_list
    )
    return await listing.answer(call, found)


def _place_in_list(binding: ShownBinding) -> tuple[Any, ...]:
    """What a binding is ordered by, which differs from that of each other binding."""
    arguments = encode_table(binding.arguments) if binding.arguments else b""
    return (*binding[:-1], arguments)


@route("GET", "/bindings", "/bindings/{vhost}")
async def list_bindings(call: Call) -> Any:
    """Bindings of all vhosts, or of one."""
    found: list[ShownBinding] = []
    for vhost in call.listed_vhosts():
        found += await _of_queues(call, vhost)
        for exchange in tuple(vhost.exchanges.values()):
            found += await _of_exchange(call, vhost, exchange)
    return await _answer(call, found)


@route("GET", "/exchanges/{vhost}/{exchange}/bindings/source")
async def list_bindings_from(call: Call) -> Any:
    """Bindings from an exchange."""
    vhost = call.vhost()
    exchange = vhost.exchanges.get(call.exchange_name())
    if exchange is None:
        return await _answer(call, [])
    if not exchange.name:
        return await _answer(call, await _of_queues(call, vhost))
    return await _answer(call, await _of_exchange(call, vhost, exchange))


@route("GET", "/exchanges/{vhost}/{exchange}/bindings/destination")
async def list_bindings_to(call: Call) -> Any:
    """Bindings from other exchanges to this one."""
    vhost = call.vhost()
    exchange = vhost.exchanges.get(call.exchange_name())
    found = () if exchange is None else exchange.incoming.values()
    return await _answer(call, [shown_binding(vhost, binding) for binding in found])


@route("GET", "/queues/{vhost}/{queue}/bindings")
async def list_bindings_of_queue(call: Call) -> Any:
    """Bindings to a queue, including that to the default exchange."""
    vhost = call.vhost()
    queue = vhost.queues.get(call.path("queue"))
    if queue is None:
        return await _answer(call, [])
    declared = [shown_binding(vhost, binding) for binding in queue.bindings.values()]
    return await _answer(call, [default_binding(vhost, queue.name), *declared])


def _ends(call: Call) -> tuple[VirtualHost, Exchange, QueueClient | Exchange, str]:
    """The vhost, source, destination and kind of destination in the path. Raises 404."""
    vhost = call.vhost()
    kind = TYPES.get(call.path("kind"))
    if kind is None:
        raise not_found()
    source = vhost.exchanges.get(call.exchange_name("source"))
    destination: QueueClient | Exchange | None
    if kind == QUEUE:
        destination = vhost.queues.get(call.path("destination"))
    else:
        destination = vhost.exchanges.get(call.exchange_name("destination"))
    if source is None or destination is None:
        raise not_found()
    return vhost, source, destination, kind


def _between(
    vhost: VirtualHost, source: Exchange, destination: QueueClient | Exchange, kind: str
) -> list[ShownBinding]:
    """The bindings from one to the other; the default exchange has one to each queue."""
    if not source.name and kind == QUEUE:
        return [default_binding(vhost, destination.name)]
    return [
        shown_binding(vhost, binding)
        for binding in source.bindings.values()
        if binding.destination is destination
    ]


@route("GET", "/bindings/{vhost}/e/{source}/{kind}/{destination}")
async def list_bindings_between(call: Call) -> Any:
    """Bindings from an exchange to a queue or another exchange."""
    return await _answer(call, _between(*_ends(call)))


@route("POST", "/bindings/{vhost}/e/{source}/{kind}/{destination}")
async def declare_binding(call: Call) -> Any:
    """Bind a queue or an exchange to an exchange."""
    vhost = call.vhost()
    kind = TYPES.get(call.path("kind"))
    if kind is None:
        raise not_found()
    source = call.exchange_name("source")
    destination = call.path("destination") if kind == QUEUE else call.exchange_name("destination")
    await require(call, vhost, (kind, destination, "write"), (EXCHANGE, source, "read"))
    body = await call.body()
    key = _key_of(body)
    arguments = arguments_of(body)
    with acting(call, vhost) as connection:
        bind = connection.bind_queue if kind == QUEUE else connection.bind_exchange
        await bind(destination, source, key, arguments)
    place = quote(properties_key(key, arguments), safe="~")
    return Created(location=f"{quote(call.path('destination'), safe='')}/{place}")


async def _find(call: Call) -> tuple[VirtualHost, ShownBinding]:
    """The binding in the path. Raises 404."""
    vhost, source, destination, kind = _ends(call)
    wanted = call.path("props")
    bindings = _between(vhost, source, destination, kind)
    for name in (wanted, _without_null(wanted)):
        for binding in bindings:
            if name and _is_called(binding, name):
                return vhost, binding
            await call.node.give_way()
    raise not_found()


def _without_null(wanted: str) -> str | None:
    """The properties key of the empty key for that of null, which is another one in RabbitMQ."""
    key, _, digest = wanted.partition("~")
    return f"~{digest}" if key == "null" else None


def _is_called(binding: ShownBinding, wanted: str) -> bool:
    """Whether the properties key is the binding's; some clients encode it once, some twice."""
    if not binding.source:
        return unquote_plus(wanted) == binding.routing_key
    key = properties_key(binding.routing_key, binding.arguments)
    if key in (wanted, quote(wanted, safe="~+")) or unquote_plus(key) == unquote_plus(wanted):
        return True
    return not binding.arguments and binding.routing_key == wanted


@route("GET", "/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}")
async def show_binding(call: Call) -> Any:
    """One binding."""
    _, binding = await _find(call)
    return binding_view(binding)


@route("DELETE", "/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}")
async def delete_binding(call: Call) -> Any:
    """Delete a binding."""
    vhost, binding = await _find(call)
    if not binding.source:
        raise not_authorised("Access refused.")
    with acting(call, vhost) as connection:
        is_queue = binding.destination_kind == QUEUE
        unbind = connection.unbind_queue if is_queue else connection.unbind_exchange
        await unbind(binding.destination, binding.source, binding.routing_key, binding.arguments)
    return NoContent()
