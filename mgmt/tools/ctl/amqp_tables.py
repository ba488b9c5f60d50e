"""AMQP tables in listings, as rabbitmqctl shows them.

In a table, arguments are an Erlang term, `[{"x-max-length",5}]`; in JSON they are a list of names,
types and values, `[["x-max-length","long",5]]`. Scripts take them apart, so they look the same
here. The HTTP API gives them as JSON, which has fewer types: a whole number counts as a long.
"""

from typing import Any

from leveret.broker.erlang.terms import Atom, String, format_term


class AmqpTable(dict[str, Any]):
    """Arguments or properties, to be shown as an AMQP table."""


def format_table(table: AmqpTable) -> str:
    """A table as text."""
    return format_term(_term(table))


def _term(value: Any) -> Any:
    if isinstance(value, dict):
        return [(String(key), _term(one)) for key, one in value.items()]
    if isinstance(value, list):
        return [_term(one) for one in value]
    if isinstance(value, str):
        return String(value)
    return Atom("undefined") if value is None else value


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
