"""A message of AMQP 0-9-1 as one of AMQP 1.0, and the other way round (RabbitMQ's mc_amqpl.erl).

    0-9-1                       1.0
    delivery_mode, priority     header: durable, priority
    expiration                  header: ttl
    message_id, correlation_id  properties of these names; a text `urn:uuid:...` is a uuid
    user_id, reply_to           properties of these names
    content_type, -encoding     properties of these names
    timestamp (seconds)         property creation-time (milliseconds)
    app_id                      property group-id
    type                        message annotation x-basic-type
    headers x-...               message annotations
    other headers               application properties, but for tables and arrays, which these
                                cannot have
    header CC                   message annotation x-cc
    exchange, routing key       message annotations x-exchange, x-routing-key
    body                        one data section

On the way back annotations that begin with `x-` are headers again. A body of other sections stays
encoded, with the type `amqp-1.0`.

RabbitMQ 3.x differs (`ConversionRules`): a message without a delivery mode has no header section,
`CC` and
nested values are dropped, and binary headers stay binary instead of becoming text. A message
without a header section is persistent in 4.0, and has no delivery mode before.
"""

import uuid
from typing import Final, NamedTuple

from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp.properties import Properties
from leveret.broker.amqp10.sections import Amqp10Message, Pairs, data_section
from leveret.broker.amqp10.values import FALSE, NULL, TRUE, Value

ENCODED_BODY_TYPE: Final = "amqp-1.0"
"""The property `type` of a body that is not data, and stays encoded."""
UTF8_CHECKED_BYTES: Final = 4096
"""Longer texts in headers are taken for binary data."""
SHORT_BYTES_MAX: Final = 255
_URN: Final = "urn:uuid:"


class ConversionRules(NamedTuple):
    """What differs between RabbitMQ's versions. is_4: 4.0 and later."""

    is_4: bool


class Amqp091Message(NamedTuple):
    """A message of AMQP 0-9-1."""

    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


# From 0-9-1


def to_amqp10(message: Amqp091Message, rules: ConversionRules) -> Amqp10Message:
    """The message of AMQP 1.0."""
    properties = message.properties
    headers: Table = properties.get("headers") or {}
    converted = Amqp10Message()
    _set_header(converted, properties, rules)
    converted.message_annotations = [
        (Value("symbol", "x-exchange"), Value("string", message.exchange)),
        (Value("symbol", "x-routing-key"), Value("string", message.routing_key)),
        *_annotations(headers, rules),
    ]
    if "type" in properties:
        name = Value("symbol", "x-basic-type")
        converted.message_annotations.append((name, Value("string", properties["type"])))
    converted.properties = _properties10(properties)
    converted.application_properties = [
        (Value("string", name), _value_of(field))
        for name, field in headers.items()
        if not name.startswith("x-") and field[0] in _SIMPLE
    ]
    if properties.get("type") == ENCODED_BODY_TYPE:
        converted.body = message.body
    else:
        converted.data, converted.body = message.body, data_section(message.body)
    return converted


def _set_header(converted: Amqp10Message, properties: Properties, rules: ConversionRules) -> None:
    mode = properties.get("delivery_mode")
    converted.has_header = rules.is_4 or mode is not None
    if converted.has_header:
        converted.header["durable"] = TRUE if mode == 2 else FALSE
    if "priority" in properties:
        converted.has_header = True
        converted.header["priority"] = Value("ubyte", properties["priority"])
    expiration = properties.get("expiration", "")
    if expiration.isascii() and expiration.isdigit() and int(expiration) < 1 << 32:
        converted.has_header = True
        converted.header["ttl"] = Value("uint", int(expiration))


def _annotations(headers: Table, rules: ConversionRules) -> Pairs:
    annotations: Pairs = []
    for name, field in headers.items():
        if name == "CC" and field[0] == "A" and rules.is_4:
            annotations.append((Value("symbol", "x-cc"), _value_of(field)))
        elif name.startswith("x-") and (rules.is_4 or field[0] in _SIMPLE):
            annotations.append((Value("symbol", name), _value_of(field)))
    return annotations


def _properties10(properties: Properties) -> dict[str, Value]:
    converted = {
        name10: Value(kind, properties[name])
        for name, (name10, kind) in _PROPERTIES.items()
        if name in properties
    }
    for name in ("message_id", "correlation_id"):
        if name in properties:
            converted[name.replace("_", "-")] = _id10(properties[name])
    if "user_id" in properties:
        user = properties["user_id"].encode("utf-8", "surrogateescape")
        converted["user-id"] = Value("binary", user)
    if "timestamp" in properties:
        converted["creation-time"] = Value("timestamp", _milliseconds(properties["timestamp"]))
    return converted


def _id10(text: str) -> Value:
    if text.startswith(_URN):
        try:
            return Value("uuid", uuid.UUID(text.removeprefix(_URN)).bytes)
        except ValueError:
            return Value("string", text)
    return Value("string", text)


def _value_of(field: Field) -> Value:
    """The value of a field of a table."""
    letter, value = field
    if letter == "S":
        return _text10(value)
    if letter == "T":
        return Value("timestamp", _milliseconds(value))
    if letter == "V":
        return NULL
    if letter == "A":
        return Value("list", [_value_of(item) for item in value])
    if letter == "F":
        return Value(
            "map", [(Value("symbol", name), _value_of(item)) for name, item in value.items()]
        )
    if letter in _KINDS:
        return Value(_KINDS[letter], value)
    # Decimals and what is nested too deep: RabbitMQ fails for these.
    return NULL


def _text10(text: str) -> Value:
    data = text.encode("utf-8", "surrogateescape")
    is_text = len(data) <= UTF8_CHECKED_BYTES and "\0" not in text
    if is_text and text.isascii():
        return Value("string", text)
    try:
        is_text = is_text and bool(data.decode())
    except UnicodeDecodeError:
        is_text = False
    return Value("string", text) if is_text else Value("binary", data)


def _milliseconds(seconds: int) -> int:
    return min(seconds * 1000, (1 << 63) - 1)


# To 0-9-1


def to_amqp091(message: Amqp10Message, rules: ConversionRules) -> Amqp091Message:
    """The message of AMQP 0-9-1. The footer and delivery annotations are dropped."""
    headers: Table = {}
    for key, value in message.message_annotations:
        _add_annotation(headers, key.value, value, rules)
    for key, value in message.application_properties:
        if key.kind == "string" and _is_short(key.value):
            _add(headers, key.value, value, rules)
    properties: Properties = {}
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
    elif rules.is_4:
        properties["delivery_mode"] = 2
    priority = header.get("priority", NULL)
    if priority.kind == "ubyte":
        properties["priority"] = priority.value
    ttl = header.get("ttl", NULL)
    if ttl.kind == "uint":
        properties["expiration"] = str(ttl.value)


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
        properties["type"] = kind_of_message.value


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
_KINDS: Final = {
    "t": "boolean", "b": "byte", "B": "ubyte", "s": "short", "u": "ushort", "I": "int", "i": "uint",
    "l": "long", "L": "long", "f": "float", "d": "double", "x": "binary",
}  # fmt: skip
"""By the letter of a field's type: those whose value is the same."""
_SIMPLE: Final = frozenset((*_KINDS, "S", "T", "V"))
_LETTERS: Final = {
    "boolean": "t", "byte": "b", "ubyte": "B", "short": "s", "ushort": "u", "int": "I", "uint": "i",
    "long": "l", "float": "f", "double": "d", "string": "S", "symbol": "S", "null": "V",
}  # fmt: skip
_INTERNAL: Final = frozenset(("x-exchange", "x-routing-key"))
