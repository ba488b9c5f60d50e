"""Converts Erlang terms, in the form of RabbitMQ's advanced.config, to field tables.

A table is a list of `{Name, Type, Value}`, an array a list of `{Type, Value}`. The types are those
of `field_terms`. Values have to fit their types; RabbitMQ checks that when it sends them.
"""

import struct
from typing import Any, Final

from leveret.broker.amqp.field_table import DECIMAL, DEEP, FIXED, Field, Table
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES
from leveret.broker.erlang.terms import Atom, format_term

NAME_BYTES_MAX: Final = 255
_LETTERS = {name: letter for letter, name in FIELD_TYPE_NAMES.items() if letter not in ("L", DEEP)}


def terms_to_table(term: Any) -> Table:
    """The table for a list of `{Name, Type, Value}`. Raises ValueError.

    Terms that are nested too deeply for Python have to be refused before (`parse_terms`).
    """
    if not isinstance(term, list):
        raise ValueError(f"a table should be a list, actually was {format_term(term)}")
    table: Table = {}
    for one in term:
        match one:
            case tuple((str() as name, Atom() as kind, value)) if type(name) is str:
                if len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
                    raise ValueError(f"the name of a field may have {NAME_BYTES_MAX} bytes")
                table[name] = _typed_field(kind, value)
            case _:
                raise ValueError(
                    f"a field should be {{Name, Type, Value}}, such as "
                    f'{{<<"x-max-length">>, long, 9}}, actually was {format_term(one)}'
                )
    return table


def _typed_field(kind: str, value: Any) -> Field:
    letter = _LETTERS.get(kind)
    if letter is None:
        raise ValueError(f"a field cannot have the type {kind}; known are {', '.join(_LETTERS)}")
    try:
        return letter, _field_value(letter, value)
    except (TypeError, OverflowError, struct.error):
        raise ValueError(f"a field of the type {kind} cannot be {format_term(value)}") from None


def _field_value(letter: str, value: Any) -> Any:
    """The value of a field. Raises ValueError, TypeError, OverflowError and struct.error."""
    match letter, value:
        case "F", _:
            return terms_to_table(value)
        case "A", list():
            return [_typed_field(*item) for item in value]
        case "V", _:
            return None
        case "t", Atom("true" | "false"):
            return value == "true"
        case "S", str() if type(value) is str:
            return value
        case "x", str() if type(value) is str:
            return value.encode("utf-8", "surrogateescape")
        case "D", tuple((int() as scale, int() as number)):
            DECIMAL.pack(scale, number)
            return scale, number
        case (("d" | "f"), int() | float()):
            FIXED[ord(letter)].pack(value)
            return float(value)
        case _, int() if ord(letter) in FIXED:
            FIXED[ord(letter)].pack(value)
            return value
        case _:
            raise TypeError
