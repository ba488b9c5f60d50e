"""Names and field tables as JSON, for the API, for MessagePack and for logs.

The values of field tables lose their AMQP types, as in RabbitMQ's API (`rabbit_mgmt_format`).
Bytes that are not UTF-8 become replacement characters.
"""

from typing import Any

from leveret.broker.amqp.field_table import DEEP, NESTING_MAX, Field, Table

NOT_SHOWN = f"nested more than {NESTING_MAX} deep"
"""What stands for a table or an array that is nested too deeply to be shown."""


def text(name: str) -> str:
    """Make a string from the wire valid Unicode.

    Its bytes that are not UTF-8 were decoded as surrogates (`field_table.text_of`).
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return name


def table_to_json(table: Table) -> dict[str, Any]:
    """A field table as a JSON object."""
    return {text(name): field_to_json(field) for name, field in table.items()}


def field_to_json(field: Field) -> Any:
    """A value of a field table as a JSON value."""
    kind, value = field
    if kind == "F":
        return table_to_json(value)
    if kind == "A":
        return [field_to_json(item) for item in value]
    if kind == DEEP:
        return NOT_SHOWN
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, bool | int | float) or value is None:
        return value
    return str(value)
