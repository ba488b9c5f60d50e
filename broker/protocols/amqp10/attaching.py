"""Attaches links: finds the objects that their addresses name, checks them, and declares them if
needed.

The checks, their order and their texts are RabbitMQ's (rabbit_amqp_session.erl). The functions
raise SessionEnds and ChannelFault.
"""

from typing import Final

from leveret.broker.amqp.errors import ChannelFault, not_found
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.properties import DIRECT_REPLY_TO
from leveret.broker.amqp10.values import Value
from leveret.broker.erlang.terms import Atom, format_term
from leveret.broker.protocols.amqp10.addresses import (
    DEFAULT_EXCHANGE,
    MANAGEMENT,
    AddressError,
    ExchangeAddress,
    QueueAddress,
    read_source,
    read_target,
)
from leveret.broker.protocols.amqp10.amqp10_session import Amqp10Session
from leveret.broker.protocols.amqp10.conditions import (
    FRAMING_ERROR,
    HANDLE_IN_USE,
    INVALID_FIELD,
    NOT_IMPLEMENTED,
    UNAUTHORIZED_ACCESS,
    SessionEnds,
)
from leveret.broker.protocols.amqp10.dynamic_links import (
    attach_replies,
    check_dynamic,
    declare_temporary_source,
    declare_temporary_target,
    wants_replies,
)
from leveret.broker.protocols.amqp10.incoming_link import IncomingLink
from leveret.broker.protocols.amqp10.management_links import ManagementPair
from leveret.broker.protocols.amqp10.outgoing_link import OutgoingLink
from leveret.broker.protocols.amqp10.performatives import (
    FIRST,
    MIXED,
    OUTCOME_NAMES,
    RECEIVER,
    SECOND,
    SENDER,
    SETTLED,
    UNSETTLED,
    Attach,
    Released,
    Source,
    Target,
)
from leveret.broker.protocols.amqp10.source_filters import read_filters
from leveret.broker.queues.contract.arguments import CONSUMER_TIMEOUT
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.names import EXCHANGE, QUEUE, resource
from leveret.broker.sessions import consuming, declaring_bindings, declaring_queues
from leveret.broker.sessions.access import check
from leveret.broker.sessions.consuming import ConsumerProperties
from leveret.broker.sessions.declaring_queues import QueueProperties

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
_PAIRED: Final = "paired"
_PRIORITY: Final = "rabbitmq:priority"
_TIMEOUT: Final = "rabbitmq:consumer-timeout"
_COPY: Final = "copy"
_MOVE: Final = "move"
_FILTERS: Final = ["AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0"]
"""The capabilities of links from streams, since RabbitMQ 4.2."""


async def attach(session: Amqp10Session, request: Attach) -> None:
    """Attach a link, and answer."""
    session.check_handle(request.handle)
    if session.has_handle(request.handle):
        if session.is_as_rabbitmq_4_3:
            raise SessionEnds(
                HANDLE_IN_USE, f"handle {request.handle} is already associated with a link"
            )
        await session.replace(request.handle)
    try:
        await _attach(session, request)
    except (SessionEnds, ChannelFault) as error:
        if not session.is_as_rabbitmq_4_3:
            raise
        _refuse(session, request, error)


def _refuse(session: Amqp10Session, request: Attach, error: SessionEnds | ChannelFault) -> None:
    """Refuse a link: attach it without a terminus, then detach it (part 2, section 2.6.3)."""
    session.send(Attach(request.name, request.handle, not request.role))
    session.detach_with(request.handle, error)


async def _attach(session: Amqp10Session, request: Attach) -> None:
    _check(request)
    if _is_management(request):
        _attach_management(session, request)
    elif request.role is SENDER:
        await _attach_incoming(session, request)
    else:
        await _attach_outgoing(session, request)


def _check(request: Attach) -> None:
    if request.snd_settle_mode not in (None, UNSETTLED, SETTLED, MIXED):
        raise SessionEnds(INVALID_FIELD, f"snd-settle-mode is {request.snd_settle_mode}")
    if request.incomplete_unsettled or (request.unsettled is not None and request.unsettled.value):
        raise SessionEnds(NOT_IMPLEMENTED, "Link recovery not supported")
    if request.target is not None and request.target.is_coordinator:
        raise SessionEnds(NOT_IMPLEMENTED, "Transactions not supported")
    if request.rcv_settle_mode == SECOND and request.snd_settle_mode != SETTLED:
        raise SessionEnds(NOT_IMPLEMENTED, "rcv-settle-mode second not supported")


def _refused(session: Amqp10Session, reason: str) -> SessionEnds:
    """The error of a link that asks for something invalid. reason: an Erlang term, as text."""
    verb = "refused" if session.is_as_rabbitmq_4_3 else "rejected"
    return SessionEnds(INVALID_FIELD, f"Attach {verb}: {reason}")


# Links of publishers


async def _attach_incoming(session: Amqp10Session, request: Attach) -> None:
    target = request.target or Target()
    if target.dynamic:
        check_dynamic(session, "target")
        await _check_exchange(session, ExchangeAddress(DEFAULT_EXCHANGE, None))
        name, target = await declare_temporary_target(session, request, target)
        session.temporary_queues[request.handle] = name
        address: ExchangeAddress | None = ExchangeAddress(DEFAULT_EXCHANGE, name)
    else:
        address = await _target_of(session, target)
    size_max = min(MESSAGE_BYTES_MAX, session.message_bytes_max)
    mode_error = INVALID_FIELD if session.is_as_rabbitmq_4_3 else FRAMING_ERROR
    link = IncomingLink(request, address, size_max, mode_error=mode_error)
    session.incoming[request.handle] = link
    session.send(
        Attach(
            request.name, request.handle, RECEIVER,
            snd_settle_mode=request.snd_settle_mode, rcv_settle_mode=FIRST,
            source=request.source, target=target, max_message_size=size_max,
        )
    )  # fmt: skip
    session.give_credit(link)


async def _target_of(session: Amqp10Session, target: Target) -> ExchangeAddress | None:
    """Where a link sends its messages to; None if each of them says it."""
    permits_version_1 = session.services.config.amqp10.permits_addresses_of_version_1
    try:
        address = read_target(target.address, permits_version_1=permits_version_1)
    except AddressError as error:
        raise _refused(session, str(error)) from None
    if isinstance(address, QueueAddress):
        await _ensure_queue(session, address, bool(target.durable))
        address = ExchangeAddress(DEFAULT_EXCHANGE, address.name)
    if address is not None:
        await _check_exchange(session, address)
    return address


async def _check_exchange(session: Amqp10Session, address: ExchangeAddress) -> None:
    """Raise a fault unless the user may publish to the exchange, and it exists."""
    name, vhost = address.exchange, session.vhost
    await check(session, EXCHANGE, name, "write")
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        raise not_found(f"no {resource(EXCHANGE, name, vhost.name)}")
    if exchange.internal:
        raise SessionEnds(
            UNAUTHORIZED_ACCESS,
            f"forbidden to publish to internal {resource(EXCHANGE, name, vhost.name)}",
        )


async def _ensure_queue(session: Amqp10Session, address: QueueAddress, durable: bool) -> None:
    """Declare the queue of an address of version 1; raise 404 if another one does not exist."""
    name, vhost = address.name, session.vhost
    if name in vhost.queues:
        return
    if name.startswith(f"{DIRECT_REPLY_TO}."):
        await declaring_queues.declare_queue(session, name, None)
        return
    if not address.declares:
        raise not_found(f"no {resource(QUEUE, name, vhost.name)}")
    properties = QueueProperties({}, durable=durable)
    await (await declaring_queues.declare_queue(session, name, properties)).synced


# Links to clients


async def _attach_outgoing(session: Amqp10Session, request: Attach) -> None:
    if request.source is None and session.is_as_rabbitmq_4_3:
        raise _refused(session, "source_required")
    source = request.source or Source()
    handle, tag, outcomes = request.handle, _tag(session, request), _outcomes(source)
    if not source.dynamic:
        queue_name = await _ensure_source(session, source)
    else:
        check_dynamic(session, "source")
        if wants_replies(request, source):
            await attach_replies(session, request, tag, source)
            return
        queue_name, source = await declare_temporary_source(session, request, source)
        session.temporary_queues[handle] = queue_name
    is_settled = request.snd_settle_mode == SETTLED
    kind = session.vhost.queues[queue_name].kind if queue_name in session.vhost.queues else None
    is_log = kind is not None and not kind.removes_messages
    clock = session.services.clock
    filters = read_filters(
        source.filter, is_stream=is_log, now_ms=lambda: int(clock.wall_time_s() * 1000)
    )
    source = source._replace(filter=filters.taken)

    def make(queue: QueueClient, properties: ConsumerProperties) -> OutgoingLink:
        link = OutgoingLink(
            session, session, queue, properties.tag, request._replace(source=source),
            is_settled and queue.kind.removes_messages, properties.arguments,
        )  # fmt: skip
        link.message_filter = filters.message_filter
        link.wants_entries = True
        return link

    def tell(_tag: str) -> None:
        link = session.consumers[tag]
        session.outgoing[handle] = link
        link.begin()
        session.send(
            Attach(
                request.name, handle, SENDER,
                snd_settle_mode=SETTLED if is_settled else UNSETTLED,
                rcv_settle_mode=request.rcv_settle_mode,
                source=_answered(session, source, is_log, outcomes),
                initial_delivery_count=0, max_message_size=request.max_message_size,
                offered_capabilities=_FILTERS if is_log and session.is_as_rabbitmq_4_3 else None,
            )
        )  # fmt: skip

    no_ack = is_settled and kind is not None and kind.removes_messages
    arguments = {**_arguments(request), **filters.arguments}
    properties = ConsumerProperties(tag, arguments, no_ack=no_ack)
    await consuming.consume(session, queue_name, properties, make=make, tell=tell)


def _outcomes(source: Source) -> list[str]:
    """The outcomes of a link: those that its client asks for, or all. Raises SessionEnds."""
    wanted = OUTCOME_NAMES if source.outcomes is None else source.outcomes
    unknown = [(Atom("symbol"), name) for name in wanted if name not in OUTCOME_NAMES]
    if unknown:
        raise SessionEnds(NOT_IMPLEMENTED, f"Outcomes not supported: {format_term(unknown)}")
    return list(wanted)


def _answered(session: Amqp10Session, source: Source, is_log: bool, outcomes: list[str]) -> Source:
    """The source in the answer to the client: what its link has of what it has asked for."""
    source = source._replace(default_outcome=Released(), outcomes=outcomes)
    if not session.is_as_rabbitmq_4_3:
        return source
    capabilities = source.capabilities if source.dynamic else None
    return source._replace(distribution_mode=_COPY if is_log else _MOVE, capabilities=capabilities)


async def _ensure_source(session: Amqp10Session, source: Source) -> str:
    """The queue of a source, which is declared if its address asks for that."""
    permits_version_1 = session.services.config.amqp10.permits_addresses_of_version_1
    try:
        address = read_source(source.address, permits_version_1=permits_version_1)
    except AddressError as error:
        raise _refused(session, str(error)) from None
    if isinstance(address, ExchangeAddress):
        return await _bind_new_queue(session, address, bool(source.durable))
    await _ensure_queue(session, address, bool(source.durable))
    return address.name


async def _bind_new_queue(session: Amqp10Session, address: ExchangeAddress, durable: bool) -> str:
    """A queue of this link alone, bound to an exchange (addresses of version 1)."""
    name, vhost = address.exchange, session.vhost
    if name not in vhost.exchanges:
        raise not_found(f"no {resource(EXCHANGE, name, vhost.name)}")
    properties = QueueProperties({}, durable=durable, auto_delete=True)
    declared = await declaring_queues.declare_queue(session, "", properties)
    await (
        await declaring_bindings.bind_queue(
            session, declared.name, name, address.routing_key or "", {}
        )
    )
    return declared.name


def _tag(session: Amqp10Session, request: Attach) -> str:
    """The consumer's tag: the name of the link, if the session has no other link of this name."""
    if request.name and request.name not in session.consumers:
        return request.name
    return f"{request.name} ({request.handle})"


def _arguments(request: Attach) -> Table:
    """The consumer's arguments in the properties of its link: its priority, and since RabbitMQ 4.3
    its timeout.
    """
    arguments: Table = {}
    for key, value in _pairs(request.properties):
        if key == _PRIORITY and value.kind in {"int", "byte", "short", "long"}:
            arguments["x-priority"] = ("I", value.value)
        elif key == _TIMEOUT and value.kind == "uint":
            arguments[CONSUMER_TIMEOUT] = ("l", value.value)
    return arguments


def _pairs(value: Value | None) -> list[tuple[str, Value]]:
    """The entries of a map whose keys are texts."""
    pairs = () if value is None else value.value
    return [(key.value, content) for key, content in pairs if isinstance(key.value, str)]


# Management


def _is_management(request: Attach) -> bool:
    source, target = request.source or Source(), request.target or Target()
    return (
        request.snd_settle_mode == SETTLED
        and source.address == target.address == MANAGEMENT
        and (_PAIRED, True) in [(key, one.value) for key, one in _pairs(request.properties)]
    )


def _attach_management(session: Amqp10Session, request: Attach) -> None:
    """Attach one of the two links with the same name over which a client manages the vhost."""
    pair = session.pairs.setdefault(request.name, ManagementPair())
    properties = Value("map", [(Value("symbol", _PAIRED), Value("boolean", True))])
    answer = Attach(
        request.name, request.handle, not request.role, SETTLED, source=request.source,
        target=request.target, properties=properties,
    )  # fmt: skip
    if request.role is SENDER:
        link = IncomingLink(request, None, MESSAGE_BYTES_MAX, is_management=True)
        session.incoming[request.handle] = link
        session.send(answer._replace(rcv_settle_mode=FIRST, max_message_size=MESSAGE_BYTES_MAX))
        session.give_credit(link)
    else:
        pair.handle = request.handle
        pair.message_bytes_max = request.max_message_size or None
        session.send(answer._replace(initial_delivery_count=0))
