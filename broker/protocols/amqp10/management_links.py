"""Management over AMQP 1.0: queues, exchanges and bindings, by messages like HTTP requests.

A client attaches a pair of links to the address `/management`. Its requests have the method in the
property `subject`, the path in `to`, and a value as their body; an answer has the status in
`subject`, and the message-id of its request as correlation-id (OASIS, HTTP over AMQP; RabbitMQ's
rabbit_amqp_management.erl).

    PUT, GET, DELETE /queues/QUEUE            DELETE /queues/QUEUE/messages
    PUT, DELETE      /exchanges/EXCHANGE
    POST             /bindings
    GET              /bindings?src=EXCHANGE&dstq=QUEUE&key=KEY, or dste=EXCHANGE
    DELETE           /bindings/src=EXCHANGE;dstq=QUEUE;key=KEY;args=HASH
    PUT              /auth/tokens             a new token of the client's user, as bytes

The checks of declarations are those of AMQP 0-9-1.
"""

import logging
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from leveret.broker.amqp import reply_codes
from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.field_table import Field, Table, encode_table, sorted_table
from leveret.broker.amqp.properties import DIRECT_REPLY_TO
from leveret.broker.amqp10.conversion import field_of
from leveret.broker.amqp10.sections import (
    Amqp10Message,
    encode_message,
    read_message,
)
from leveret.broker.amqp10.values import Amqp10Error, Value, decode, encode, encode_described
from leveret.broker.erlang.terms import Atom, format_term
from leveret.broker.protocols.amqp10.addresses import decode_name, encode_name
from leveret.broker.protocols.amqp10.conditions import (
    DECODE_ERROR,
    INTERNAL_ERROR,
    PRECONDITION_FAILED,
    SessionEnds,
    size_error,
)
from leveret.broker.queues.contract.queue_client import QueueClient, QueueLength
from leveret.broker.queues.contract.queue_kinds import queue_type
from leveret.broker.runtime.names import EXCHANGE, QUEUE, RESERVED_PREFIX, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions import declaring_bindings, declaring_exchanges, declaring_queues
from leveret.broker.sessions.declaring_exchanges import ExchangeProperties
from leveret.broker.sessions.declaring_queues import QueueProperties
from leveret.broker.sessions.session import Session
from leveret.broker.vhost.binding import Binding

REQUEST_BYTES_MAX: Final = 128 * 1024
"""A request is decoded in one turn of the event loop. In AMQP 0-9-1 it has to fit into a frame."""
_BODY: Final = 0x77
_REPLIES: Final = f"{DIRECT_REPLY_TO}."
_NULL: Final = Value("null", None)
_FLAGS: Final = {"durable": "boolean", "auto_delete": "boolean", "arguments": "map"}
_QUEUE_FIELDS: Final = _FLAGS | {"exclusive": "boolean"}
_EXCHANGE_FIELDS: Final = _FLAGS | {"internal": "boolean", "type": "string"}
_BINDING_FIELDS: Final = {
    "source": "string", "destination_queue": "string", "destination_exchange": "string",
    "binding_key": "string", "arguments": "map",
}  # fmt: skip
_STATUS: Final = {
    reply_codes.NOT_FOUND: "404", reply_codes.ACCESS_REFUSED: "403",
    reply_codes.PRECONDITION_FAILED: "409",
}  # fmt: skip

logger = logging.getLogger("leveret.connection")


class _Refused(Exception):
    """A request is answered with this status and reason."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Request(NamedTuple):
    """A request. path: the segments of its path. query: after a `?`. body: null without one."""

    method: str
    path: list[str]
    query: Mapping[str, str]
    body: Value


class ManagementPair:
    """A pair of links.

    handle: that of the link to the client; None before it is attached. message_bytes_max: the
    largest answer that the client accepts; None without a limit. credit: the number of answers that
    the client accepts. delivery_count: the number of answers that were sent.
    """

    __slots__ = ("credit", "delivery_count", "handle", "message_bytes_max")

    def __init__(self) -> None:
        self.handle: int | None = None
        self.message_bytes_max: int | None = None
        self.credit = 0
        self.delivery_count = 0


async def answer(session: Session, pair: ManagementPair, payload: bytes) -> bytes:
    """Carry out a request; returns the sections of the answer. Raises SessionEnds."""
    if pair.handle is None:
        raise SessionEnds(
            PRECONDITION_FAILED, "received transfer on half open management link pair"
        )
    if pair.credit <= 0:
        raise SessionEnds(
            PRECONDITION_FAILED,
            f"insufficient credit ({pair.credit}) for management link from RabbitMQ to client",
        )
    message, request = _read(payload)
    try:
        status, body = await _do(session, request)
    except _Refused as refused:
        status, body = refused.status, Value("string", str(refused))
    except Fault as fault:
        status = _STATUS.get(fault.reply_code, "400")
        body = Value("string", fault.explanation)
    if status >= "400":
        logger.warning(
            "%s: request %s /%s failed: %s",
            session.connection.name, request.method, "/".join(request.path), body.value,
        )  # fmt: skip
    return _encode_answer(message, status, body)


def _read(payload: bytes) -> tuple[Amqp10Message, _Request]:
    if len(payload) > REQUEST_BYTES_MAX:
        raise size_error(len(payload), REQUEST_BYTES_MAX)
    try:
        message = read_message(payload, is_ordered=False)
        body, _ = decode(message.body)
    except Amqp10Error as error:
        raise SessionEnds(DECODE_ERROR, f"a request is not valid: {error}") from None
    method, to = message.properties.get("subject", _NULL), message.properties.get("to", _NULL)
    if method.kind != "string" or to.kind != "string":
        raise SessionEnds(INTERNAL_ERROR, "a request needs the properties subject and to")
    path, _, query = to.value.partition("?")
    content = body.value[1] if body.kind == "described" else _NULL
    return message, _Request(
        method.value,
        path.removeprefix("/").split("/"),
        dict(parse_qsl(query, keep_blank_values=True)),
        content,
    )


def _encode_answer(request: Amqp10Message, status: str, body: Value) -> bytes:
    message = Amqp10Message()
    message.properties = {"subject": Value("string", status)}
    if "message-id" in request.properties:
        message.properties["correlation-id"] = request.properties["message-id"]
    message.application_properties = [(Value("string", "http:response"), Value("string", "1.1"))]
    message.body = encode_described(_BODY, encode(body))
    return encode_message(message)


async def _do(session: Session, request: _Request) -> tuple[str, Value]:
    match request.method, request.path:
        case "PUT", ["queues", name]:
            return await _put_queue(session, _name(name), request)
        case "GET", ["queues", name]:
            if _name(name).startswith(_REPLIES):
                return "200", await _reply_queue(session, _name(name))
            return "200", await _queue(session, _find_queue(session, _name(name)))
        case "DELETE", ["queues", name]:
            return await _delete_queue(session, _name(name))
        case "DELETE", ["queues", name, "messages"]:
            count = await declaring_queues.purge_queue(session, _name(name))
            return "200", _map(message_count=Value("ulong", count))
        case "PUT", ["exchanges", name]:
            return await _put_exchange(session, _name(name), request)
        case "DELETE", ["exchanges", name]:
            return await _delete_exchange(session, _name(name))
        case "POST", ["bindings"]:
            return await _bind(session, request)
        case "GET", ["bindings"]:
            return "200", _bindings(session, request.query)
        case "DELETE", ["bindings", segment]:
            return await _unbind(session, segment)
        case "PUT", ["auth", "tokens"]:
            return await _renew(session, request)
    raise SessionEnds(
        INTERNAL_ERROR,
        f"management has no request {request.method} /{'/'.join(request.path)}",
    )


def _name(segment: str) -> str:
    name = decode_name(segment)
    if name is None:
        raise _Refused("400", f"'{segment}' is not percent-encoded")
    return name


# Queues


async def _put_queue(session: Session, name: str, request: _Request) -> tuple[str, Value]:
    if not name:
        raise _Refused("400", "declare queue with empty name not allowed")
    _check_name(session, QUEUE, name)
    body = _fields(request, _QUEUE_FIELDS, "queue property")
    properties = QueueProperties(
        _table(body), _flag(body, "durable", True), _flag(body, "exclusive", False),
        _flag(body, "auto_delete", False),
    )  # fmt: skip
    status = "200" if name in session.vhost.queues else "201"
    declared = await declaring_queues.declare_queue(session, name, properties)
    await declared.synced
    return status, await _queue(session, _find_queue(session, name))


async def _delete_queue(session: Session, name: str) -> tuple[str, Value]:
    counts: list[int] = []
    await declaring_queues.delete_queue(
        session, name, if_unused=False, if_empty=False, tell=counts.append
    )
    return "200", _map(message_count=Value("ulong", counts[0] if counts else 0))


def _find_queue(session: Session, name: str) -> QueueClient:
    queue = session.vhost.queues.get(name)
    if queue is None:
        raise _Refused("404", f"{resource(QUEUE, name, session.vhost.name)} not found")
    return queue


async def _queue(session: Session, queue: QueueClient) -> Value:
    counted: Answer[QueueLength] = Answer()
    queue.length(counted)
    length = await counted
    return _map(
        name=Value("string", queue.name),
        vhost=Value("string", session.vhost.name),
        durable=Value("boolean", queue.durable),
        auto_delete=Value("boolean", queue.auto_delete),
        exclusive=Value("boolean", queue.is_exclusive),
        type=Value("string", queue_type(queue.arguments)),
        arguments=_values(queue.arguments),
        message_count=Value("ulong", length.ready_count),
        consumer_count=Value("uint", length.consumer_count),
        **_members(session, queue),
    )


async def _reply_queue(session: Session, name: str) -> Value:
    """The reply queue of a requester, if it is attached: a responder may check this first."""
    await declaring_queues.declare_queue(session, name, None)
    return _map(
        name=Value("string", name),
        vhost=Value("string", session.vhost.name),
        durable=Value("boolean", False),
        auto_delete=Value("boolean", True),
        exclusive=Value("boolean", False),
        type=Value("string", "volatile"),
        arguments=_values({}),
        message_count=Value("ulong", 0),
        consumer_count=Value("uint", 1),
        leader=Value("string", session.services.config.node_name),
        replicas=_array([session.services.config.node_name]),
    )


def _members(session: Session, queue: QueueClient) -> dict[str, Value]:
    """The node of the queue, and the nodes that have its messages."""
    found = session.vhost.kinds.of(queue.kind).members(queue)
    here = session.services.config.node_name
    leader = queue.placement.node or here if found is None else found.leader
    nodes = [leader] if found is None else found.nodes
    return {
        "leader": Value("string", leader),
        "replicas": _array(nodes),
    }


def _array(texts: Iterable[str]) -> Value:
    """Texts as an array: RabbitMQ's Go client expects no list."""
    return Value("array", [Value("string", one) for one in texts])


# Exchanges


async def _put_exchange(session: Session, name: str, request: _Request) -> tuple[str, Value]:
    body = _fields(request, _EXCHANGE_FIELDS, "exchange property")
    kind = body.get("type", Value("string", "direct"))
    if name not in session.vhost.exchanges:
        _check_name(session, EXCHANGE, name)
    properties = ExchangeProperties(
        kind.value, _table(body), _flag(body, "durable", True), _flag(body, "auto_delete", False),
        _flag(body, "internal", False),
    )  # fmt: skip
    await (await declaring_exchanges.declare_exchange(session, name, properties))
    return "204", _NULL


async def _delete_exchange(session: Session, name: str) -> tuple[str, Value]:
    _check_name(session, EXCHANGE, name)
    await (await declaring_exchanges.delete_exchange(session, name, if_unused=False))
    return "204", _NULL


def _check_name(session: Session, kind: str, name: str) -> None:
    if name.startswith(RESERVED_PREFIX):
        what = resource(kind, name, session.vhost.name)
        raise _Refused("403", f"{what} starts with reserved prefix '{RESERVED_PREFIX}'")
    if "\r" in name or "\n" in name:
        raise _Refused(
            "400", f"Bad name '{name}': line feed and carriage return characters not allowed"
        )


# Bindings


class _Ends(NamedTuple):
    """A binding, but for its arguments."""

    source: str
    destination: str
    is_queue: bool
    key: str


async def _bind(session: Session, request: _Request) -> tuple[str, Value]:
    body = _fields(request, _BINDING_FIELDS, "binding field")
    is_queue = "destination_queue" in body
    ends = _Ends(
        _text(body, "source"),
        _text(body, "destination_queue" if is_queue else "destination_exchange"),
        is_queue,
        _text(body, "binding_key"),
    )
    bind = declaring_bindings.bind_queue if is_queue else declaring_bindings.bind_exchange
    await (await bind(session, ends.destination, ends.source, ends.key, _table(body)))
    return "204", _NULL


async def _unbind(session: Session, segment: str) -> tuple[str, Value]:
    parts = dict(part.partition("=")[::2] for part in segment.split(";"))
    ends = _ends({name: _name(value) for name, value in parts.items()})
    unbind = (
        declaring_bindings.unbind_queue if ends.is_queue else declaring_bindings.unbind_exchange
    )
    for binding in _found(session, ends):
        if _hash(binding.arguments) == parts.get("args", ""):
            arguments = binding.arguments
            await (await unbind(session, ends.destination, ends.source, ends.key, arguments))
    return "204", _NULL


def _bindings(session: Session, query: Mapping[str, str]) -> Value:
    return Value("list", [_shown(binding) for binding in _found(session, _ends(query))])


def _ends(parts: Mapping[str, str]) -> _Ends:
    is_queue = "dstq" in parts
    if not is_queue and "dste" not in parts:
        raise _Refused("400", f"missing 'dste' or 'dstq' in query: {dict(parts)}")
    if "src" not in parts or "key" not in parts:
        raise _Refused("400", f"missing 'src' or 'key' in query: {dict(parts)}")
    return _Ends(parts["src"], parts["dstq" if is_queue else "dste"], is_queue, parts["key"])


def _found(session: Session, ends: _Ends) -> list[Binding]:
    source = session.vhost.exchanges.get(ends.source)
    destination: Any = (session.vhost.queues if ends.is_queue else session.vhost.exchanges).get(
        ends.destination
    )
    if source is None or destination is None:
        return []
    incoming = destination.bindings if ends.is_queue else destination.incoming
    return [
        binding
        for binding in incoming.values()
        if binding.source is source and binding.routing_key == ends.key
    ]


def _shown(binding: Binding) -> Value:
    kind = "q" if binding.destination_kind == QUEUE else "e"
    source, name = binding.source.name, binding.destination.name
    location = (
        f"/bindings/src={encode_name(source)};dst{kind}={encode_name(name)};"
        f"key={encode_name(binding.routing_key)};args={_hash(binding.arguments)}"
    )
    destination = "destination_queue" if kind == "q" else "destination_exchange"
    return _map(
        source=Value("string", source),
        binding_key=Value("string", binding.routing_key),
        arguments=_values(binding.arguments),
        location=Value("string", location),
        **{destination: Value("string", name)},
    )


def _hash(arguments: Table) -> str:
    """Distinguishes bindings with the same ends and key; empty without arguments."""
    return sha256(encode_table(sorted_table(arguments))).hexdigest() if arguments else ""


# Tokens


async def _renew(session: Session, request: _Request) -> tuple[str, Value]:
    """Replace the user's token. The old one is in force until the backend has answered."""
    token = request.body
    if token.kind != "binary":
        raise _Refused("400", f"a token is binary, and not a {token.kind}")
    connection = session.connection
    access, text = session.services.access, token.value.decode("utf-8", "surrogateescape")
    user = await access.begin_renew(connection.user, text)
    if user is None:
        connection.secret_refused("credential update failed: no backend accepts it")
    else:
        connection.renew(user)
        logger.info("%s updated its token", connection.name)
    return "204", _NULL


# Values


def _fields(request: _Request, kinds: Mapping[str, str], what: str) -> Mapping[str, Value]:
    """The fields in a body. kinds: their types. Raises _Refused for other types, as RabbitMQ."""
    body = request.body
    if body.kind == "null":
        return {}
    if body.kind != "map":
        raise _Refused("400", f"the body of a request is a map, not a {body.kind}")
    fields: dict[str, Value] = {}
    for key, value in body.value:
        if key.kind != "string" or kinds.get(key.value) != value.kind:
            raise _Refused("400", f"bad {what} {format_term((_term(key), _term(value)))}")
        fields[key.value] = value
    return fields


def _term(value: Value) -> object:
    """A value as RabbitMQ shows it."""
    content = value.value
    match value.kind:
        case "boolean":
            return Atom("true" if content else "false")
        case "null":
            return Atom("null")
        case "string":
            return Atom("utf8"), content
        case "symbol":
            return Atom("symbol"), content
    return Atom(value.kind), content if isinstance(content, int) else Atom("...")


def _map(**items: Value) -> Value:
    return Value("map", [(Value("string", name), value) for name, value in items.items()])


def _values(table: Table) -> Value:
    return Value(
        "map", [(Value("string", name), _value_of(field)) for name, field in table.items()]
    )


def _value_of(field: Field) -> Value:
    """The value of an argument."""
    letter, content = field
    match letter:
        case "S":
            return Value("string", content)
        case "t":
            return Value("boolean", content)
        case "A":
            return Value("list", [_value_of(one) for one in content])
        case "F":
            return _values(content)
        case "f" | "d":
            return Value("double", content)
        case "T":
            return Value("timestamp", content * 1000)
        case _ if isinstance(content, int):
            return Value("long", content)
    return _NULL


def _table(body: Mapping[str, Value]) -> Table:
    """The arguments in a body."""
    arguments = body.get("arguments", _NULL)
    table: Table = {}
    for key, value in arguments.value if arguments.kind == "map" else ():
        field = field_of(value)
        if field is None or not isinstance(key.value, str):
            raise _Refused("400", f"the argument {key.value!r} has a type that 0-9-1 has not")
        table[key.value] = field
    return table


def _flag(body: Mapping[str, Value], name: str, default: bool) -> bool:
    value = body.get(name)
    return default if value is None else bool(value.value)


def _text(body: Mapping[str, Value], name: str) -> str:
    value = body.get(name, _NULL)
    if value.kind != "string":
        raise _Refused("400", f"'{name}' is missing, or is not a string")
    return str(value.value)
