"""Turns the reasons of the HTTP API into words.

RabbitMQ's API returns a text with escaped HTML, or a word and its details, and Erlang terms are
part of many texts: `[{<<"max-lenght">>,1}] are not recognised policy settings`. Here terms become
`"max-lenght": 1`, and maps are as in JSON. Text that only looks like a term stays as it is.
"""

import json
import re
from typing import Any

from leveret.broker.erlang.parser import TermError, parse_term
from leveret.broker.erlang.terms import Atom, String

INVALID_REGEXP = "invalid_regexp"
_ESCAPED = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&"))
_START = re.compile(r'<<(?=[">\d])|#\{|[\[{](?=[\[{<"])')
_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|<<|>>|[\[\]{}]', re.DOTALL)
_OPENING, _CLOSING = ("<<", "[", "{"), (">>", "]", "}")


def in_words(reason: Any) -> str:
    """Convert a reason to text without terms and escaped characters."""
    if isinstance(reason, list):
        if len(reason) == 3 and reason[0] == INVALID_REGEXP:
            return f'"{reason[1]}" is not a valid regular expression: {reason[2]}'
        return ": ".join(map(in_words, reason))
    text = reason if isinstance(reason, str) else json.dumps(reason)
    for escaped, plain in _ESCAPED:
        text = text.replace(escaped, plain)
    return without_terms(text)


def without_terms(text: str) -> str:
    """Replace Erlang terms in a text by words."""
    parts, place = [], 0
    while start := _START.search(text, place):
        end = _end_of_term(text, start.start())
        parts += [text[place : start.start()], _replaced(text[start.start() : end])]
        place = end
    return "".join(parts) + text[place:]


def _end_of_term(text: str, start: int) -> int:
    """Return where the bracket at a place is closed; the end of the text if it is not."""
    depth = 0
    for mark in _MARK.finditer(text, start):
        depth += (mark[0] in _OPENING) - (mark[0] in _CLOSING)
        if not depth:
            return mark.end()
    return len(text)


def _replaced(term: str) -> str:
    try:
        return _shown(parse_term(term))
    except TermError:
        return term


def _shown(term: Any) -> str:
    if isinstance(term, list):
        return _shown_list(term)
    if isinstance(term, tuple):
        return _shown_tuple(term)
    if isinstance(term, dict):
        pairs = (f"{_shown(key)}: {_shown(value)}" for key, value in term.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(term, str) and not isinstance(term, Atom):
        return json.dumps(term, ensure_ascii=False)
    return str(term)


def _shown_list(terms: list[Any]) -> str:
    shown = ", ".join(map(_shown, terms))
    has_pairs = terms and all(isinstance(one, tuple) and len(one) == 2 for one in terms)
    return shown if has_pairs else f"[{shown}]"


def _shown_tuple(terms: tuple[Any, ...]) -> str:
    if len(terms) != 2:
        return f"({', '.join(map(_shown, terms))})"
    first, second = terms
    if isinstance(first, String) and isinstance(second, int):
        # The error of Erlang's regular expressions.
        return f"{first} at position {second}"
    return f"{_shown(first)}: {_shown(second)}"
