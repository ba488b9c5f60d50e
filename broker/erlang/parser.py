r"""Parsing Erlang terms: files of terms, RabbitMQ's LDAP queries, and properties in its trace logs.

`{in_group, "cn=${vhost},dc=example"}` becomes `(Atom("in_group"), String("cn=..."))`: a term
becomes the Python value that `terms` names. A binary becomes the text in it. Variables, functions,
process identifiers and lists with a tail (`[a|b]`) are not parsed.

Nesting is kept on a stack and not by recursion: a client chooses how deep a header is nested, and
the parser must not fail on it.
"""

import re
from typing import Any, Final, NamedTuple

from leveret.broker.erlang.tokens import Token, UnreadableToken, tokens

SHOWN_CHARACTERS_MAX = 500
"""The longest quotation in the text of an error."""
_MAP: Final = "#{"
_CLOSING = {"{": "}", "[": "]", _MAP: "}"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,300}", re.ASCII)
"""Longer integers do not fit in a short string, and take long to read."""


class TermError(ValueError):
    """A text is not a term; the text of the error says what is wrong, and where."""


def parse_term(text: str, depth_max: int | None = None) -> Any:
    """Parse a text that is one term; a full stop may follow it. Raises TermError.

    depth_max: the number of brackets that may be open at once; None: any number. U+FFFD stands for
    bytes that are not UTF-8.
    """
    parser = _TermParser(depth_max, is_file=False)
    end = len(text.rstrip().removesuffix(".").rstrip())
    try:
        return parser.parse(text, end, "utf-8")[0]
    except UnreadableToken as error:
        shown = text[:SHOWN_CHARACTERS_MAX]
        if len(text) > SHOWN_CHARACTERS_MAX:
            shown += "..."
        problem = f"the term {shown} {error}, at character {error.place + 1}"
        raise TermError(problem) from None


def parse_terms(text: str, depth_max: int) -> list[Any]:
    """Parse the terms of a file, each of which ends with a full stop. Raises TermError.

    As in Erlang, the characters of a binary are bytes unless it is marked `/utf8`. Bytes that are
    not UTF-8 become surrogates (`surrogateescape`).
    """
    try:
        return _TermParser(depth_max, is_file=True).parse(text, len(text), "latin-1")
    except UnreadableToken as error:
        before = text[: error.place]
        line, column = before.count("\n") + 1, error.place - before.rfind("\n")
        raise TermError(f"line {line}, column {column}: the text {error}") from None


def parse_integer(text: str) -> int | None:
    """Parse an integer as Erlang does: a sign and digits, with nothing around them."""
    return int(text) if _INTEGER.fullmatch(text) else None


class _Open(NamedTuple):
    """An open bracket, and the terms in it so far; those of a map are keys and values in turn."""

    mark: str
    terms: list[Any]

    @property
    def closing(self) -> str:
        return _CLOSING[self.mark]

    @property
    def lacks_value(self) -> bool:
        """Whether the last term is a key of a map."""
        return self.mark == _MAP and len(self.terms) % 2 == 1


class _TermParser:
    """Parses one text. is_file: it has any number of terms, each with a full stop."""

    def __init__(self, depth_max: int | None, *, is_file: bool) -> None:
        self._depth_max = depth_max
        self._is_file = is_file
        self._open: list[_Open] = []
        self._result: list[Any] = []
        self._is_term_due = True

    def parse(self, text: str, end: int, encoding: str) -> list[Any]:
        for token in tokens(text, end, encoding):
            if not self._open and not self._is_term_due:
                self._end_term(token)
            elif not token.mark:
                self._begin_term(token)
                self._add(self._value(token))
            elif token.mark in _CLOSING:
                self._begin_term(token)
                self._open_bracket(token)
            elif self._is_separator(token.mark):
                self._is_term_due = True
            else:
                self._close_bracket(token)
        if self._open:
            raise UnreadableToken(f"lacks a '{self._open[-1].closing}'", end)
        if self._is_file and not self._is_term_due:
            raise UnreadableToken("lacks a '.' after the last term", end)
        if not self._is_file and not self._result:
            raise UnreadableToken("ends too early", end)
        return self._result

    def _end_term(self, token: Token) -> None:
        """Handle the token after a complete term."""
        if not self._is_file:
            raise UnreadableToken("has more after its end", token.place)
        if token.mark != ".":
            raise UnreadableToken("lacks a '.' after a term", token.place)
        self._is_term_due = True

    def _value(self, token: Token) -> Any:
        if not isinstance(token.value, bytes):
            return token.value
        return token.value.decode("utf-8", "surrogateescape" if self._is_file else "replace")

    def _begin_term(self, token: Token) -> None:
        if not self._is_term_due:
            wanted = "an '=>'" if self._open[-1].lacks_value else "a comma"
            raise UnreadableToken(f"lacks {wanted}", token.place)

    def _add(self, term: Any) -> None:
        terms = self._open[-1].terms if self._open else self._result
        terms.append(term)
        self._is_term_due = False

    def _open_bracket(self, token: Token) -> None:
        self._open.append(_Open(token.mark, []))
        if self._depth_max is not None and len(self._open) > self._depth_max:
            raise UnreadableToken("is nested too deeply", token.place if self._is_file else 0)

    def _is_separator(self, mark: str) -> bool:
        """Whether a mark, at its place, separates a term from the next one."""
        if self._is_term_due:
            return False
        return mark == ("=>" if self._open[-1].lacks_value else ",")

    def _close_bracket(self, token: Token) -> None:
        if not self._open:
            raise UnreadableToken(f"has '{token.mark}' where a term has to be", token.place)
        opened = self._open[-1]
        if self._is_term_due and (opened.terms or token.mark != opened.closing):
            raise UnreadableToken(f"has '{token.mark}' where a term has to be", token.place)
        if token.mark != opened.closing or opened.lacks_value:
            wanted = "=>" if opened.lacks_value else opened.closing
            raise UnreadableToken(f"has '{token.mark}' in the place of '{wanted}'", token.place)
        self._open.pop()
        self._add(_closed(opened, token.place))


def _closed(opened: _Open, place: int) -> Any:
    terms = opened.terms
    match opened.mark:
        case "{":
            return tuple(terms)
        case "[":
            return terms
        case _:
            try:
                return dict(zip(terms[::2], terms[1::2], strict=True))
            except TypeError:
                raise UnreadableToken("has a list or a map as the key of a map", place) from None
