"""AMQP tables in listings: as rabbitmqctl shows them, which is as Erlang writes them.

In a table, arguments look like `[{"x-max-length",5}]`; in JSON they are a list of names, types and
values, `[["x-max-length","long",5]]`. Scripts take them apart, so they look the same here. Types
are told from the values, since JSON has fewer of them: a whole number is a long.
"""

from typing import Any


class AmqpTable(dict[str, Any]):
    """Arguments or properties, to be shown as an AMQP table."""


class Term(str):
    """Text that is shown as it is; json_value: what it is in JSON."""

    json_value: Any

    def __new__(cls, text: str, json_value: Any) -> "Term":
        """A text with its value."""
        made = super().__new__(cls, text)
        made.json_value = json_value
        return made


def shown(value: Any) -> str:
    """A value inside a table, in Erlang's syntax."""
    if isinstance(value, dict):
        return "[" + ",".join(f"{{{quoted(key)},{shown(one)}}}" for key, one in value.items()) + "]"
    if isinstance(value, list):
        return "[" + ",".join(shown(one) for one in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quoted(value)
    return "undefined" if value is None else str(value)


def quoted(text: str) -> str:
    """A string in Erlang's syntax."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def typed(table: dict[str, Any]) -> list[list[Any]]:
    """A table for JSON: names, types and values."""
    return [[name, *_typed_value(value)] for name, value in table.items()]


def _typed_value(value: Any) -> tuple[str, Any]:
    if isinstance(value, dict):
        return "table", typed(value)
    if isinstance(value, list):
        return "array", [list(_typed_value(one)) for one in value]
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, str):
        return "longstr", value
    if value is None:
        return "void", "undefined"
    return ("double" if isinstance(value, float) else "long"), value
