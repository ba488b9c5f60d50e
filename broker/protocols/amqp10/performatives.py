"""The performatives of AMQP 1.0, as values and as bytes (OASIS standard, parts 2, 3 and 5). Pure.

A performative is a described list. Each is a class here, with the fields of the list in order;
absent and null fields are None. `read_performative` checks the types of all fields, so that their
readers may rely on them.

Fields of any type (properties, filters, the annotations of an outcome) are `Value`s of
broker/amqp10/values.py, which keep the types that the client has chosen.
"""

from struct import Struct
from typing import Any, Final, NamedTuple

from leveret.broker.amqp10.values import (
    NULL,
    Amqp10Error,
    Value,
    decode,
    encode,
    encode_described,
    encode_list,
)

SENDER, RECEIVER = False, True
"""The roles of a link's end."""
UNSETTLED, SETTLED, MIXED = 0, 1, 2
"""snd-settle-mode."""
FIRST, SECOND = 0, 1
"""rcv-settle-mode."""

Symbols = list[str]


class SaslMechanisms(NamedTuple):
    """The mechanisms of the server."""

    mechanisms: Symbols


class SaslInit(NamedTuple):
    """The client's choice."""

    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


class SaslChallenge(NamedTuple):
    """A question of the server."""

    challenge: bytes


class SaslResponse(NamedTuple):
    """The client's answer."""

    response: bytes


class SaslOutcome(NamedTuple):
    """The result. code: 0 ok, 1 wrong credentials, 2 and more errors of the system."""

    code: int
    additional_data: bytes | None = None


class Error(NamedTuple):
    """Why a connection, a session or a link ends, or a message is rejected."""

    condition: str
    description: str | None = None
    info: Value | None = None


class Open(NamedTuple):
    """A connection begins. idle_time_out: milliseconds."""

    container_id: str
    hostname: str | None = None
    max_frame_size: int | None = None
    channel_max: int | None = None
    idle_time_out: int | None = None
    outgoing_locales: Value | None = None
    incoming_locales: Value | None = None
    offered_capabilities: Symbols | None = None
    desired_capabilities: Symbols | None = None
    properties: Value | None = None


class Begin(NamedTuple):
    """A session begins. The windows count transfers."""

    remote_channel: int | None
    next_outgoing_id: int
    incoming_window: int
    outgoing_window: int
    handle_max: int | None = None
    offered_capabilities: Symbols | None = None
    desired_capabilities: Symbols | None = None
    properties: Value | None = None


class Source(NamedTuple):
    """Where the messages of a link come from."""

    address: str | None = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: Value | None = None
    distribution_mode: str | None = None
    filter: Value | None = None
    default_outcome: "Outcome | None" = None
    outcomes: Symbols | None = None
    capabilities: Symbols | None = None


class Target(NamedTuple):
    """Where the messages of a link go to. is_coordinator: it stands for the target of a link for
    transactions (part 4), and is not sent.
    """

    address: str | None = None
    durable: int | None = None
    expiry_policy: str | None = None
    timeout: int | None = None
    dynamic: bool | None = None
    dynamic_node_properties: Value | None = None
    capabilities: Symbols | None = None
    is_coordinator: bool | None = None


class Coordinator(NamedTuple):
    """The target of a link for transactions."""

    capabilities: Symbols | None = None


class Attach(NamedTuple):
    """A link begins. role: the sender's."""

    name: str
    handle: int
    role: bool
    snd_settle_mode: int | None = None
    rcv_settle_mode: int | None = None
    source: Source | None = None
    target: Target | None = None
    unsettled: Value | None = None
    incomplete_unsettled: bool | None = None
    initial_delivery_count: int | None = None
    max_message_size: int | None = None
    offered_capabilities: Symbols | None = None
    desired_capabilities: Symbols | None = None
    properties: Value | None = None


def kept_of(request: Attach) -> Attach:
    """What a link keeps of its attach: properties and capabilities may take megabytes."""
    source, target = request.source, request.target
    return Attach(
        request.name, request.handle, request.role, request.snd_settle_mode,
        source=None if source is None else Source(source.address, filter=source.filter),
        target=None if target is None else Target(target.address),
        max_message_size=request.max_message_size,
    )  # fmt: skip


class Flow(NamedTuple):
    """The state of a session, and, with a handle, of a link."""

    next_incoming_id: int | None
    incoming_window: int
    next_outgoing_id: int
    outgoing_window: int
    handle: int | None = None
    delivery_count: int | None = None
    link_credit: int | None = None
    available: int | None = None
    drain: bool | None = None
    echo: bool | None = None
    properties: Value | None = None


class Transfer(NamedTuple):
    """A message, or a part of one; its bytes follow the performative."""

    handle: int
    delivery_id: int | None = None
    delivery_tag: bytes | None = None
    message_format: int | None = None
    settled: bool | None = None
    more: bool | None = None
    rcv_settle_mode: int | None = None
    state: "Outcome | None" = None
    resume: bool | None = None
    aborted: bool | None = None
    batchable: bool | None = None


class Disposition(NamedTuple):
    """The outcome of the deliveries from `first` to `last`. role: the sender's."""

    role: bool
    first: int
    last: int | None = None
    settled: bool | None = None
    state: "Outcome | None" = None
    batchable: bool | None = None


class Detach(NamedTuple):
    """A link ends."""

    handle: int
    closed: bool | None = None
    error: Error | None = None


class End(NamedTuple):
    """A session ends."""

    error: Error | None = None


class Close(NamedTuple):
    """A connection ends."""

    error: Error | None = None


class Received(NamedTuple):
    """A part of a message was received; no outcome yet."""

    section_number: int
    section_offset: int


class Accepted(NamedTuple):
    """The message was processed."""


class Rejected(NamedTuple):
    """The message is invalid."""

    error: Error | None = None


class Released(NamedTuple):
    """The message was not processed."""


class Modified(NamedTuple):
    """The message was not processed, and is changed for its next delivery."""

    delivery_failed: bool | None = None
    undeliverable_here: bool | None = None
    message_annotations: Value | None = None


Outcome = Received | Accepted | Rejected | Released | Modified
Performative = (
    SaslMechanisms | SaslInit | SaslChallenge | SaslResponse | SaslOutcome
    | Open | Begin | Attach | Flow | Transfer | Disposition | Detach | End | Close
)  # fmt: skip

_OUTCOME: Final = "outcome"
_FIELDS: Final[dict[int, tuple[type[Any], tuple[str, ...]]]] = {
    0x10: (Open, (
        "string", "string", "uint", "ushort", "uint", "any", "any", "symbols", "symbols", "map",
    )),
    0x11: (Begin, (
        "ushort", "uint", "uint", "uint", "uint", "symbols", "symbols", "map",
    )),
    0x12: (Attach, (
        "string", "uint", "boolean", "ubyte", "ubyte", "source", "target", "map", "boolean",
        "uint", "ulong", "symbols", "symbols", "map",
    )),
    0x13: (Flow, (
        "uint", "uint", "uint", "uint", "uint", "uint", "uint", "uint", "boolean", "boolean", "map",
    )),
    0x14: (Transfer, (
        "uint", "uint", "binary", "uint", "boolean", "boolean", "ubyte", _OUTCOME, "boolean",
        "boolean", "boolean",
    )),
    0x15: (Disposition, ("boolean", "uint", "uint", "boolean", _OUTCOME, "boolean")),
    0x16: (Detach, ("uint", "boolean", "error")),
    0x17: (End, ("error",)),
    0x18: (Close, ("error",)),
    0x1D: (Error, ("symbol", "string", "map")),
    0x23: (Received, ("uint", "ulong")),
    0x24: (Accepted, ()),
    0x25: (Rejected, ("error",)),
    0x26: (Released, ()),
    0x27: (Modified, ("boolean", "boolean", "map")),
    0x28: (Source, (
        "string", "uint", "symbol", "uint", "boolean", "map", "symbol", "map", _OUTCOME, "symbols",
        "symbols",
    )),
    0x29: (Target, ("string", "uint", "symbol", "uint", "boolean", "map", "symbols")),
    0x30: (Coordinator, ("symbols",)),
    0x40: (SaslMechanisms, ("symbols",)),
    0x41: (SaslInit, ("symbol", "binary", "string")),
    0x42: (SaslChallenge, ("binary",)),
    0x43: (SaslResponse, ("binary",)),
    0x44: (SaslOutcome, ("ubyte", "binary")),
}  # fmt: skip
"""The classes by their descriptors, with the types of their fields."""
_NAMES: Final = {
    "amqp:open:list": 0x10, "amqp:begin:list": 0x11, "amqp:attach:list": 0x12,
    "amqp:flow:list": 0x13, "amqp:transfer:list": 0x14, "amqp:disposition:list": 0x15,
    "amqp:detach:list": 0x16, "amqp:end:list": 0x17, "amqp:close:list": 0x18,
    "amqp:error:list": 0x1D, "amqp:received:list": 0x23, "amqp:accepted:list": 0x24,
    "amqp:rejected:list": 0x25, "amqp:released:list": 0x26, "amqp:modified:list": 0x27,
    "amqp:source:list": 0x28, "amqp:target:list": 0x29, "amqp:coordinator:list": 0x30,
    "amqp:sasl-mechanisms:list": 0x40,
    "amqp:sasl-init:list": 0x41, "amqp:sasl-challenge:list": 0x42, "amqp:sasl-response:list": 0x43,
    "amqp:sasl-outcome:list": 0x44,
}  # fmt: skip
"""A descriptor may be a name, too."""
_REQUIRED: Final = {
    cls: [
        place
        for place, name in enumerate(cls._fields)
        if name not in cls._field_defaults and "None" not in str(cls.__annotations__[name])
    ]
    for cls, _ in _FIELDS.values()
}
_CODES: Final = {cls: code for code, (cls, _) in _FIELDS.items()}
_SASL_CODES: Final = range(0x40, 0x45)
_FRAME_CODES: Final = (*range(0x10, 0x19), *_SASL_CODES)
_OUTCOMES: Final = (Received, Accepted, Rejected, Released, Modified)
_CLASSES: Final = {"source": Source, "target": Target, "error": Error}

OUTCOME_NAMES: Final = (
    "amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list",
)  # fmt: skip


# Decoding


def read_performative(data: bytes, at: int = 0) -> tuple[Performative, int]:
    """The performative at a place, and the place after it. Raises Amqp10Error."""
    value, at = decode(data, at)
    read = _described(value)
    if _CODES.get(type(read)) not in _FRAME_CODES:
        raise Amqp10Error("a frame does not begin with a performative")
    return read, at


def _described(value: Value) -> Any:
    """The object that a described value stands for, of a class above. Raises Amqp10Error."""
    if value.kind != "described":
        raise Amqp10Error(f"a {value.kind} is where a described list is expected")
    descriptor, content = value.value
    if descriptor.kind == "symbol":
        known = _FIELDS.get(_NAMES.get(descriptor.value, -1))
    else:
        known = _FIELDS.get(descriptor.value) if descriptor.kind == "ulong" else None
    if known is None:
        raise Amqp10Error(f"there is no described type {descriptor.value!r}")
    if content.kind != "list":
        raise Amqp10Error(f"{known[0].__name__} has a {content.kind} instead of a list")
    return _filled(known[0], known[1], content.value)


def _filled(cls: type[Any], kinds: tuple[str, ...], items: list[Value]) -> Any:
    if len(items) > len(kinds):
        raise Amqp10Error(f"{cls.__name__} has {len(items)} fields of at most {len(kinds)}")
    fields = [
        None if item.kind == "null" else _field(cls, place, kinds[place], item)
        for place, item in enumerate(items)
    ]
    if any(place >= len(fields) or fields[place] is None for place in _REQUIRED[cls]):
        raise Amqp10Error(f"{cls.__name__} lacks a field that it must have")
    return cls(*fields)


def _field(cls: type[Any], place: int, kind: str, item: Value) -> Any:
    """The value of a field. Raises Amqp10Error if it has another type."""
    if kind == "any":
        return item
    if kind == "map" and item.kind == "map":
        return item
    if kind == item.kind:
        return item.value
    if kind == "symbols":
        return _symbols(cls, place, item)
    if kind in {"string", "symbol"} and item.kind in {"string", "symbol"}:
        return item.value
    if kind in {"source", "target", "error", _OUTCOME} and item.kind == "described":
        read = _described(item)
        expected = _OUTCOMES if kind == _OUTCOME else _CLASSES[kind]
        if isinstance(read, expected):
            return read
        if kind == "target" and isinstance(read, Coordinator):
            return Target(is_coordinator=True)
    raise Amqp10Error(f"{cls.__name__}.{cls._fields[place]} is a {item.kind} instead of a {kind}")


def _symbols(cls: type[Any], place: int, item: Value) -> Symbols:
    """One symbol, or an array of symbols."""
    if item.kind == "symbol":
        return [item.value]
    if item.kind == "array" and all(one.kind == "symbol" for one in item.value):
        return [one.value for one in item.value]
    raise Amqp10Error(f"{cls.__name__}.{cls._fields[place]} is a {item.kind} instead of symbols")


# Encoding


def encode_performative(performative: Any) -> bytes:
    """A performative, or a type within one, as bytes."""
    code = _CODES[type(performative)]
    kinds = _FIELDS[code][1]
    fields = list(performative)
    while fields and fields[-1] is None:
        fields.pop()
    return encode_described(
        code,
        encode_list([_encode(kind, field) for kind, field in zip(kinds, fields, strict=False)]),
    )


def _encode(kind: str, field: Any) -> bytes:
    if field is None:
        return _ENCODED_NULL
    if kind in _COMPOSITE:
        return encode_performative(field)
    if kind in {"map", "any"}:
        return encode(field)
    if kind == "symbols":
        return encode(Value("array", [Value("symbol", name) for name in field]))
    return encode(Value(kind, field))


_COMPOSITE: Final = frozenset(("source", "target", "error", _OUTCOME))
_ENCODED_NULL: Final = encode(NULL)

# Frames

AMQP_FRAME, SASL_FRAME = 0, 1
FRAME_HEADER_BYTES: Final = 8
_FRAME_HEADER: Final = Struct(">IBBH")
EMPTY_FRAME: Final = _FRAME_HEADER.pack(FRAME_HEADER_BYTES, 2, AMQP_FRAME, 0)
"""A heartbeat."""


def frame(channel: int, body: bytes, kind: int = AMQP_FRAME) -> bytes:
    """A frame with this body."""
    return _FRAME_HEADER.pack(FRAME_HEADER_BYTES + len(body), 2, kind, channel) + body


def frame_of(channel: int, performative: Performative) -> bytes:
    """A frame with a performative, and nothing after it."""
    kind = SASL_FRAME if _CODES[type(performative)] in _SASL_CODES else AMQP_FRAME
    return frame(channel, encode_performative(performative), kind)
