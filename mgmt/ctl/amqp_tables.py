"""AMQP tables in listings, as rabbitmqctl shows them.

In a table, arguments are an Erlang term, `[{"x-max-length",5}]`; in JSON they are a list of names,
types and values, `[["x-max-length","long",5]]`. Scripts take them apart, so they look the same
here. leveretctl asks the HTTP API for the types.
"""

from typing import Any

from leveret.broker.erlang.terms import Atom, String, format_term


class AmqpTable(list[Any]):
    """Arguments or properties as names, types and values."""


def format_table(table: AmqpTable) -> str:
    """A table as text."""
    return format_term(_term("table", table))


def _term(kind: str, value: Any) -> Any:
    match kind:
        case "table":
            return [(String(name), _term(*typed)) for name, *typed in value]
        case "array":
            return [_term(*typed) for typed in value]
        case "void":
            return Atom("undefined")
    return String(value) if isinstance(value, str) else value
