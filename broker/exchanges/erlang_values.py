"""Argument values as Erlang reads and prints them, for refusals that quote what a client sent.

RabbitMQ puts the offending value into its reply text as an Erlang term. Here it is on one line
whatever its length, where Erlang would break a long one.
"""

import re

from broker.amqp.erlang_terms import FIELD_TYPE_NAMES, format_binary, format_text
from broker.amqp.field_table import Field

_INTEGER = re.compile(r"[+-]?[0-9]{1,300}", re.ASCII)
"""Longer ones than a short string can hold need not be read."""


def read_integer(text: str) -> int | None:
    """The integer that Erlang would read: a sign and digits, with nothing around them."""
    return int(text) if _INTEGER.fullmatch(text) else None


def format_value(field: Field) -> str:
    """The value as an Erlang term."""
    letter, value = field
    match letter:
        case "S":
            return _format_string(value)
        case "x":
            return format_binary(value)
        case "t":
            return "true" if value else "false"
        case "V":
            return "undefined"
        case "D":
            return f"{{{value[0]},{value[1]}}}"
        case "A":
            return f"[{','.join(f'{{{_format_typed(item)}}}' for item in value)}]"
        case "F":
            entries = (f"{{{_format_string(name)},{_format_typed(value[name])}}}" for name in value)
            return f"[{','.join(entries)}]"
    return str(value)


def _format_typed(field: Field) -> str:
    return f"{FIELD_TYPE_NAMES[field[0]]},{format_value(field)}"


def _format_string(text: str) -> str:
    """As text, or, if its bytes are no UTF-8, as numbers."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return format_binary(text.encode("utf-8", "surrogateescape"))
    return format_text(text)
