"""Erlang terms over several lines, broken where Erlang's `~p` breaks them.

RabbitMQ's tracing plugin writes such text. A term that does not fit in the line goes on below its
first element: a tuple, and a list of plain terms, is filled line by line; in a list of tuples or
lists each element has a line of its own.
"""

from collections.abc import Sequence
from typing import Any

from leveret.broker.erlang.terms import Charset, format_term

LINE_CHARACTERS = 80
TEXT_CHARACTERS = 60
"""The length of one of several lines, without its indentation."""


def format_lines(term: Any, column: int) -> str:
    """The text of a term whose first line begins at a column."""
    flat = _flat(term)
    if column + len(flat) < LINE_CHARACTERS:
        return flat
    return _broken(term, column)


def _flat(term: Any) -> str:
    return format_term(term, Charset.LATIN_1)


def _broken(term: Any, column: int) -> str:
    """Return a term that does not fit in the line, over several."""
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
