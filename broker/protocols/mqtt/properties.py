"""The properties of MQTT 5.0 packets: bytes, and dictionaries by their identifiers (pure).

A property that is given twice has its last value, as in RabbitMQ. User properties and subscription
identifiers are lists.
"""

from typing import Any, Final

from leveret.broker.amqp.field_table import text_of

PAYLOAD_FORMAT_INDICATOR: Final = 0x01
MESSAGE_EXPIRY_INTERVAL: Final = 0x02
CONTENT_TYPE: Final = 0x03
RESPONSE_TOPIC: Final = 0x08
CORRELATION_DATA: Final = 0x09
SUBSCRIPTION_IDENTIFIER: Final = 0x0B
SESSION_EXPIRY_INTERVAL: Final = 0x11
ASSIGNED_CLIENT_IDENTIFIER: Final = 0x12
SERVER_KEEP_ALIVE: Final = 0x13
AUTHENTICATION_METHOD: Final = 0x15
AUTHENTICATION_DATA: Final = 0x16
REQUEST_PROBLEM_INFORMATION: Final = 0x17
WILL_DELAY_INTERVAL: Final = 0x18
REQUEST_RESPONSE_INFORMATION: Final = 0x19
RESPONSE_INFORMATION: Final = 0x1A
SERVER_REFERENCE: Final = 0x1C
REASON_STRING: Final = 0x1F
RECEIVE_MAXIMUM: Final = 0x21
TOPIC_ALIAS_MAXIMUM: Final = 0x22
TOPIC_ALIAS: Final = 0x23
MAXIMUM_QOS: Final = 0x24
RETAIN_AVAILABLE: Final = 0x25
USER_PROPERTY: Final = 0x26
MAXIMUM_PACKET_SIZE: Final = 0x27
WILDCARD_SUBSCRIPTION_AVAILABLE: Final = 0x28
SUBSCRIPTION_IDENTIFIER_AVAILABLE: Final = 0x29
SHARED_SUBSCRIPTION_AVAILABLE: Final = 0x2A

_BYTE: Final = 1
_TWO_BYTES: Final = 2
_FOUR_BYTES: Final = 4
_VARIABLE: Final = 5
_TEXT: Final = 6
_BINARY: Final = 7
_PAIR: Final = 8
_KINDS: Final = {
    PAYLOAD_FORMAT_INDICATOR: _BYTE, MESSAGE_EXPIRY_INTERVAL: _FOUR_BYTES, CONTENT_TYPE: _TEXT,
    RESPONSE_TOPIC: _TEXT, CORRELATION_DATA: _BINARY, SUBSCRIPTION_IDENTIFIER: _VARIABLE,
    SESSION_EXPIRY_INTERVAL: _FOUR_BYTES, ASSIGNED_CLIENT_IDENTIFIER: _TEXT,
    SERVER_KEEP_ALIVE: _TWO_BYTES, AUTHENTICATION_METHOD: _TEXT, AUTHENTICATION_DATA: _BINARY,
    REQUEST_PROBLEM_INFORMATION: _BYTE, WILL_DELAY_INTERVAL: _FOUR_BYTES,
    REQUEST_RESPONSE_INFORMATION: _BYTE, RESPONSE_INFORMATION: _TEXT, SERVER_REFERENCE: _TEXT,
    REASON_STRING: _TEXT, RECEIVE_MAXIMUM: _TWO_BYTES, TOPIC_ALIAS_MAXIMUM: _TWO_BYTES,
    TOPIC_ALIAS: _TWO_BYTES, MAXIMUM_QOS: _BYTE, RETAIN_AVAILABLE: _BYTE, USER_PROPERTY: _PAIR,
    MAXIMUM_PACKET_SIZE: _FOUR_BYTES, WILDCARD_SUBSCRIPTION_AVAILABLE: _BYTE,
    SUBSCRIPTION_IDENTIFIER_AVAILABLE: _BYTE, SHARED_SUBSCRIPTION_AVAILABLE: _BYTE,
}  # fmt: skip
_REPEATED: Final = (USER_PROPERTY, SUBSCRIPTION_IDENTIFIER)

Properties = dict[int, Any]
"""By identifier: numbers, texts, bytes; lists of pairs of texts, and of numbers."""
NONE: Final[Properties] = {}


class MalformedPacket(Exception):
    """The bytes are not a packet. code: the reason code for it."""

    def __init__(self, problem: str, code: int = 0x81) -> None:
        super().__init__(problem)
        self.code = code


def read_variable(data: bytes, position: int) -> tuple[int, int]:
    """A variable byte integer, and the position after it. Raises MalformedPacket."""
    number = shift = 0
    while shift < 28:
        if position >= len(data):
            raise MalformedPacket("the packet ends too early")
        octet = data[position]
        position += 1
        number |= (octet & 127) << shift
        if octet < 128:
            return number, position
        shift += 7
    raise MalformedPacket("a variable byte integer has more than four bytes")


def encode_variable(number: int) -> bytes:
    """A variable byte integer."""
    if number < 128:
        return bytes((number,))
    encoded = bytearray()
    while True:
        number, low = number >> 7, number & 127
        if not number:
            encoded.append(low)
            return bytes(encoded)
        encoded.append(low | 128)


def read_binary(data: bytes, position: int, end: int) -> tuple[bytes, int]:
    """Bytes with their length before them, and the position after them. Raises MalformedPacket."""
    start = position + 2
    if start > end:
        raise MalformedPacket("the packet ends too early")
    position = start + (data[position] << 8 | data[position + 1])
    if position > end:
        raise MalformedPacket("the packet ends too early")
    return data[start:position], position


def read_text(data: bytes, position: int, end: int) -> tuple[str, int]:
    """A text, and the position after it. Raises MalformedPacket.

    Bytes that are not UTF-8 are kept, as in RabbitMQ.
    """
    binary, position = read_binary(data, position, end)
    return text_of(binary), position


def encode_binary(value: bytes) -> bytes:
    """Bytes with their length before them. There may be 65,535."""
    return len(value).to_bytes(2, "big") + value


def encode_text(value: str) -> bytes:
    """A text of up to 65,535 bytes, with its length before it."""
    return encode_binary(value.encode("utf-8", "surrogateescape"))


def read_properties(data: bytes, position: int, end: int) -> tuple[Properties, int]:
    """Properties with their length before them, and the position after them.

    end: where the packet ends. Raises MalformedPacket.
    """
    size, position = read_variable(data, position)
    properties_end = position + size
    if properties_end > end:
        raise MalformedPacket("the packet ends too early")
    if not size:
        return NONE, position
    return decode_properties(data, position, properties_end), properties_end


def decode_properties(data: bytes, position: int, end: int) -> Properties:
    """The properties in `data[position:end]`. Raises MalformedPacket."""
    properties: Properties = {}
    while position < end:
        identifier = data[position]
        kind = _KINDS.get(identifier)
        if kind is None:
            raise MalformedPacket(f"there is no property {identifier}")
        value, position = _read_value(kind, data, position + 1, end)
        if identifier in _REPEATED:
            properties.setdefault(identifier, []).append(value)
        else:
            properties[identifier] = value
    if position != end:
        raise MalformedPacket("the properties end too late")
    return properties


def _read_value(kind: int, data: bytes, position: int, end: int) -> tuple[Any, int]:
    if kind <= _FOUR_BYTES:
        if position + kind > end:
            raise MalformedPacket("the properties end too early")
        return int.from_bytes(data[position : position + kind], "big"), position + kind
    if kind == _VARIABLE:
        return read_variable(data, position)
    if kind == _TEXT:
        return read_text(data, position, end)
    if kind == _BINARY:
        return read_binary(data, position, end)
    name, position = read_text(data, position, end)
    value, position = read_text(data, position, end)
    return (name, value), position


def encode_properties(properties: Properties) -> bytes:
    """Properties with their length before them."""
    body = encode_each(properties)
    return encode_variable(len(body)) + body


def encode_each(properties: Properties) -> bytes:
    """Properties without their length."""
    parts: list[bytes] = []
    for identifier, value in properties.items():
        if identifier in _REPEATED:
            parts += (_encode_one(identifier, one) for one in value)
        else:
            parts.append(_encode_one(identifier, value))
    return b"".join(parts)


def _encode_one(identifier: int, value: Any) -> bytes:
    kind = _KINDS[identifier]
    start = bytes((identifier,))
    if kind <= _FOUR_BYTES:
        return start + int(value).to_bytes(kind, "big")
    if kind == _VARIABLE:
        return start + encode_variable(value)
    if kind == _TEXT:
        return start + encode_text(value)
    if kind == _BINARY:
        return start + encode_binary(value)
    return start + encode_text(value[0]) + encode_text(value[1])
