"""Names, properties and headers as JSON values, in the format of RabbitMQ's tracing plugin.

Both the broker and readers of logs use this module; readers import no other part of the broker.
"""

import base64
from typing import Any

import msgspec

from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.amqp.json_form import NOT_SHOWN
from leveret.broker.amqp.properties import Properties

NOT_TEXT = "Not UTF-8, base64 is: "
"""The words before bytes that are not text."""


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
    return f"{NOT_TEXT}{base64.b64encode(data).decode()}"


def bytes_shown_as(text: str) -> bytes:
    """Return the bytes that are shown as this text."""
    if text.startswith(NOT_TEXT):
        try:
            return base64.b64decode(text.removeprefix(NOT_TEXT), validate=True)
        except ValueError:
            pass
    return text.encode("utf-8", "surrogateescape")


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
