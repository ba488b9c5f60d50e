"""AMQP fields as Erlang terms, as RabbitMQ prints them in reply texts and traces.

A table is a list of `{Name, Type, Value}`, an array a list of `{Type, Value}`. Types have long
names.
"""

from typing import Any

from leveret.broker.amqp.field_table import DEEP, Field, Table
from leveret.broker.erlang.terms import Atom, format_term

FIELD_TYPE_NAMES: dict[str, str] = {
    "S": "longstr", "I": "signedint", "D": "decimal", "T": "timestamp", "F": "table",
    "A": "array", "b": "byte", "B": "unsignedbyte", "d": "double", "f": "float", "l": "long",
    "L": "long", "s": "short", "t": "bool", "x": "binary", "V": "void", "i": "unsignedint",
    "u": "unsignedshort", DEEP: "table",
}  # fmt: skip


def format_value(field: Field) -> str:
    """The value of a field as text, without its type.

    It is on one line whatever its length, where Erlang would break a long one.
    """
    return format_term(value_term(field))


def value_term(field: Field) -> Any:
    """The value of a field as a term, without its type."""
    letter, value = field
    match letter:
        case "F":
            return table_term(value)
        case "A":
            return [typed_term(item) for item in value]
        case "V":
            return Atom("undefined")
        case _:
            return value


def typed_term(field: Field) -> tuple[Atom, Any]:
    """A field as `{Type, Value}`."""
    return Atom(FIELD_TYPE_NAMES[field[0]]), value_term(field)


def table_term(table: Table) -> list[tuple[str, Atom, Any]]:
    """A table as a list of `{Name, Type, Value}`."""
    return [(name, *typed_term(field)) for name, field in table.items()]
