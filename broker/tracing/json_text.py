"""Names, properties and headers as JSON values, in the format of RabbitMQ's tracing plugin."""

import base64
from typing import Any

import msgspec

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp.json_form import NOT_SHOWN
from leveret.broker.amqp.properties import Properties
from leveret.broker.queues.dead_letter import cc_keys
from leveret.storage.message import Message


def json_of(value: Any) -> str:
    """Encode a value as JSON."""
    return msgspec.json.encode(value).decode()


def shown(text: str) -> str:
    """Return a text for JSON; bytes that are not UTF-8 are encoded as base64, with a note."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _not_text(text.encode("utf-8", "surrogateescape"))
    return text


def _not_text(data: bytes) -> str:
    return f"Not UTF-8, base64 is: {base64.b64encode(data).decode()}"


def table_shown(table: Table) -> dict[str, Any]:
    """Convert a field table."""
    return {shown(name): field_shown(field) for name, field in table.items()}


def field_shown(field: Field) -> Any:
    """Convert a value of a field table."""
    kind, value = field
    match kind:
        case "F":
            return table_shown(value)
        case "A":
            return [field_shown(item) for item in value]
        case "S":
            return shown(value)
        case "x":
            return shown(bytes(value).decode("utf-8", "surrogateescape"))
        case "D":
            scale, number = value
            return number / 10**scale
        case "V":
            return "undefined"
        case "deep":
            return NOT_SHOWN
        case _:
            return value


def routing_keys_of(message: Message) -> list[str]:
    """Return a message's routing keys: its own, and those of CC and BCC."""
    header = message.header
    assert isinstance(header, ContentHeader)
    if not header.needs_care and not header.bcc_keys:
        return [message.address.routing_key]
    return [message.address.routing_key, *cc_keys(header.headers), *header.bcc_keys]


def properties_shown(properties: Properties) -> dict[str, Any]:
    """Convert the properties that are set."""
    return {
        name: table_shown(value)
        if name == "headers"
        else shown(value)
        if isinstance(value, str)
        else value
        for name, value in properties.items()
        if value is not None
    }
