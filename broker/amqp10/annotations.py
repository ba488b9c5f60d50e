"""What the message annotations of a message say in AMQP 0-9-1, from their bytes. Pure."""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from leveret.broker.amqp.annotations import RECEIVED_AT, RECEIVED_AT_IN_1_0
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.amqp10.type_codes import (
    STRING8,
    SYMBOL8,
    TIME,
    UBYTE,
)
from leveret.broker.amqp10.values_to_fields import OTHER, write_field

OFFSET_NAME: Final = b"\x0fx-stream-offset"
TYPE_NAME: Final = b"\x0cx-basic-type"
_EXCHANGE_NAME: Final = b"\x0ax-exchange"
_KEY_NAME: Final = b"\x0dx-routing-key"
_MODE_NAME: Final = b"\x15x-basic-delivery-mode"
_PRIORITY_NAME: Final = b"\x10x-basic-priority"
_EXPIRATION_NAME: Final = b"\x12x-basic-expiration"
_CC_NAME: Final = b"\x04x-cc"
_RECEIVED_NAME: Final = encode_short_string(RECEIVED_AT_IN_1_0)
_RECEIVED_FIELD: Final = encode_short_string(RECEIVED_AT) + b"l"
_INTERNAL: Final = b"x-basic-"


class Annotations:
    """What the message annotations say.

    exchange, routing_key, expiration, kind (the type): short strings; empty for none. fields: of
    headers. mode, priority: -1 for none.
    """

    __slots__ = ("exchange", "expiration", "fields", "kind", "mode", "priority", "routing_key")

    def __init__(self) -> None:
        self.exchange = b""
        self.routing_key = b""
        self.fields = b""
        self.mode: i64 = -1
        self.priority: i64 = -1
        self.expiration = b""
        self.kind = b""


def read_annotations(data: bytes, count: i64, is_4: bool) -> Annotations | None:
    """The annotations that these bytes are; None if they have a value that is not understood."""
    if count & 1:
        return None
    annotations = Annotations()
    writer = BytesWriter()
    at: i64 = 0
    while count:
        count -= 2
        if data[at] != SYMBOL8:
            return None
        name = data[at + 1 : at + 2 + data[at + 1]]
        at += 1 + len(name)
        if not name[1:].startswith(b"x-") or name == _CC_NAME:
            return None
        at = _read_annotation(annotations, writer, name, data, at, is_4)
        if at == OTHER:
            return None
    annotations.fields = writer.getvalue()
    return annotations if at == len(data) else None


def _read_annotation(
    annotations: Annotations, writer: BytesWriter, name: bytes, data: bytes, at: i64, is_4: bool
) -> i64:
    """Read one annotation; returns where it ends. name: a short string."""
    code: i64 = data[at]
    if name == OFFSET_NAME:
        return OTHER
    if name in (_MODE_NAME, _PRIORITY_NAME):
        if code != UBYTE:
            return OTHER
        if name == _MODE_NAME:
            annotations.mode = data[at + 1]
        else:
            annotations.priority = data[at + 1]
        return at + 2
    if name == _RECEIVED_NAME and code == TIME:
        writer.write(_RECEIVED_FIELD)
        writer.write(data[at + 1 : at + 9])
        return at + 9
    is_text = name in _TEXT_NAMES
    if is_text and code != STRING8:
        return OTHER
    if not is_text:
        if name[1:].startswith(_INTERNAL):
            return OTHER
        writer.write(name)
        return write_field(writer, data, at, is_4)
    text = data[at + 1 : at + 2 + data[at + 1]]
    if name == _EXCHANGE_NAME:
        annotations.exchange = text
    elif name == _KEY_NAME:
        annotations.routing_key = text
    elif name == _EXPIRATION_NAME:
        annotations.expiration = text
    else:
        annotations.kind = text
    return at + 1 + len(text)


_TEXT_NAMES: Final = frozenset((_EXCHANGE_NAME, _KEY_NAME, _EXPIRATION_NAME, TYPE_NAME))
