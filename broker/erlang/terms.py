"""Erlang terms as Python values, and their text on one line.

RabbitMQ formats parts of its reply texts, listings and traces as Erlang terms, and programs match
on these texts. A term is one of:

    bytes, str              a binary; a str is the UTF-8 text in it
    Atom, bool, None        an atom; None is `null`, as in JSON
    String                  a list of characters, which Erlang writes between double quotes
    int, float              a number
    tuple, list             the same
    Mapping                 a map

`Charset` decides which binaries are text. Erlang's `~tp` (UTF8) prints a binary as text if it is
valid UTF-8 and printable, and marks it `/utf8` unless it is ASCII. `~p` (LATIN_1) prints one as
text if every byte is a printable character of Latin-1.
"""

import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

PRINTABLE_CONTROLS = {
    "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\b": "\\b", "\f": "\\f", "\x1b": "\\e",
}  # fmt: skip
"""The control characters that Erlang prints within a text, with their escapes."""
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', **PRINTABLE_CONTROLS})
_CONTROL_BYTES = frozenset(map(ord, PRINTABLE_CONTROLS))


_BARE_ATOM = re.compile(r"[a-z][A-Za-z0-9_@]*")


class Atom(str):
    """An atom, such as `longstr`."""

    __slots__ = ()


class String(str):
    """A list of characters, such as `"a"`."""

    __slots__ = ()


class Charset(Enum):
    """The character set that Erlang expects in binaries when it prints them."""

    UTF8 = auto()
    LATIN_1 = auto()


def format_term(term: Any, charset: Charset = Charset.UTF8) -> str:
    """The text of a term, on one line."""
    match term:
        case Atom():
            return str(term) if _BARE_ATOM.fullmatch(term) else _quoted(term)
        case String():
            return f'"{_escaped(term)}"'
        case bool():
            return str(term).lower()
        case None:
            return "null"
        case str() | bytes():
            return _format_binary(term, charset)
        case float():
            return _format_float(term)
        case tuple():
            return f"{{{_format_all(term, charset)}}}"
        case list():
            return f"[{_format_all(term, charset)}]"
        case Mapping():
            pairs = (
                f"{format_term(key, charset)} => {format_term(value, charset)}"
                for key, value in term.items()
            )
            return f"#{{{','.join(pairs)}}}"
        case _:
            return str(term)


def format_binary(data: bytes) -> str:
    """`<<"text">>` if every byte is printable ASCII, `<<1,2>>` otherwise."""
    if not data:
        return "<<>>"
    if all(32 <= byte < 127 or byte in _CONTROL_BYTES for byte in data):
        return f'<<"{_escaped(data.decode("ascii"))}">>'
    return _format_bytes(data)


def _format_binary(binary: str | bytes, charset: Charset) -> str:
    if charset is Charset.LATIN_1:
        return _format_latin_1(binary)
    if isinstance(binary, bytes):
        return format_binary(binary)
    if binary.isascii():
        return format_binary(binary.encode())
    try:
        binary.encode()
    except UnicodeEncodeError:
        # Bytes that are not UTF-8 were decoded as surrogates.
        return _format_bytes(binary.encode("utf-8", "surrogateescape"))
    return f'<<"{_escaped(binary)}"/utf8>>'


def _format_latin_1(binary: str | bytes) -> str:
    """Format as `~p`, whose output is bytes: those of the binary, which usually are UTF-8."""
    data = binary if isinstance(binary, bytes) else binary.encode("utf-8", "surrogateescape")
    if not data:
        return "<<>>"
    if all(32 <= byte < 127 or byte >= 160 or byte in _CONTROL_BYTES for byte in data):
        return f'<<"{_escaped(data.decode("utf-8", "surrogateescape"))}">>'
    return _format_bytes(data)


def _format_bytes(data: bytes) -> str:
    return f"<<{','.join(map(str, data))}>>"


def _format_float(number: float) -> str:
    """Format as Erlang does, with a point before the exponent."""
    mantissa, e, exponent = repr(number).partition("e")
    point = "" if "." in mantissa else ".0"
    return f"{mantissa}{point}e{int(exponent)}" if e else mantissa


def _format_all(terms: tuple[Any, ...] | list[Any], charset: Charset) -> str:
    return ",".join(format_term(term, charset) for term in terms)


def _quoted(atom: str) -> str:
    escaped = atom.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)
