"""Reads the Erlang terms in which RabbitMQ's LDAP queries are written. Pure.

`{in_group, "cn=${vhost},dc=example", "member"}` becomes `(Atom("in_group"), "cn=...", "member")`:
tuples, lists, strings and atoms. Other terms have no place in a query, and are refused.
"""

import re
from typing import Any, NamedTuple

DEPTH_MAX = 100
_TOKEN = re.compile(
    r"""
      (?P<mark>[{}\[\],])
    | (?:<<)?"(?P<string>(?:[^"\\]|\\.)*)"(?:>>)?     # a binary is a string, too
    | '(?P<quoted>(?:[^'\\]|\\.)*)'
    | (?P<atom>[a-z][\w@]*)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "s": " ", "0": "\0"}
_CLOSING = {"{": "}", "[": "]"}


class TermError(ValueError):
    """A text is no term; it says where."""


class Atom(str):
    """A word without double quotes."""

    __slots__ = ()


class _Token(NamedTuple):
    kind: str
    value: str
    place: int


def parse_term(text: str) -> Any:
    """The term: tuples, lists, atoms and strings. A full stop may follow it. Raises TermError."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(reversed(_tokens(text)))

    def read(self) -> Any:
        term = self._term(0)
        if self._tokens:
            raise self._error("has more after its end", self._tokens[-1].place)
        return term

    def _term(self, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise self._error("is nested too deeply", 0)
        if not self._tokens:
            raise self._error("ends too early", len(self._text))
        token = self._tokens.pop()
        if token.kind == "string":
            return token.value
        if token.kind in ("atom", "quoted"):
            return Atom(token.value)
        if token.value not in _CLOSING:
            raise self._error(f"has '{token.value}' where a term has to be", token.place)
        items = self._items(_CLOSING[token.value], depth)
        return tuple(items) if token.value == "{" else items

    def _items(self, closing: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while self._tokens and not self._skips(closing):
            if items and not self._skips(","):
                raise self._error("lacks a comma", self._tokens[-1].place)
            items.append(self._term(depth + 1))
            if not self._tokens:
                raise self._error(f"lacks a '{closing}'", len(self._text))
        return items

    def _skips(self, mark: str) -> bool:
        token = self._tokens[-1]
        if (token.kind, token.value) != ("mark", mark):
            return False
        self._tokens.pop()
        return True

    def _error(self, what: str, place: int) -> TermError:
        return _error(self._text, what, place)


def _tokens(text: str) -> list[_Token]:
    tokens, place = [], 0
    end = len(text.rstrip().removesuffix(".").rstrip())
    while place < end:
        if text[place].isspace():
            place += 1
            continue
        found = _TOKEN.match(text, place, end)
        if found is None:
            raise _error(text, "cannot be read", place)
        kind = str(found.lastgroup)
        tokens.append(_Token(kind, _unescaped(found[kind]), place))
        place = found.end()
    return tokens


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), text)


def _error(text: str, what: str, place: int) -> TermError:
    return TermError(f"the term {text} {what}, at character {place + 1}")
