"""Exchanges, publishing to them, and bindings."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_plus

import msgspec

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.field_table import encode_table
from leveret.broker.runtime.names import (
    DELAYING_PREFIX,
    EXCHANGE,
    QUEUE,
    resource,
    without_line_breaks,
)
from leveret.broker.sessions.declaring_exchanges import ExchangeProperties
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
from leveret.mgmt.api.other_nodes import ask_others
from leveret.mgmt.api.payloads import decode_payload
from leveret.mgmt.api.properties import PropertyError, header_of_json
from leveret.mgmt.api.routes import Created, NoContent, route
from leveret.mgmt.api.windows import window
from leveret.mgmt.node_facade.facts import BindingFacts, Place
from leveret.mgmt.views import raft
from leveret.mgmt.views.exchanges import (
    binding_view,
    default_binding,
    exchange_view,
    properties_key,
)

RAFT = "raft"
"""The field with the members of the queue in which the messages of an exchange wait."""
SUMMED = ("message_stats", "messages_delayed")
"""The columns of an exchange that are sums over the nodes."""
TYPES = {"q": "queue", "e": "exchange", "queue": "queue", "exchange": "exchange"}


@route("GET", "/exchanges", "/exchanges/{vhost}")
async def list_exchanges(call: Call) -> Any:
    """Exchanges of all vhosts, or of one."""
    message_window = window(call, "msg_rates")
    vhosts, facade = dict.fromkeys(call.listed_vhosts()), call.facade

    def all_exchanges() -> Iterator[Place]:
        for vhost in vhosts:
            yield from ((vhost, name) for name in facade.exchange_names(vhost))

    def find(vhost: str, name: str) -> Place | None:
        return (vhost, name) if vhost in vhosts and facade.has_exchange(vhost, name) else None

    def render(place: Place) -> dict[str, Any] | None:
        exchange = facade.exchange(*place)
        if exchange is None:
            return None
        return exchange_view(exchange, call.node.sampler, message_window)

    def type_of(place: Place) -> str | None:
        exchange = facade.exchange(*place)
        return None if exchange is None else exchange.type

    listing: Listing[Place] = Listing(
        lambda place: place[1],
        render,
        {"vhost": lambda place: place[0], "type": type_of},
        order=lambda place: place,
        find=find,
    )
    return await SummedListing(listing, SUMMED).answer(call, all_exchanges())


@route("GET", "/exchanges/{vhost}/{exchange}")
async def show_exchange(call: Call) -> Any:
    """One exchange."""
    exchange = call.facade.exchange(call.vhost(), call.exchange_name())
    if exchange is None:
        raise not_found()
    shown = exchange_view(exchange, call.node.sampler, window(call, "msg_rates"))
    members = call.facade.details(exchange.vhost, DELAYING_PREFIX + exchange.name)
    shown = {**await summed(call, shown, SUMMED), **members}
    if RAFT in members:
        for node, answer in (await ask_others(call, columns=RAFT)).items():
            other = msgspec.json.decode(answer, type=dict[str, Any])
            if RAFT in other:
                raft.add_part(shown[RAFT], other[RAFT], node)
    return {**shown, "incoming": [], "outgoing": []}


def properties_of(body: dict[str, Any]) -> ExchangeProperties:
    """What a body declares an exchange with. Raises 400."""
    kind = body.get("type", "direct")
    if not isinstance(kind, str):
        raise bad_request(["not_string", kind])
    return ExchangeProperties(
        kind,
        arguments_of(body),
        durable=flag(body, "durable"),
        auto_delete=flag(body, "auto_delete"),
        internal=flag(body, "internal"),
    )


@route("PUT", "/exchanges/{vhost}/{exchange}")
async def declare_exchange(call: Call) -> Any:
    """Declare an exchange."""
    vhost, name = call.vhost(), call.exchange_name()
    await require(call, vhost, (EXCHANGE, without_line_breaks(name), "configure"))
    body = await call.body()
    require_short_name(EXCHANGE, name)
    properties = properties_of(body)
    is_new = not call.facade.has_exchange(vhost, name)
    with acting(call, vhost) as connection:
        await connection.declare_exchange(name, properties)
    return Created(is_new)


@route("DELETE", "/exchanges/{vhost}/{exchange}")
async def delete_exchange(call: Call) -> Any:
    """Delete an exchange; with if-unused=true only if it has no bindings."""
    vhost, name = call.vhost(), call.exchange_name()
    if not call.facade.has_exchange(vhost, name):
        raise not_found()
    if_unused = call.query("if-unused") == "true"
    with acting(call, vhost) as connection:
        await connection.delete_exchange(name, if_unused=if_unused)
    return NoContent()


@route("POST", "/exchanges/{vhost}/{exchange}/publish")
async def publish(call: Call) -> Any:
    """Publish one message, and answer whether it was routed, when it is confirmed."""
    if not call.facade.has_vhost(call.path("vhost")):
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
    text = f"Publishing a message to {resource(EXCHANGE, name, vhost)} with routing key '{key}'"
    await call.note("message.published", EXCHANGE, name, text, vhost, {"routing_key": key})
    routed = await _publish(call, vhost, name, key, header, payload)
    return {"routed": routed}


def _key_of(body: dict[str, Any]) -> str:
    """The routing key; empty if it is null or missing. Raises 400."""
    key = body.get("routing_key")
    if key is not None and not isinstance(key, str):
        raise bad_request(["not_string", key])
    return key or ""


async def _publish(
    call: Call, vhost: str, exchange: str, key: str, header: ContentHeader, payload: bytes
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


async def _of_queues(call: Call, vhost: str) -> list[BindingFacts]:
    """The bindings of all queues to the default exchange."""
    found = []
    for name in call.facade.queue_names(vhost):
        found.append(default_binding(vhost, name))
        await call.node.give_way()
    return found


async def _of_exchange(call: Call, vhost: str, exchange: str) -> list[BindingFacts]:
    """The bindings that were declared from an exchange."""
    found = []
    for binding in call.facade.bindings_from(vhost, exchange):
        found.append(binding)
        await call.node.give_way()
    return found


async def _answer(call: Call, found: Iterable[BindingFacts]) -> Any:
    listing: Listing[BindingFacts] = Listing(
        lambda binding: binding.destination, binding_view, order=_place_in_list
    )
    return await listing.answer(call, found)


def _place_in_list(binding: BindingFacts) -> tuple[Any, ...]:
    """The sort key of a binding, which is unique."""
    arguments = encode_table(binding.arguments) if binding.arguments else b""
    return (*binding[:-1], arguments)


@route("GET", "/bindings", "/bindings/{vhost}")
async def list_bindings(call: Call) -> Any:
    """Bindings of all vhosts, or of one."""
    found: list[BindingFacts] = []
    for vhost in call.listed_vhosts():
        found += await _of_queues(call, vhost)
        for exchange in call.facade.exchange_names(vhost):
            found += await _of_exchange(call, vhost, exchange)
    return await _answer(call, found)


@route("GET", "/exchanges/{vhost}/{exchange}/bindings/source")
async def list_bindings_from(call: Call) -> Any:
    """Bindings from an exchange."""
    vhost, exchange = call.vhost(), call.exchange_name()
    if not exchange:
        return await _answer(call, await _of_queues(call, vhost))
    return await _answer(call, await _of_exchange(call, vhost, exchange))


@route("GET", "/exchanges/{vhost}/{exchange}/bindings/destination")
async def list_bindings_to(call: Call) -> Any:
    """Bindings from other exchanges to this one."""
    found = call.facade.bindings_to_exchange(call.vhost(), call.exchange_name())
    return await _answer(call, found)


@route("GET", "/queues/{vhost}/{queue}/bindings")
async def list_bindings_of_queue(call: Call) -> Any:
    """Bindings to a queue, including that to the default exchange."""
    vhost, queue = call.vhost(), call.path("queue")
    if not call.facade.has_queue(vhost, queue):
        return await _answer(call, [])
    declared = call.facade.bindings_to_queue(vhost, queue)
    return await _answer(call, [default_binding(vhost, queue), *declared])


class Ends(NamedTuple):
    """The ends of bindings: from an exchange to a queue or another exchange."""

    vhost: str
    source: str
    kind: str
    destination: str


def _ends(call: Call) -> Ends:
    """The ends in the path. Raises 404."""
    vhost, facade = call.vhost(), call.facade
    kind = TYPES.get(call.path("kind"))
    if kind is None:
        raise not_found()
    source = call.exchange_name("source")
    destination = call.path("destination") if kind == QUEUE else call.exchange_name("destination")
    is_there = facade.has_queue if kind == QUEUE else facade.has_exchange
    if not facade.has_exchange(vhost, source) or not is_there(vhost, destination):
        raise not_found()
    return Ends(vhost, source, kind, destination)


def _between(call: Call, ends: Ends) -> list[BindingFacts]:
    """The bindings from one to the other; the default exchange has one to each queue."""
    vhost, source, kind, destination = ends
    if not source and kind == QUEUE:
        return [default_binding(vhost, destination)]
    return [
        binding
        for binding in call.facade.bindings_from(vhost, source)
        if binding.destination == destination and binding.destination_kind == kind
    ]


@route("GET", "/bindings/{vhost}/e/{source}/{kind}/{destination}")
async def list_bindings_between(call: Call) -> Any:
    """Bindings from an exchange to a queue or another exchange."""
    return await _answer(call, _between(call, _ends(call)))


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


async def _find(call: Call) -> BindingFacts:
    """The binding in the path. Raises 404."""
    wanted = call.path("props")
    bindings = _between(call, _ends(call))
    for name in (wanted, _without_null(wanted)):
        for binding in bindings:
            if name and _is_called(binding, name):
                return binding
            await call.node.give_way()
    raise not_found()


def _without_null(wanted: str) -> str | None:
    """The properties key of the empty key for that of null, which differs in RabbitMQ."""
    key, _, digest = wanted.partition("~")
    return f"~{digest}" if key == "null" else None


def _is_called(binding: BindingFacts, wanted: str) -> bool:
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
    return binding_view(await _find(call))


@route("DELETE", "/bindings/{vhost}/e/{source}/{kind}/{destination}/{props}")
async def delete_binding(call: Call) -> Any:
    """Delete a binding."""
    binding = await _find(call)
    if not binding.source:
        raise not_authorised("Access refused.")
    with acting(call, binding.vhost) as connection:
        is_queue = binding.destination_kind == QUEUE
        unbind = connection.unbind_queue if is_queue else connection.unbind_exchange
        await unbind(binding.destination, binding.source, binding.routing_key, binding.arguments)
    return NoContent()
