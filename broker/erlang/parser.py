r"""Parsing Erlang terms: RabbitMQ's LDAP queries, and properties in the logs of its tracing plugin.

`{in_group, "cn=${vhost},dc=example"}` becomes `(Atom("in_group"), String("cn=..."))`: a term
becomes the Python value that `terms` names. A binary becomes the text in it, in which U+FFFD stands
for bytes that are not UTF-8. Maps, variables, functions and process identifiers are not parsed.

Nesting is kept on a stack and not by recursion: a client chooses how deep a header is nested, and
the parser must not fail on it.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from leveret.broker.erlang.terms import Atom, String

SHOWN_CHARACTERS_MAX = 500
"""Of a text in the text of an error."""

_TOKEN = re.compile(
    r"""
      (?P<mark>[{}\[\],])
    | <<(?P<binary>(?:"(?:[^"\\]|\\.)*"|/utf8|[\d,\s])*)>>
    | "(?P<string>(?:[^"\\]|\\.)*)"
    | '(?P<quoted>(?:[^'\\]|\\.)*)'
    | (?P<atom>[a-z][\w@]*)
    | (?P<float>[+-]?\d+\.\d+(?:[eE][+-]?\d+)?)
    | (?P<integer>[+-]?\d+)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"(?:/utf8)?|(\d+)', re.DOTALL | re.ASCII)
"""A piece of a binary: a text, or a byte."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {
    "n": "\n", "r": "\r", "t": "\t", "v": "\v", "b": "\b", "f": "\f", "e": "\x1b", "s": " ",
    "0": "\0",
}  # fmt: skip
_CLOSING = {"{": "}", "[": "]"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,300}", re.ASCII)
"""A short string holds no longer ones, and reading one takes time."""


class TermError(ValueError):
    """A text is not a term; the text of the error says what is wrong, and where."""


class _Token(NamedTuple):
    """mark: a bracket or a comma; empty if the token is a term, the value. place: from 0."""

    mark: str
    value: Any
    place: int


def parse_term(text: str, depth_max: int | None = None) -> Any:
    """The one term that a text is; a full stop may follow it. Raises TermError.

    depth_max: how many brackets may be open at once; None is any number.
    """
    return _Parser(text, depth_max).parse()


def parse_integer(text: str) -> int | None:
    """The integer that Erlang would read: a sign and digits, with nothing around them."""
    return int(text) if _INTEGER.fullmatch(text) else None


class _Parser:
    """Reads one text. Open brackets are a stack of their closing marks and their terms so far."""

    def __init__(self, text: str, depth_max: int | None) -> None:
        self._text = text
        self._depth_max = depth_max
        self._open: list[tuple[str, list[Any]]] = []
        self._result: list[Any] = []
        self._is_term_due = True

    def parse(self) -> Any:
        for token in self._tokens():
            if self._result and not self._open:
                raise self._error("has more after its end", token.place)
            if not token.mark:
                self._begin_term(token)
                self._add(token.value)
            elif token.mark in _CLOSING:
                self._begin_term(token)
                self._open_bracket(token.mark)
            elif token.mark == "," and not self._is_term_due:
                self._is_term_due = True
            else:
                self._close_bracket(token)
        if self._open:
            raise self._error(f"lacks a '{self._open[-1][0]}'", len(self._text))
        if not self._result:
            raise self._error("ends too early", len(self._text))
        return self._result[0]

    def _begin_term(self, token: _Token) -> None:
        if not self._is_term_due:
            raise self._error("lacks a comma", token.place)

    def _add(self, term: Any) -> None:
        terms = self._open[-1][1] if self._open else self._result
        terms.append(term)
        self._is_term_due = False

    def _open_bracket(self, mark: str) -> None:
        self._open.append((_CLOSING[mark], []))
        if self._depth_max is not None and len(self._open) > self._depth_max:
            raise self._error("is nested too deeply", 0)

    def _close_bracket(self, token: _Token) -> None:
        closing, terms = self._open[-1] if self._open else ("", [])
        if self._is_term_due and (terms or token.mark != closing):
            raise self._error(f"has '{token.mark}' where a term has to be", token.place)
        if token.mark != closing:
            raise self._error(f"has '{token.mark}' in the place of '{closing}'", token.place)
        self._open.pop()
        self._add(tuple(terms) if closing == "}" else terms)

    def _tokens(self) -> Iterator[_Token]:
        text, place = self._text, 0
        end = len(text.rstrip().removesuffix(".").rstrip())
        while place < end:
            if text[place].isspace():
                place += 1
                continue
            found = _TOKEN.match(text, place, end)
            if found is None:
                raise self._error("cannot be read", place)
            yield self._token(found, place)
            place = found.end()

    def _token(self, found: re.Match[str], place: int) -> _Token:
        kind = str(found.lastgroup)
        content = found[kind]
        match kind:
            case "mark":
                return _Token(content, None, place)
            case "binary":
                return _Token("", self._binary(content, place), place)
            case "string":
                return _Token("", String(_unescaped(content)), place)
            case "integer":
                return _Token("", int(content), place)
            case "float":
                return _Token("", float(content), place)
            case _:
                return _Token("", Atom(_unescaped(content)), place)

    def _binary(self, content: str, place: int) -> str:
        """The text in a binary, of which a long one is written in several pieces."""
        data = bytearray()
        for piece in _PIECE.finditer(content):
            if piece[2] is None:
                data += _unescaped(piece[1]).encode("utf-8", "surrogateescape")
            elif int(piece[2]) < 256:
                data.append(int(piece[2]))
            else:
                raise self._error("has a byte above 255", place)
        return data.decode("utf-8", "replace")

    def _error(self, what: str, place: int) -> TermError:
        shown = self._text[:SHOWN_CHARACTERS_MAX]
        if len(self._text) > SHOWN_CHARACTERS_MAX:
            shown += "..."
        return TermError(f"the term {shown} {what}, at character {place + 1}")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), text)
