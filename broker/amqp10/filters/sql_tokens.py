"""The tokens of SQL filter expressions, as RabbitMQ reads them (rabbit_amqp_sql_lexer.xrl).

Reserved words are upper case. At each place the longest token counts. A text is at most 4096
characters and 200 tokens.
"""

import re
from typing import Final, NamedTuple

LENGTH_MAX: Final = 4096
TOKENS_MAX: Final = 200

INTEGER: Final = "integer"
FLOAT: Final = "float"
STRING: Final = "string"
BINARY: Final = "binary"
BOOLEAN: Final = "boolean"
IDENTIFIER: Final = "identifier"
SECTION_FIELD: Final = "field"
END: Final = "end"

PRIORITY_FIELD: Final = "header.priority"

_WORDS: Final = frozenset(("AND", "OR", "NOT", "LIKE", "IN", "IS", "NULL", "ESCAPE", "UTC"))
_UNSUPPORTED: Final = frozenset((
    "and", "or", "not", "like", "in", "is", "null", "escape", "true", "false", "exists", "nan",
    "inf", "lower", "upper", "left", "right", "substring", "utc", "date",
))  # fmt: skip
"""Words in any case that are no identifiers."""
_HEADER_SECTIONS: Final = frozenset(("header", "h"))
_PROPERTIES_SECTIONS: Final = frozenset(("properties", "p"))
_APPLICATION_SECTIONS: Final = frozenset(("application_properties", "a"))
_PROPERTIES: Final = frozenset((
    "message_id", "user_id", "to", "subject", "reply_to", "correlation_id", "content_type",
    "content_encoding", "absolute_expiry_time", "creation_time", "group_id", "group_sequence",
    "reply_to_group_id",
))  # fmt: skip
_SPACE: Final = re.compile(r"[ \t\f\n\r]+")
_TOKEN: Final = re.compile(
    r"""
    (?P<binary>0x(?:[0-9A-F][0-9A-F])+)
    | (?P<float>[0-9]+\.[0-9]+(?:E[+-]?[0-9]+)?)
    | (?P<integer>[0-9]+)
    | (?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<field>[a-zA-Z][a-zA-Z_-]*\.[a-zA-Z][a-zA-Z0-9_]*)
    | (?P<word>[a-zA-Z][a-zA-Z0-9_]*)
    | (?P<delimited>\[(?:[^\[\]]|\[\[|\]\])*\])
    | (?P<symbol><>|!=|>=|<=|[=<>+\-*/%(),])
    """,
    re.VERBOSE,
)


class SqlError(ValueError):
    """A text is no SQL filter. position: of what is wrong in it, from 1 on, in characters."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason}, at position {position}")
        self.position = position


class SqlToken(NamedTuple):
    """One token. kind: one of the constants, or the text of a reserved word or a symbol.

    value: of a literal; the name of an application property (`IDENTIFIER`), or of a field of
    another section (`SECTION_FIELD`), such as `message-id`.
    """

    kind: str
    value: bool | int | float | bytes | str | None
    position: int


def read_tokens(text: str) -> list[SqlToken]:
    """The tokens of a text, with one of the kind `END` at the end. Raises SqlError."""
    if len(text) > LENGTH_MAX:
        raise SqlError(f"it has {len(text)} characters; {LENGTH_MAX} are allowed", LENGTH_MAX + 1)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SqlError("it is not UTF-8", error.start + 1) from None
    tokens: list[SqlToken] = []
    at = _after_space(text, 0)
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise SqlError(f"{text[at]!r} begins nothing", at + 1)
        tokens.append(_token(found, at + 1))
        if len(tokens) > TOKENS_MAX:
            raise SqlError(f"it has more than {TOKENS_MAX} tokens", at + 1)
        at = _after_space(text, found.end())
    tokens.append(SqlToken(END, None, len(text) + 1))
    return tokens


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _token(found: re.Match[str], position: int) -> SqlToken:
    kind, text = str(found.lastgroup), found[0]
    match kind:
        case "binary":
            return SqlToken(BINARY, bytes.fromhex(text[2:]), position)
        case "integer":
            return SqlToken(INTEGER, int(text), position)
        case "float":
            return SqlToken(FLOAT, _float(text, position), position)
        case "string":
            quote = text[0]
            return SqlToken(STRING, text[1:-1].replace(quote * 2, quote), position)
        case "field":
            return _field(text, position)
        case "word":
            return _word(text, position)
        case "delimited":
            return _delimited(text, position)
    return SqlToken("<>" if text == "!=" else text, None, position)


def _float(text: str, position: int) -> float:
    number = float(text)
    if number == float("inf"):
        raise SqlError(f"the number {text} is too large", position)
    return number


def _word(text: str, position: int) -> SqlToken:
    if text in ("TRUE", "FALSE"):
        return SqlToken(BOOLEAN, text == "TRUE", position)
    if text in _WORDS:
        return SqlToken(text, None, position)
    if text.lower() in _UNSUPPORTED:
        raise SqlError(
            f"the word {text} is reserved, and has no such meaning here; reserved words are "
            f"upper case, and [{text}] is an application property of this name", position,
        )  # fmt: skip
    return SqlToken(IDENTIFIER, text, position)


def _field(text: str, position: int) -> SqlToken:
    """A field with its section."""
    section, _, name = text.partition(".")
    if section in _APPLICATION_SECTIONS:
        return SqlToken(IDENTIFIER, name, position)
    if section in _PROPERTIES_SECTIONS and name in _PROPERTIES:
        return SqlToken(SECTION_FIELD, name.replace("_", "-"), position)
    if section in _HEADER_SECTIONS and name == "priority":
        return SqlToken(SECTION_FIELD, PRIORITY_FIELD, position)
    raise SqlError(f"filters cannot refer to {text}", position)


def _delimited(text: str, position: int) -> SqlToken:
    name = text[1:-1]
    for character in name:
        if character < " " or character == "\x7f":
            raise SqlError(f"an identifier has the control character {character!r}", position)
    return SqlToken(IDENTIFIER, name.replace("[[", "[").replace("]]", "]"), position)
