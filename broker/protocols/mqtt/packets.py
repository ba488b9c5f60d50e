"""The packets of MQTT other than PUBLISH: those of a client are read, the broker's made (pure).

Numbers and lengths are checked; texts and values are taken as RabbitMQ takes them. A body is a
packet without its fixed header: `data[begin:end]`.
"""

from typing import Final, NamedTuple

from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.properties import (
    NONE,
    MalformedPacket,
    Properties,
    encode_properties,
    encode_variable,
    read_binary,
    read_properties,
    read_text,
)

LEVELS: Final = {("MQIsdp", 3): "MQTT 3-1", ("MQTT", 4): "MQTT 3-1-1", ("MQTT", 5): "MQTT 5-0"}
"""RabbitMQ's names of the protocol, by the name and the level in CONNECT."""
PINGRESP: Final = b"\xd0\0"
_CLEAN: Final = 0x02
_WILL: Final = 0x04
_WILL_RETAIN: Final = 0x20
_PASSWORD: Final = 0x40
_USER_NAME: Final = 0x80


class UnknownProtocol(MalformedPacket):
    """CONNECT names a protocol or a level that the broker does not have."""


class Will(NamedTuple):
    """The message that is published when a client is lost."""

    topic: bytes
    payload: bytes
    qos: int
    retain: bool
    properties: Properties


class Connect(NamedTuple):
    """A CONNECT. level: 3, 4 or 5. user, password: None if there is none."""

    level: int
    protocol: str
    client_id: str
    is_clean: bool
    keep_alive_s: int
    properties: Properties
    will: Will | None
    user: str | None
    password: str | None


class Filter(NamedTuple):
    """A filter of a SUBSCRIBE. options: the octet that follows it."""

    topic_filter: bytes
    options: int

    @property
    def qos(self) -> int:
        """The highest QoS that the client wants."""
        return self.options & 3


class Subscribe(NamedTuple):
    """A SUBSCRIBE. identifier: the subscription identifier; 0 for none."""

    packet_id: int
    identifier: int
    filters: list[Filter]


class Unsubscribe(NamedTuple):
    """An UNSUBSCRIBE."""

    packet_id: int
    filters: list[bytes]


class Disconnect(NamedTuple):
    """A DISCONNECT of a client."""

    code: int
    properties: Properties


def read_connect(data: bytes, begin: int, end: int) -> Connect:
    """Read a CONNECT. Raises MalformedPacket, and UnknownProtocol."""
    name, position = read_text(data, begin, end)
    if position + 4 > end:
        raise MalformedPacket("CONNECT ends too early")
    level, flags = data[position], data[position + 1]
    protocol = LEVELS.get((name, level))
    if protocol is None:
        raise UnknownProtocol(f"protocol {name!r} of level {level} is not known")
    keep_alive_s = data[position + 2] << 8 | data[position + 3]
    position += 4
    properties = NONE
    if level == codes.LEVEL_5:
        properties, position = read_properties(data, position, end)
    client_id, position = read_text(data, position, end)
    will: Will | None = None
    if flags & _WILL:
        will, position = _read_will(data, position, end, flags, level)
    user: str | None = None
    password: str | None = None
    if flags & _USER_NAME:
        user, position = read_text(data, position, end)
    if flags & _PASSWORD:
        password, position = read_text(data, position, end)
    return Connect(
        level, protocol, client_id, bool(flags & _CLEAN), keep_alive_s, properties, will, user,
        password,
    )  # fmt: skip


def _read_will(data: bytes, position: int, end: int, flags: int, level: int) -> tuple[Will, int]:
    properties = NONE
    if level == codes.LEVEL_5:
        properties, position = read_properties(data, position, end)
    topic, position = read_binary(data, position, end)
    payload, position = read_binary(data, position, end)
    qos = flags >> 3 & 3
    if qos == 3:
        raise MalformedPacket("a will has QoS 3")
    return Will(topic, payload, qos, bool(flags & _WILL_RETAIN), properties), position


def read_subscribe(data: bytes, begin: int, end: int, level: int) -> Subscribe:
    """Read a SUBSCRIBE. Raises MalformedPacket."""
    packet_id, properties, position = _read_start(data, begin, end, level)
    filters: list[Filter] = []
    while position < end:
        topic_filter, position = read_binary(data, position, end)
        if position >= end:
            raise MalformedPacket("SUBSCRIBE ends too early")
        filters.append(Filter(topic_filter, data[position]))
        position += 1
    if not filters:
        raise MalformedPacket("SUBSCRIBE has no filter", codes.PROTOCOL_ERROR)
    identifiers = properties.get(0x0B) or [0]
    return Subscribe(packet_id, identifiers[0], filters)


def read_unsubscribe(data: bytes, begin: int, end: int, level: int) -> Unsubscribe:
    """Read an UNSUBSCRIBE. Raises MalformedPacket."""
    packet_id, _, position = _read_start(data, begin, end, level)
    filters: list[bytes] = []
    while position < end:
        topic_filter, position = read_binary(data, position, end)
        filters.append(topic_filter)
    if not filters:
        raise MalformedPacket("UNSUBSCRIBE has no filter", codes.PROTOCOL_ERROR)
    return Unsubscribe(packet_id, filters)


def _read_start(data: bytes, begin: int, end: int, level: int) -> tuple[int, Properties, int]:
    """Packet identifier, properties, and the position after them."""
    position = begin + 2
    if position > end:
        raise MalformedPacket("the packet ends too early")
    properties = NONE
    if level == codes.LEVEL_5:
        properties, position = read_properties(data, position, end)
    return data[begin] << 8 | data[begin + 1], properties, position


def read_packet_id(data: bytes, begin: int, end: int) -> int:
    """The packet identifier of an acknowledgement. Raises MalformedPacket."""
    if begin + 2 > end:
        raise MalformedPacket("an acknowledgement ends too early")
    return data[begin] << 8 | data[begin + 1]


def read_acknowledgement(data: bytes, begin: int, end: int, level: int) -> tuple[int, int]:
    """The packet identifier and the reason code of PUBREC, PUBREL or PUBCOMP.

    Raises MalformedPacket. Its properties, a text and user properties, are not used.
    """
    packet_id = read_packet_id(data, begin, end)
    if level != codes.LEVEL_5 or begin + 2 == end:
        return packet_id, codes.SUCCESS
    return packet_id, data[begin + 2]


def read_disconnect(data: bytes, begin: int, end: int, level: int) -> Disconnect:
    """Read a DISCONNECT. Raises MalformedPacket."""
    if level != codes.LEVEL_5 or begin == end:
        return Disconnect(codes.SUCCESS, NONE)
    properties = NONE
    if begin + 1 < end:
        properties, _ = read_properties(data, begin + 1, end)
    return Disconnect(data[begin], properties)


# The broker's packets


def _packet(kind: int, body: bytes) -> bytes:
    return bytes((kind << 4,)) + encode_variable(len(body)) + body


def connack(level: int, session_present: bool, code: int, properties: Properties = NONE) -> bytes:
    """CONNACK. code: a reason code of MQTT 5.0."""
    if level != codes.LEVEL_5:
        return bytes((0x20, 2, session_present, codes.CONNACK_311.get(code, 5)))
    start = bytes((session_present, code))
    return _packet(codes.CONNACK, start + encode_properties(properties))


def suback(level: int, packet_id: int, granted: list[int]) -> bytes:
    """SUBACK. granted: a reason code for each filter."""
    return _packet(codes.SUBACK, _answer_start(level, packet_id) + bytes(granted))


def unsuback(level: int, packet_id: int, results: list[int]) -> bytes:
    """UNSUBACK. results: a reason code for each filter."""
    body = bytes(results) if level == codes.LEVEL_5 else b""
    return _packet(codes.UNSUBACK, _answer_start(level, packet_id) + body)


def _answer_start(level: int, packet_id: int) -> bytes:
    return packet_id.to_bytes(2, "big") + (b"\0" if level == codes.LEVEL_5 else b"")


def acknowledgement(level: int, kind: int, packet_id: int, code: int = codes.SUCCESS) -> bytes:
    """PUBREC, PUBREL or PUBCOMP. kind: its type. code: a reason code, for MQTT 5.0."""
    first = kind << 4 | (2 if kind == codes.PUBREL else 0)
    if level != codes.LEVEL_5 or code == codes.SUCCESS:
        return bytes((first, 2, packet_id >> 8, packet_id & 0xFF))
    return bytes((first, 3, packet_id >> 8, packet_id & 0xFF, code))


def disconnect(code: int, properties: Properties = NONE) -> bytes:
    """DISCONNECT of MQTT 5.0."""
    if not properties:
        return bytes((codes.DISCONNECT << 4, 1, code))
    return _packet(codes.DISCONNECT, bytes((code,)) + encode_properties(properties))
