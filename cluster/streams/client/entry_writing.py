"""Converts messages of AMQP 0-9-1 to entries of a stream: a size, then sections of AMQP 1.0.

All but the body depends on the properties and on the address only. Publishers send many messages
with the same ones, so the sections before the body are kept, and a message costs the copy of its
body.
"""

from struct import Struct
from typing import Final

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp10.conversion import (
    ENCODED_BODY_TYPE,
    Amqp091Message,
    ConversionRules,
    to_amqp10,
)
from leveret.broker.amqp10.sections import DATA, encode_message
from leveret.broker.queues.contract.stream_arguments import FILTER_VALUE_HEADER
from leveret.storage.messages.message import Message

KEPT_MAX: Final = 1024
"""How many different sections are kept. Above it, all of them are dropped."""
_SIZE = Struct(">I")
_SMALL_BODY = bytes((0x00, 0x53, DATA, 0xA0))
_LARGE_BODY = bytes((0x00, 0x53, DATA, 0xB0))
_SMALL: Final = 256


class _Sections:
    """What messages with the same properties and the same address have in common.

    data: the sections before the body. filter_value: empty if they have none. has_sections: the
    bodies of these messages are sections themselves.
    """

    __slots__ = ("data", "filter_value", "has_sections")

    def __init__(self, data: bytes, filter_value: bytes, has_sections: bool) -> None:
        self.data = data
        self.filter_value = filter_value
        self.has_sections = has_sections


class EntryWriter:
    """Makes entries. rules: RabbitMQ's of a version."""

    __slots__ = ("_kept", "_last", "_last_address", "_last_header", "_rules")

    def __init__(self, rules: ConversionRules) -> None:
        self._rules = rules
        self._kept: dict[tuple[bytes, bytes], _Sections] = {}
        self._last_header: object = None
        self._last_address: object = None
        self._last = _Sections(b"", b"", False)

    def write(
        self, messages: list[Message], pieces: list[bytes], filter_values: list[bytes]
    ) -> int:
        """Add the bytes of the entries of messages to `pieces`; returns how many there are.

        filter_values: gets one for each message, if any of them has one.
        """
        octets = 0
        last = self._last
        for place, message in enumerate(messages):
            header, body = message.header, message.body
            if header is not self._last_header or message.address is not self._last_address:
                last = self._sections_of(message)
            size = len(body)
            if last.has_sections:
                begin = last.data
            elif size < _SMALL:
                begin = last.data + _SMALL_BODY + bytes((size,))
            else:
                begin = last.data + _LARGE_BODY + _SIZE.pack(size)
            size += len(begin)
            pieces.append(_SIZE.pack(size) + begin)
            pieces.append(body)
            octets += _SIZE.size + size
            if last.filter_value:
                filter_values += [b""] * (place - len(filter_values))
                filter_values.append(last.filter_value)
        if filter_values:
            filter_values += [b""] * (len(messages) - len(filter_values))
        return octets

    def _sections_of(self, message: Message) -> _Sections:
        address, header = message.address, message.header
        key = (header.raw, address.encoded)
        sections = self._kept.get(key)
        if sections is None:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            sections = self._kept[key] = self._convert(message)
        self._last_header, self._last_address, self._last = header, address, sections
        return sections

    def _convert(self, message: Message) -> _Sections:
        address, header = message.address, message.header
        assert isinstance(header, ContentHeader), "messages are published with content headers"
        properties = header.properties
        converted = to_amqp10(
            Amqp091Message(address.exchange, address.routing_key, properties, b""), self._rules
        )
        converted.body = b""
        filter_value = b""
        letter, value = header.headers.get(FILTER_VALUE_HEADER, ("V", None))
        if letter == "S":
            filter_value = value.encode("utf-8", "surrogateescape")
        has_sections = properties.get("type") == ENCODED_BODY_TYPE
        return _Sections(encode_message(converted), filter_value, has_sections)
