r"""The tokens of Erlang terms: marks such as brackets, and the terms that have no terms in them.

The terms are atoms, integers with a base (`16#ff`) and with underscores, characters (`$a`), floats,
texts with all escapes of Erlang, adjacent ones of which form one text, and binaries of texts and
bytes. Blanks and comments are skipped. A call of a function, or a reference to one, becomes an atom
of its text: RabbitMQ's files contain such calls, and RabbitMQ evaluates them.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from leveret.broker.erlang.terms import Atom, String

DIGITS_MAX: Final = 1000
"""The most digits of an integer: longer ones take long to read."""
_TEXT = r'"(?:[^"\\]|\\.)*"'
_PIECE = rf"(?:{_TEXT}\s*)+(?:/\s*utf8\s*)?|[0-9]+\s*"
_TOKEN = re.compile(
    rf"""
      (?P<blank>(?:\s|%[^\n]*)+)
    | (?P<mark>[{{}}\[\],]|\#{{|=>|\.(?=[\s%]|\Z))
    | <<\s*(?P<binary>(?:(?:{_PIECE})(?:,\s*(?:{_PIECE}))*)?)>>
    | (?P<string>{_TEXT}(?:\s*{_TEXT})*)
    | '(?P<quoted>(?:[^'\\]|\\.)*)'
    | (?P<call>[a-z]\w*:[a-z]\w*\([\w\s,]*\)|fun\s+[a-z]\w*:[a-z]\w*/[0-9]+)
    | (?P<atom>[a-z][\w@]*)
    | (?P<float>[+-]?[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    | (?P<based>[+-]?[0-9]{{1,2}}\#[0-9a-zA-Z]+)
    | (?P<integer>[+-]?[0-9]+(?:_[0-9]+)*)
    | \$(?P<character>\\x\{{[0-9a-fA-F]+\}}|\\x[0-9a-fA-F]{{2}}|\\[0-7]{{1,3}}|\\\^.|\\?.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_TEXTS = re.compile(_TEXT, re.DOTALL)
_PIECES = re.compile(rf"(?P<texts>(?:{_TEXT}\s*)+)(?P<utf8>/\s*utf8)?|(?P<byte>[0-9]+)", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x\{(?P<long>[0-9a-fA-F]+)\}|x(?P<hex>[0-9a-fA-F]{2})"
    r"|\^(?P<control>.)|(?P<other>.))",
    re.DOTALL,
)
_ESCAPES = {
    "n": "\n", "r": "\r", "t": "\t", "v": "\v", "b": "\b", "f": "\f", "e": "\x1b", "s": " ",
    "d": "\x7f",
}  # fmt: skip
_CODE_MAX: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


class UnreadableToken(Exception):
    """A token cannot be read. The text says why. place: from 0."""

    def __init__(self, what: str, place: int) -> None:
        self.place = place
        super().__init__(what)


class Token(NamedTuple):
    """A token. mark: a bracket or the like; empty if the token is a term. place: from 0.

    value: the term; that of a binary is its bytes.
    """

    mark: str
    value: Any
    place: int


def tokens(text: str, end: int, encoding: str) -> Iterator[Token]:
    """The tokens of a text up to a place. Raises UnreadableToken.

    encoding: that of the texts in binaries that are not marked as UTF-8.
    """
    place = 0
    while place < end:
        found = _TOKEN.match(text, place, end)
        if found is None:
            raise UnreadableToken("cannot be read", place)
        kind = str(found.lastgroup)
        if kind == "mark":
            yield Token(found[kind], None, place)
        elif kind == "binary":
            yield Token("", _binary(found[kind], encoding, place), place)
        elif kind != "blank":
            yield Token("", _VALUES[kind](found[kind], place), place)
        place = found.end()


def _binary(content: str, encoding: str, place: int) -> bytes:
    data = bytearray()
    for piece in _PIECES.finditer(content):
        if piece["byte"] is not None:
            byte = piece["byte"].lstrip("0") or "0"
            if len(byte) > 3 or int(byte) > 255:
                raise UnreadableToken("has a byte above 255", place)
            data.append(int(byte))
            continue
        characters = _string(piece["texts"], place)
        try:
            data += characters.encode("utf-8" if piece["utf8"] else encoding, "surrogateescape")
        except UnicodeEncodeError:
            raise UnreadableToken(
                'has characters in a binary that are not one byte each: write <<"..."/utf8>>',
                place,
            ) from None
    return bytes(data)


def _string(content: str, place: int) -> String:
    """Texts in a row, with their quotes, as one."""
    return String("".join(_unescaped(one[1:-1], place) for one in _TEXTS.findall(content)))


def _atom(content: str, place: int) -> Atom:
    return Atom(_unescaped(content, place))


def _call(content: str, place: int) -> Atom:
    return Atom(content)


def _float(content: str, place: int) -> float:
    number = float(content)
    if number in (float("inf"), float("-inf")):
        raise UnreadableToken("has a number that is too large", place)
    return number


def _integer(content: str, place: int) -> int:
    return _digits(content.replace("_", ""), 10, place)


def _based(content: str, place: int) -> int:
    base, _, digits = content.partition("#")
    sign = "-" if base.startswith("-") else ""
    if not 2 <= int(base.lstrip("+-")) <= 36:
        raise UnreadableToken("has a number whose base is not from 2 to 36", place)
    return _digits(sign + digits, int(base.lstrip("+-")), place)


def _digits(digits: str, base: int, place: int) -> int:
    if len(digits) > DIGITS_MAX:
        raise UnreadableToken("has a number that is too large", place)
    try:
        return int(digits, base)
    except ValueError:
        raise UnreadableToken(
            f"has a number with digits that base {base} does not have", place
        ) from None


def _character(content: str, place: int) -> int:
    return ord(_unescaped(content, place)) if content != "\\" else ord(content)


_VALUES: Final[dict[str, Callable[[str, int], Any]]] = {
    "string": _string,
    "quoted": _atom,
    "atom": _atom,
    "call": _call,
    "float": _float,
    "based": _based,
    "integer": _integer,
    "character": _character,
}


def _unescaped(text: str, place: int) -> str:
    def character(found: re.Match[str]) -> str:
        if found["control"] is not None:
            return chr(ord(found["control"]) & 31)
        if found["other"] == "x":
            raise UnreadableToken("has the escape \\x without two digits", place)
        if found["other"] is not None:
            return _ESCAPES.get(found["other"], found["other"])
        digits, base = (
            (found["octal"], 8) if found["octal"] else (found["long"] or found["hex"], 16)
        )
        code = int(digits[-8:], base) if not digits[:-8].strip("0") else _CODE_MAX + 1
        if code > _CODE_MAX or code in _SURROGATES:
            raise UnreadableToken(f"has the escape {found[0][:20]}, which is no character", place)
        return chr(code)

    return _ESCAPE.sub(character, text)
