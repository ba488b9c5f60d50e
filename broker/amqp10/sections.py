"""The sections of a message of AMQP 1.0 (OASIS standard, part 3: messaging).

    header                  durable, priority, ttl, first-acquirer, delivery-count
    delivery annotations    for the next hop only
    message annotations     such as x-exchange and x-routing-key
    properties              message-id to reply-to-group-id
    application properties  what 0-9-1 calls headers
    body                    data sections, or sequence sections, or one value
    footer

`read_message` decodes what a broker needs. The body and the footer stay encoded, and are not read,
as in RabbitMQ: a client may send any value as a body.
"""

from collections.abc import Iterable, Sequence
from struct import error
from typing import Final

from leveret.broker.amqp10.values import (
    NULL,
    Amqp10Error,
    Value,
    decode,
    encode,
    encode_binary,
    encode_described,
    encode_list,
    encode_map,
    end_of_value,
)

Pairs = list[tuple[Value, Value]]

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78
_NAMES: Final = {
    HEADER: "amqp:header:list",
    DELIVERY_ANNOTATIONS: "amqp:delivery-annotations:map",
    MESSAGE_ANNOTATIONS: "amqp:message-annotations:map",
    PROPERTIES: "amqp:properties:list",
    APPLICATION_PROPERTIES: "amqp:application-properties:map",
    DATA: "amqp:data:binary",
    SEQUENCE: "amqp:amqp-sequence:list",
    VALUE: "amqp:amqp-value:*",
    FOOTER: "amqp:footer:map",
}
_BODIES: Final = frozenset((DATA, SEQUENCE, VALUE))
_CODES: Final = {name: code for code, name in _NAMES.items()}
"""A descriptor may be a name, too."""
_CUT_OFF: Final = "the bytes end in the middle of a section"
_DESCRIPTOR_CODES: Final = frozenset((0x44, 0x53, 0x80, 0xA3, 0xB3))
"""The types of descriptors: ulong and symbol."""
SECTIONS_MAX: Final = 4096
"""A body may consist of many sections of data, each of which takes a microsecond to be found."""

HEADER_FIELDS: Final = ("durable", "priority", "ttl", "first-acquirer", "delivery-count")
PROPERTY_FIELDS: Final = (
    "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type",
    "content-encoding", "absolute-expiry-time", "creation-time", "group-id", "group-sequence",
    "reply-to-group-id",
)  # fmt: skip


class Amqp10Message:
    """A message. Fields of the header and of the properties that are absent or null are left out.

    has_header: it has a header section, which may be empty. data: the bytes of its data sections,
    joined; None if the body is of another kind. body: the encoded sections of the body, and the
    footer.
    """

    __slots__ = (
        "application_properties", "body", "data", "delivery_annotations", "has_header", "header",
        "message_annotations", "properties",
    )  # fmt: skip

    def __init__(self) -> None:
        self.has_header = False
        self.header: dict[str, Value] = {}
        self.delivery_annotations: Pairs = []
        self.message_annotations: Pairs = []
        self.properties: dict[str, Value] = {}
        self.application_properties: Pairs = []
        self.data: bytes | None = None
        self.body = b""

    def annotation(self, name: str) -> Value:
        """The message annotation with this name; null if there is none."""
        for key, value in self.message_annotations:
            if key.value == name:
                return value
        return NULL


def read_message(data: bytes, is_ordered: bool = True) -> Amqp10Message:
    """The message that these bytes are. Raises Amqp10Error.

    is_ordered: the sections have to be in the order of the standard. A client with qpid-proton 0.40
    sends an empty body before the properties.
    """
    message = Amqp10Message()
    pieces: list[bytes] = []
    body: list[bytes] = []
    at, last = 0, 0
    while at < len(data):
        code, content_at, after = section_at(data, at)
        if is_ordered:
            _require_order(last, code)
        if code < DATA:
            _take(message, code, decode(data, content_at)[0])
        else:
            body.append(data[at:after])
        if code == DATA:
            pieces.append(_expect(decode(data, content_at)[0], "binary").value)
        at, last = after, code
    message.body = b"".join(body)
    if pieces:
        message.data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return message


def section_at(data: bytes, at: int) -> tuple[int, int, int]:
    """The code of the section at a place, where its content begins, and where it ends.

    Raises Amqp10Error.
    """
    try:
        if data[at]:
            raise Amqp10Error(f"the code {data[at]:#04x} is where a section of a message begins")
        if data[at + 1] not in _DESCRIPTOR_CODES:
            raise Amqp10Error(f"a section has a descriptor of the type {data[at + 1]:#04x}")
        descriptor, content_at = decode(data, at + 1)
        end = end_of_value(data, content_at)
    except (IndexError, error):
        raise Amqp10Error(_CUT_OFF) from None
    if end > len(data):
        raise Amqp10Error(_CUT_OFF)
    return _code_of(descriptor), content_at, end


def size_without_body(data: bytes) -> int:
    """The bytes of a message but for its body. Raises Amqp10Error, also for too many sections."""
    size = at = count = 0
    while at < len(data):
        count += 1
        if count > SECTIONS_MAX:
            raise Amqp10Error(f"a message has more than {SECTIONS_MAX} sections")
        code, _, end = section_at(data, at)
        if code not in _BODIES:
            size += end - at
        at = end
    return size


def _code_of(descriptor: Value) -> int:
    named = descriptor.kind == "symbol"
    code: int = _CODES.get(descriptor.value, -1) if named else descriptor.value
    if code not in _NAMES:
        raise Amqp10Error(f"a message has no section {descriptor.value!r}")
    return code


def _require_order(last: int, code: int) -> None:
    """Raise Amqp10Error if a section may not come after another one."""
    repeats = code == last and code in {DATA, SEQUENCE}
    is_second_body = DATA <= last < FOOTER and code < FOOTER and code != last
    if (code <= last and not repeats) or is_second_body:
        raise Amqp10Error(f"the section {_NAMES[code]} cannot come after {_NAMES[last]}")


def _take(message: Amqp10Message, code: int, content: Value) -> None:
    """Take a section before the body."""
    if code == HEADER:
        message.has_header = True
        message.header = _fields(content, HEADER_FIELDS)
    elif code == PROPERTIES:
        message.properties = _fields(content, PROPERTY_FIELDS)
    elif code == MESSAGE_ANNOTATIONS:
        message.message_annotations = _expect(content, "map").value
    elif code == DELIVERY_ANNOTATIONS:
        message.delivery_annotations = _expect(content, "map").value
    else:
        message.application_properties = _expect(content, "map").value


def _fields(content: Value, names: Sequence[str]) -> dict[str, Value]:
    values: list[Value] = _expect(content, "list").value
    if len(values) > len(names):
        raise Amqp10Error(f"a section of at most {len(names)} fields has {len(values)}")
    return {name: value for name, value in zip(names, values, strict=False) if value.kind != "null"}


def _expect(content: Value, kind: str) -> Value:
    if content.kind != kind:
        raise Amqp10Error(f"a section has a {content.kind} instead of a {kind}")
    return content


def encode_message(message: Amqp10Message) -> bytes:
    """A message as bytes, with its body as it is."""
    pieces: list[bytes] = []
    if message.has_header:
        pieces.append(_fields_section(HEADER, HEADER_FIELDS, message.header))
    if message.delivery_annotations:
        pieces.append(_map_section(DELIVERY_ANNOTATIONS, message.delivery_annotations))
    if message.message_annotations:
        pieces.append(_map_section(MESSAGE_ANNOTATIONS, message.message_annotations))
    if message.properties:
        pieces.append(_fields_section(PROPERTIES, PROPERTY_FIELDS, message.properties))
    if message.application_properties:
        pieces.append(_map_section(APPLICATION_PROPERTIES, message.application_properties))
    pieces.append(message.body)
    return b"".join(pieces)


def data_section(data: bytes) -> bytes:
    """A body of one data section."""
    return encode_described(DATA, encode_binary(data))


def _fields_section(code: int, names: Sequence[str], fields: dict[str, Value]) -> bytes:
    """A section that is a list. It ends with the last field that is there."""
    values = [encode(fields.get(name, NULL)) for name in names]
    while values and values[-1] == _ENCODED_NULL:
        values.pop()
    return encode_described(code, encode_list(values))


def _map_section(code: int, pairs: Iterable[tuple[Value, Value]]) -> bytes:
    return encode_described(code, encode_map((encode(key), encode(value)) for key, value in pairs))


_ENCODED_NULL: Final = encode(NULL)
