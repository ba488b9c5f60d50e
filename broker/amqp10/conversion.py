"""A message of AMQP 1.0 as one of AMQP 0-9-1 (RabbitMQ's mc_amqpl.erl), of any form.

This is properties_to_sections.py, which has a table of both, the other way round. Annotations that
begin with `x-` are headers. A body of other sections than data stays encoded, with the type
`amqp-1.0`. What RabbitMQ 3.x and 4.0 write differently (`ConversionRules`) is read in both forms,
as a stream has messages of either version after a change. Binary headers are texts in 4.0, and a
message without a header section is persistent in 4.0; it has no delivery mode before.

Messages whose sections have simple forms do not come here (sections_to_properties.py).
"""

import uuid
from typing import Final, NamedTuple

from leveret.broker.amqp.annotations import RECEIVED_AT, RECEIVED_AT_IN_1_0
from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp.properties import Properties
from leveret.broker.amqp10.sections import Amqp10Message
from leveret.broker.amqp10.values import NULL, Value

ENCODED_BODY_TYPE: Final = "amqp-1.0"
"""The property `type` of a body that is not data, and stays encoded."""
SHORT_BYTES_MAX: Final = 255
_URN: Final = "urn:uuid:"


class ConversionRules(NamedTuple):
    """What differs between RabbitMQ's versions. is_4: 4.0 and later.

    is_durable: whether a message is durable that has no header section: not since 4.2.
    """

    is_4: bool
    is_durable: bool = True


class Amqp091Message(NamedTuple):
    """A message of AMQP 0-9-1."""

    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


def field_of(value: Value) -> Field | None:
    """The field of a table with a value, as in RabbitMQ 4; None if 0-9-1 has no such type."""
    return _field_of(value, ConversionRules(is_4=True))


def to_amqp091(message: Amqp10Message, rules: ConversionRules) -> Amqp091Message:
    """The message of AMQP 0-9-1. The footer and delivery annotations are dropped."""
    headers: Table = {}
    for key, value in message.message_annotations:
        _add_annotation(headers, key.value, value, rules)
    properties: Properties = {}
    for key, value in message.application_properties:
        if key.kind != "string" or not _is_short(key.value):
            continue
        name = _BASIC_PROPERTIES.get(key.value)
        if name is not None and value.kind == "string" and _is_short(value.value):
            properties[name] = value.value
        else:
            _add(headers, key.value, value, rules)
    _read_header(properties, message, rules)
    _read_properties(properties, headers, message)
    body = message.data
    if body is None:
        body = message.body
        if body:
            properties["type"] = ENCODED_BODY_TYPE
    if headers:
        properties["headers"] = headers
    exchange = message.annotation("x-exchange")
    key = message.annotation("x-routing-key")
    return Amqp091Message(_text_of(exchange), _text_of(key), properties, body)


def _add_annotation(headers: Table, name: object, value: Value, rules: ConversionRules) -> None:
    if name == "x-cc":
        _add(headers, "CC", value, rules)
    elif name == RECEIVED_AT_IN_1_0 and value.kind == "timestamp":
        headers[RECEIVED_AT] = ("l", value.value)
    elif (
        isinstance(name, str)
        and name.startswith("x-")
        and not name.startswith("x-basic-")
        and name not in _INTERNAL
        and _is_short(name)
    ):
        _add(headers, name, value, rules)


def _add(headers: Table, name: str, value: Value, rules: ConversionRules) -> None:
    field = _field_of(value, rules)
    if field is not None:
        headers[name] = field


def _read_header(properties: Properties, message: Amqp10Message, rules: ConversionRules) -> None:
    header = message.header
    durable = header.get("durable", NULL).value
    if durable is not None:
        properties["delivery_mode"] = 2 if durable else 1
    elif message.has_header:
        properties["delivery_mode"] = 1
    elif (mode := message.annotation("x-basic-delivery-mode")).kind == "ubyte":
        properties["delivery_mode"] = mode.value
    elif rules.is_4:
        properties["delivery_mode"] = 2 if rules.is_durable else 1
    priority = header.get("priority", message.annotation("x-basic-priority"))
    if priority.kind == "ubyte":
        properties["priority"] = priority.value
    ttl = header.get("ttl", NULL)
    expiration = message.annotation("x-basic-expiration")
    if ttl.kind == "uint":
        properties["expiration"] = str(ttl.value)
    elif expiration.kind == "string" and _is_short(expiration.value):
        properties["expiration"] = expiration.value


def _read_properties(properties: Properties, headers: Table, message: Amqp10Message) -> None:
    found = message.properties
    for name, (name10, kind) in _PROPERTIES.items():
        value = found.get(name10, NULL)
        if value.kind == kind and _is_short(value.value):
            properties[name] = value.value
    for name in ("message_id", "correlation_id"):
        value = found.get(name.replace("_", "-"), NULL)
        if value.kind != "null":
            _read_id(properties, headers, name, value)
    user = found.get("user-id", NULL)
    if user.kind == "binary":
        text = user.value.decode("utf-8", "surrogateescape")
        if _is_short(text) and text.isprintable():
            properties["user_id"] = text
    created = found.get("creation-time", NULL)
    if created.kind == "timestamp" and created.value >= 0:
        properties["timestamp"] = created.value // 1000
    kind_of_message = message.annotation("x-basic-type")
    if kind_of_message.kind == "string" and _is_short(kind_of_message.value):
        properties.setdefault("type", kind_of_message.value)


def _read_id(properties: Properties, headers: Table, name: str, value: Value) -> None:
    """An id that 0-9-1 cannot have is a header."""
    header = "x-" + name.replace("_", "-")
    match value:
        case ("uuid", data):
            properties[name] = f"{_URN}{uuid.UUID(bytes=data)}"
        case ("ulong", number):
            properties[name] = str(number)
        case ("string", text) if _is_short(text):
            properties[name] = text
        case ("string", text):
            headers[header] = ("S", text)
        case ("binary", data):
            headers[header] = ("x", data)


def _field_of(value: Value, rules: ConversionRules) -> Field | None:
    """The field of a table with a value; None if 0-9-1 has no such type."""
    kind, content = value
    if kind == "binary":
        return ("S", content.decode("utf-8", "surrogateescape")) if rules.is_4 else ("x", content)
    if kind == "timestamp":
        return ("T", max(0, content) // 1000)
    if kind == "ulong":
        return ("l", content - (1 << 64) if content >= 1 << 63 else content)
    if kind in {"list", "array"}:
        items = [_field_of(item, rules) for item in content]
        return ("A", [item for item in items if item is not None])
    if kind == "map":
        table: Table = {}
        for key, item in content:
            if isinstance(key.value, str) and _is_short(key.value):
                _add(table, key.value, item, rules)
        return ("F", table)
    letter = _LETTERS.get(kind)
    return None if letter is None else (letter, content)


def _is_short(text: str) -> bool:
    return len(text.encode("utf-8", "surrogateescape")) <= SHORT_BYTES_MAX


def _text_of(value: Value) -> str:
    return value.value if value.kind == "string" else ""


_PROPERTIES: Final = {
    "reply_to": ("reply-to", "string"),
    "content_type": ("content-type", "symbol"),
    "content_encoding": ("content-encoding", "symbol"),
    "app_id": ("group-id", "string"),
}
_BASIC_PROPERTIES: Final = {"x-basic-type": "type", "x-basic-app-id": "app_id"}
"""By the application properties that RabbitMQ 3.x writes for them."""
_LETTERS: Final = {
    "boolean": "t", "byte": "b", "ubyte": "B", "short": "s", "ushort": "u", "int": "I", "uint": "i",
    "long": "l", "float": "f", "double": "d", "string": "S", "symbol": "S", "null": "V",
}  # fmt: skip
_INTERNAL: Final = frozenset(("x-exchange", "x-routing-key"))
