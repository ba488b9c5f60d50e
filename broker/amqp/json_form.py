"""Names and field tables as JSON, for the API, for MessagePack and for logs.

The values of field tables lose their AMQP types, as in RabbitMQ's API (`rabbit_mgmt_format`). A
decimal is shown as its number; RabbitMQ joins its two parts, and shows 1.5 as 1.15. A `JsonTable`
keeps the table that it shows, for callers that need the types.
Bytes that are not UTF-8 become replacement characters.
"""

from typing import Any

from leveret.broker.amqp.field_table import DEEP, NESTING_MAX, Field, Table
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES

DECIMAL = "D"
"""Its value is the number of digits after the point, and the number without the point."""
NOT_SHOWN = f"nested more than {NESTING_MAX} deep"
"""Stands for a table or an array that is nested too deeply to be shown."""


def text(name: str) -> str:
    """Make a string from the wire valid Unicode.

    Its bytes that are not UTF-8 were decoded as surrogates (`field_table.text_of`).
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return name


class JsonTable(dict[str, Any]):
    """A field table as a JSON object. table: the field table that it shows."""

    __slots__ = ("table",)

    def __init__(self, table: Table) -> None:
        super().__init__({text(name): field_to_json(field) for name, field in table.items()})
        self.table = table


def table_to_json(table: Table) -> JsonTable:
    """A field table as a JSON object."""
    return JsonTable(table)


def typed_table(table: Table) -> list[list[Any]]:
    """A field table as JSON with its types: the name, type and value of each field.

    The values of a table are such a list, too, and those of an array are types and values.
    """
    return [[text(name), *_typed(field)] for name, field in table.items()]


def _typed(field: Field) -> list[Any]:
    letter, value = field
    shown: Any
    match letter:
        case "F":
            shown = typed_table(value)
        case "A":
            shown = [_typed(item) for item in value]
        case "V":
            shown = "undefined"
        case _:
            shown = field_to_json(field)
    return [FIELD_TYPE_NAMES[letter], shown]


def field_to_json(field: Field) -> Any:
    """A value of a field table as a JSON value."""
    kind, value = field
    if kind == "F":
        return table_to_json(value)
    if kind == "A":
        return [field_to_json(item) for item in value]
    if kind == DEEP:
        return NOT_SHOWN
    if kind == DECIMAL:
        scale, unscaled = value
        return unscaled / 10**scale
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, bool | int | float) or value is None:
        return value
    return str(value)
