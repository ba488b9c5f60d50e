"""Values in the notation in which RabbitMQ's error texts print them.

RabbitMQ formats parts of its reply texts with Erlang's ``~p``: binaries as ``<<"abc">>`` or
``<<1,2,3>>``, field types by their long names. Clients' suites match on these texts.
"""

from collections.abc import Mapping

SNIPPET_BYTES = 16
PRINTABLE_CONTROLS = frozenset(b"\n\r\t\v\b\f\x1b")

FIELD_TYPE_NAMES: dict[str, str] = {
    "S": "longstr", "I": "signedint", "D": "decimal", "T": "timestamp", "F": "table",
    "A": "array", "b": "byte", "B": "unsignedbyte", "d": "double", "f": "float", "l": "long",
    "L": "long", "s": "short", "t": "bool", "x": "binary", "V": "void", "i": "unsignedint",
    "u": "unsignedshort",
}  # fmt: skip


def format_binary(data: bytes) -> str:
    """`<<"text">>` if every byte is printable, `<<1,2>>` otherwise."""
    if not data:
        return "<<>>"
    if all(32 <= byte < 127 or byte in PRINTABLE_CONTROLS for byte in data):
        return f'<<"{_escape(data)}">>'
    return f"<<{','.join(str(byte) for byte in data)}>>"


def format_text(text: str) -> str:
    """A string as Erlang prints a binary that holds text."""
    if text.isascii():
        return format_binary(text.encode())
    return f'<<"{text}"/utf8>>'


def format_json(value: object) -> str:
    """A JSON value, its texts being binaries and its objects maps."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return format_text(value)
        case list():
            return f"[{','.join(map(format_json, value))}]"
        case Mapping():
            pairs = ",".join(
                f"{format_json(key)} => {format_json(item)}" for key, item in value.items()
            )
            return f"#{{{pairs}}}"
        case None:
            return "null"
        case _:
            return str(value)


def format_snippet(payload: bytes) -> str:
    """The start of a frame's payload, as the texts of 501 and 505 show it."""
    if len(payload) <= SNIPPET_BYTES:
        return f"all octets = {format_binary(payload)}"
    return f"first 16 octets = {format_binary(payload[:SNIPPET_BYTES])}"


def _escape(data: bytes) -> str:
    escapes = {
        "\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t",
        "\v": "\\v", "\b": "\\b", "\f": "\\f", "\x1b": "\\e",
    }  # fmt: skip
    return "".join(escapes.get(character, character) for character in data.decode("ascii"))
