"""An MQTT client without a socket. Each `send` is one read of the broker."""

import asyncio
from itertools import count
from typing import NamedTuple

from leveret.broker.config import MqttSettings
from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.mqtt_protocol import mqtt_protocol
from leveret.broker.protocols.mqtt.properties import (
    NONE,
    encode_binary,
    encode_properties,
    encode_text,
    encode_variable,
    read_properties,
    read_variable,
)
from tests.patience import PATIENCE_SECONDS
from tests.protocol.socketless import MemoryNode, Socket


class Packet(NamedTuple):
    """A packet that the broker sent. first: its first byte. body: after its length."""

    first: int
    body: bytes

    @property
    def kind(self):
        return self.first >> 4


class Delivery(NamedTuple):
    """A PUBLISH that the broker sent."""

    topic: str
    payload: bytes
    qos: int = 0
    packet_id: int = 0
    retain: bool = False
    is_repeated: bool = False
    properties: dict = NONE


def packet(first, body=b""):
    return bytes((first,)) + encode_variable(len(body)) + body


def publish(topic, payload=b"", qos=0, packet_id=1, retain=False, properties=None, level=4):
    """A PUBLISH. properties: for level 5."""
    body = encode_text(topic)
    if qos:
        body += packet_id.to_bytes(2, "big")
    if level == codes.LEVEL_5:
        body += encode_properties(properties or {})
    return packet(0x30 | qos << 1 | retain, body + payload)


class MqttPeer:
    """One client."""

    def __init__(self, node, tls=None):
        self.node = node
        self.socket = Socket(next(node.ports), tls)
        self.connection = node.protocol.make_connection()
        self.connection.connection_made(self.socket)
        self.level = 4
        self._kept = []

    def send(self, data):
        self.connection.data_received(data)

    async def packets(self):
        """All packets since the last call."""
        data = await self.socket.take_written()
        found, self._kept = self._kept, []
        position = 0
        while position < len(data):
            size, start = read_variable(data, position + 1)
            found.append(Packet(data[position], data[start : start + size]))
            position = start + size
        return found

    async def answer(self, kind):
        """The next packet of this kind; the others are kept for `packets`."""
        found = await self.packets()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while kind not in [one.kind for one in found]:
                found += await self.packets()
        place = next(place for place, one in enumerate(found) if one.kind == kind)
        one = found.pop(place)
        self._kept = found
        return one

    async def connect(
        self, client_id="client", level=4, clean=True, keep_alive=0, user="guest",
        password="guest", properties=None, will=None,
    ):  # fmt: skip
        """The code of CONNACK, and whether there is a session. will: topic, payload, flags."""
        self.level = level
        name = "MQIsdp" if level == codes.LEVEL_31 else "MQTT"
        flags = 2 * clean | 0x80 * (user is not None) | 0x40 * (password is not None)
        body = encode_text(name)
        end = b""
        if will is not None:
            topic, payload, will_flags, *will_properties = will
            flags |= 4 | will_flags
            if level == codes.LEVEL_5:
                end += encode_properties(*will_properties or [{}])
            end += encode_text(topic) + encode_binary(payload)
        end += b"".join(encode_text(one) for one in (user, password) if one is not None)
        body += bytes((level, flags)) + keep_alive.to_bytes(2, "big")
        if level == codes.LEVEL_5:
            body += encode_properties(properties or {})
        self.send(packet(0x10, body + encode_text(client_id) + end))
        answer = await self.answer(codes.CONNACK)
        return answer.body[1], bool(answer.body[0])

    async def connected(self, *arguments, **options):
        """Itself, connected."""
        code, _ = await self.connect(*arguments, **options)
        assert code == codes.SUCCESS
        return self

    async def subscribe(self, *filters, qos=0, properties=None):
        """The codes of SUBACK. filters: texts, or pairs with options."""
        body = b"\0\1" + (
            encode_properties(properties or {}) if self.level == codes.LEVEL_5 else b""
        )
        for one in filters:
            topic_filter, options = one if isinstance(one, tuple) else (one, qos)
            body += encode_text(topic_filter) + bytes((options,))
        self.send(packet(0x82, body))
        answer = await self.answer(codes.SUBACK)
        return list(answer.body[3 if self.level == codes.LEVEL_5 else 2 :])

    async def unsubscribe(self, *filters):
        body = b"\0\1" + (b"\0" if self.level == codes.LEVEL_5 else b"")
        self.send(packet(0xA2, body + b"".join(map(encode_text, filters))))
        answer = await self.answer(codes.UNSUBACK)
        return list(answer.body[3:])

    def publish(self, topic, payload=b"", **options):
        self.send(publish(topic, payload, level=self.level, **options))

    def ack(self, packet_id):
        self.send(packet(0x40, packet_id.to_bytes(2, "big")))

    async def acked(self):
        """The packet identifiers of the PUBACKs since the last call; for 5.0 with the code."""
        found = [one.body for one in await self.packets() if one.kind == codes.PUBACK]
        numbers = [int.from_bytes(body[:2], "big") for body in found]
        if self.level < codes.LEVEL_5:
            return numbers
        return [(number, body[2]) for number, body in zip(numbers, found, strict=True)]

    async def delivered(self):
        """The deliveries since the last call."""
        return [self._delivery(one) for one in await self.packets() if one.kind == codes.PUBLISH]

    def _delivery(self, one):
        qos = one.first >> 1 & 3
        size = int.from_bytes(one.body[:2], "big")
        topic, position = one.body[2 : 2 + size].decode(), 2 + size
        packet_id = 0
        if qos:
            packet_id = int.from_bytes(one.body[position : position + 2], "big")
            position += 2
        properties = NONE
        if self.level == codes.LEVEL_5:
            properties, position = read_properties(one.body, position, len(one.body))
        return Delivery(
            topic, one.body[position:], qos, packet_id, bool(one.first & 1),
            bool(one.first & 8), properties,
        )  # fmt: skip

    async def closed_with(self):
        """The reason code of DISCONNECT; None if the socket is closed without one."""
        found = [one.body for one in await self.packets() if one.kind == codes.DISCONNECT]
        assert self.socket.is_closed
        self.lose()
        return found[0][0] if found else None

    def lose(self):
        """The socket is closed."""
        self.connection.connection_lost(None)


class MqttNode(MemoryNode):
    """A broker in memory that clients of MQTT connect to."""

    def __init__(self, clock=None, *, is_lone=False, config=NONE, **settings):
        """config: other settings than those of MQTT, as in `Config`."""
        mqtt = MqttSettings(**settings)
        super().__init__(clock, is_lone=is_lone, mqtt=mqtt, compat="4.0", **config)

    async def __aenter__(self):
        await super().__aenter__()
        self.ports = count(20_000)
        self.protocol = mqtt_protocol(self.broker.services, self.broker.connections)
        return self

    def connect(self, tls=None):
        """A client. tls: its TLS session."""
        return MqttPeer(self, tls)

    def declare(self, *declarations):
        for declaration in declarations:
            self.broker.services.declarations.submit(declaration).result()
