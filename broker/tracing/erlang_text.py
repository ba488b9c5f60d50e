"""Erlang's terms as its `~p` prints them, for traces that are text, as RabbitMQ writes them.

A term is a `str` (a binary), an `Atom`, a number, a tuple or a list. What does not fit in the line
goes on below its first element: tuples and lists of plain things are filled line by line, in a
list of others each has a line of its own.
"""

from collections.abc import Sequence
from typing import Any

from broker.amqp.erlang_terms import FIELD_TYPE_NAMES
from broker.amqp.field_table import Field, Table
from broker.amqp.properties import Properties

LINE_CHARACTERS = 80
TEXT_CHARACTERS = 60
"""Of a line that is one of several, its indentation not counted."""
CONTROLS = {10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v", 8: "\\b", 12: "\\f", 27: "\\e"}


class Atom(str):
    """A word such as `longstr`."""

    __slots__ = ()


def printed(term: Any, column: int) -> str:
    """A term that begins at a column."""
    flat = _flat(term)
    if column + len(flat) < LINE_CHARACTERS:
        return flat
    return _broken(term, column)


def properties_term(properties: Properties) -> list[Any]:
    """A message's properties as the firehose has them: the last one first."""
    return [_property_term(name, value) for name, value in reversed(properties.items())]


def _property_term(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, dict):
        return name, Atom("table"), _table_term(value)
    return name, Atom("longstr" if isinstance(value, str) else "signedint"), value


def _table_term(table: Table) -> list[Any]:
    return [(name, *_field_term(field)) for name, field in table.items()]


def _field_term(field: Field) -> tuple[Any, ...]:
    letter, value = field
    kind = Atom(FIELD_TYPE_NAMES[letter])
    match letter:
        case "F":
            return kind, _table_term(value)
        case "A":
            return kind, [_field_term(item) for item in value]
        case "x":
            return kind, bytes(value).decode("utf-8", "surrogateescape")
        case "V":
            return kind, Atom("undefined")
        case "t":
            return kind, Atom(str(value).lower())
        case _:
            return kind, value


def _flat(term: Any) -> str:
    match term:
        case Atom():
            return str(term)
        case str():
            return _binary(term)
        case tuple():
            return f"{{{','.join(map(_flat, term))}}}"
        case list():
            return f"[{','.join(map(_flat, term))}]"
        case float():
            mantissa, e, exponent = repr(term).partition("e")
            point = "" if "." in mantissa else ".0"
            return f"{mantissa}{point}{e}{exponent.removeprefix('+')}" if e else mantissa
        case _:
            return str(term)


def _binary(text: str) -> str:
    """A binary of which every byte is a printable character of Latin-1 is shown as it is."""
    data = text.encode("utf-8", "surrogateescape")
    if not data:
        return "<<>>"
    if all(32 <= byte < 127 or byte >= 160 or byte in CONTROLS for byte in data):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').translate(CONTROLS)
        return f'<<"{escaped}">>'
    return f"<<{','.join(map(str, data))}>>"


def _broken(term: Any, column: int) -> str:
    """A term that does not fit in the line, over several."""
    if not isinstance(term, tuple | list) or not term:
        return _flat(term)
    opening, closing = "{}" if isinstance(term, tuple) else "[]"
    is_filled = isinstance(term, tuple) or not any(isinstance(one, tuple | list) for one in term)
    return f"{opening}{_elements(term, column + 1, is_filled)}{closing}"


def _elements(term: Sequence[Any], column: int, is_filled: bool) -> str:
    text, used = "", 1
    for number, element in enumerate(term):
        flat = _flat(element)
        fits_here = used + len(flat) + 1 <= TEXT_CHARACTERS
        if number:
            text += ","
            if not is_filled or not fits_here:
                text += "\n" + " " * column
                used = 0
        fits = used + len(flat) + 1 <= TEXT_CHARACTERS
        text += flat if fits else _broken(element, column + used - (not number))
        used += len(flat) + 1
    return text
