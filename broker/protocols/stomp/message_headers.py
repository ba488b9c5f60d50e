"""Headers of SEND as properties of AMQP 0-9-1, and properties as headers of MESSAGE. Pure.

Headers that STOMP defines become properties, and all others become string headers of the message.
In MESSAGE, headers that are numbers and strings are shown; tables, arrays and booleans have no text
in STOMP. Compiled.
"""

from typing import Final

from leveret.broker.amqp.content_header import ContentHeader, read_header
from leveret.broker.amqp.field_table import INTEGER_LETTERS, Table
from leveret.broker.amqp.properties import PERSISTENT, Properties, encode_properties
from leveret.broker.protocols.stomp.destinations import format_reply_to
from leveret.broker.protocols.stomp.errors import processing_error

_TEXTS: Final = {
    "content-type": "content_type", "content-encoding": "content_encoding",
    "correlation-id": "correlation_id", "reply-to": "reply_to", "expiration": "expiration",
    "amqp-message-id": "message_id", "type": "type", "user-id": "user_id", "app-id": "app_id",
}  # fmt: skip
"""Headers whose values are texts, and their properties."""
_NUMBERS: Final = {"priority": ("priority", 0xFF), "timestamp": ("timestamp", 2**64 - 1)}
"""Headers whose values are numbers, with the largest of them."""
_NAMES: Final = {key: name for name, key in _TEXTS.items()} | {
    key: name for name, (key, _) in _NUMBERS.items()
}
"""The headers of MESSAGE for properties."""
_OF_FRAME: Final = ("destination", "content-length", "persistent")
_NOT_OF_USERS: Final = frozenset((*_TEXTS, *_NUMBERS, *_OF_FRAME))
_RESERVED: Final = frozenset(
    ("destination", "message-id", "subscription", "redelivered", "ack", "content-length")
)
"""Headers of MESSAGE that no header of the message may replace."""
_SHORT_STRING_MAX: Final = 255
_DIGITS_MAX: Final = 20


def content_header_of(headers: dict[str, str]) -> ContentHeader:
    """The properties of a message that is sent with these headers.

    Raises StompError, and PropertiesError.
    """
    properties: Properties = {}
    table: Table = {}
    for name, value in headers.items():
        if name not in _NOT_OF_USERS:
            table[_short(name)] = ("S", value)
        elif name in _TEXTS:
            properties[_TEXTS[name]] = _short(value)
        elif name in _NUMBERS:
            key, largest = _NUMBERS[name]
            properties[key] = number_of(value, largest)
    if headers.get("persistent") == "true":
        properties["delivery_mode"] = PERSISTENT
    if table:
        properties["headers"] = table
    return read_header(encode_properties(properties))


def _short(text: str) -> str:
    if len(text.encode("utf-8", "surrogateescape")) > _SHORT_STRING_MAX:
        raise processing_error()
    return text


def number_of(text: str, largest: int) -> int:
    """The value of a header that is a number. Raises StompError."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS_MAX:
        raise processing_error()
    number = int(digits)
    if number > largest:
        raise processing_error()
    return number


def truth_of(text: str) -> bool:
    """The value of a header that is true or false. Raises StompError."""
    match text:
        case "true" | "True":
            return True
        case "false" | "False":
            return False
    raise processing_error()


def message_headers(properties: Properties) -> dict[str, str]:
    """The headers of MESSAGE that stand for the properties of a message."""
    found: dict[str, str] = {}
    for key, value in properties.items():
        name = _NAMES.get(key)
        if name is not None:
            found[name] = str(value)
    if "reply-to" in found:
        found["reply-to"] = format_reply_to(found["reply-to"])
    if properties.get("delivery_mode") == PERSISTENT:
        found["persistent"] = "true"
    table: Table | None = properties.get("headers")
    if table is not None:
        _add_table(found, table)
    return found


def _add_table(found: dict[str, str], table: Table) -> None:
    """Add the headers of a message that have a text in STOMP."""
    for name, (letter, value) in table.items():
        if name in found or name in _RESERVED:
            continue
        if letter == "S":
            found[name] = value
        elif letter in INTEGER_LETTERS or letter == "T":
            found[name] = str(value)
