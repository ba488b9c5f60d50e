"""Clients of MQTT 3.1.1 whose state outlives their connections, as exactly once asks of both ends.

A publisher repeats what is not answered: PUBLISH with DUP up to PUBREC or PUBACK, then PUBREL up to
PUBCOMP. A subscriber hands a message of QoS 2 over when it comes first, and forgets its packet
identifier at PUBREL. Both stay connected to one of several addresses, whatever happens to the nodes
there, and go on with their session at the next one. paho-mqtt, which test_mqtt_exactly_once.py
uses, forgets a part of its state when it cannot connect twice in a row.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.properties import encode_text
from tests.protocol.mqtt_peer import packet, publish

RETRY_SECONDS, PING_SECONDS, ANSWER_SECONDS = 0.2, 1.0, 5.0
"""Between two tries to connect; until a node that does not answer is given up."""
UNDER_WAY = 10
DUP, PACKET_ID_MAX = 0x08, 65_535
LOST = (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError)

Address = tuple[str, int]


class Refused(OSError):
    """The node does not take the client now."""


class MqttClient:
    """One client, which connects to the first address first. is_present: it found its session."""

    def __init__(self, name: str, addresses: Sequence[Address]) -> None:
        self.name = name
        self.connections = 0
        self.is_present = False
        self._addresses = addresses
        self._place = 0
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._silent_times = 0

    def start(self) -> None:
        """Connect, and stay connected."""
        self._task = asyncio.get_running_loop().create_task(self._stay_connected())

    async def stop(self) -> None:
        """Disconnect."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def failure(self) -> BaseException | None:
        """Why it ended by itself."""
        task = self._task
        is_over = task is not None and task.done() and not task.cancelled()
        return task.exception() if is_over else None

    async def _stay_connected(self) -> None:
        while True:
            with contextlib.suppress(*LOST):
                await self._connect(*self._addresses[self._place])
            self._place = (self._place + 1) % len(self._addresses)
            await asyncio.sleep(RETRY_SECONDS)

    async def _connect(self, host: str, port: int) -> None:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, self._writer = await asyncio.open_connection(host, port)
        try:
            texts = map(encode_text, (self.name, "guest", "guest"))
            self._send(packet(0x10, encode_text("MQTT") + b"\4\xc0\0\5" + b"".join(texts)))
            async with asyncio.timeout(ANSWER_SECONDS):
                first, body = await _read_packet(reader)
            self._silent_times = 0
            if first >> 4 != codes.CONNACK or body[1]:
                raise Refused(f"{self.name} got {body!r} for CONNECT")
            self.is_present = bool(body[0])
            self.connections += 1
            self.connected()
            self._check()
            while True:
                first, body = await _read_packet(reader)
                self._silent_times = 0
                self.take(first, body)
        finally:
            self._writer.transport.abort()
            self._writer = None
            if self._timer is not None:
                self._timer.cancel()

    def _check(self) -> None:
        """Ping the node; leave it if it has not answered for a while."""
        if self._writer is None:
            return
        self._silent_times += 1
        if self._silent_times * PING_SECONDS > ANSWER_SECONDS:
            self._writer.transport.abort()
            return
        self._send(packet(codes.PINGREQ << 4))
        self._timer = asyncio.get_running_loop().call_later(PING_SECONDS, self._check)

    def _send(self, data: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)

    def connected(self) -> None:
        """It is connected, for the first time or again."""

    def take(self, first: int, body: bytes) -> None:
        """A packet has come."""


async def _read_packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first = (await reader.readexactly(1))[0]
    size = shift = 0
    while True:
        octet = (await reader.readexactly(1))[0]
        size |= (octet & 127) << shift
        shift += 7
        if octet < 128:
            return first, await reader.readexactly(size)


@dataclass
class Sent:
    """A message that is not answered. is_received: PUBREC has come."""

    payload: str
    is_received: bool = False


class Publisher(MqttClient):
    """Publishes to a topic. make: gives the next payload. confirmed: gets each that is answered."""

    def __init__(
        self, name: str, addresses: Sequence[Address], topic: str, qos: int,
        payloads: Iterator[str], confirmed: Callable[[str], object],
    ) -> None:  # fmt: skip
        super().__init__(name, addresses)
        self.open: dict[int, Sent] = {}
        """By their packet identifiers, in order."""
        self._topic = topic
        self._qos = qos
        self._payloads = payloads
        self._confirmed = confirmed
        self._is_publishing = True
        self._last_id = 0

    def stop_publishing(self) -> None:
        """Publish nothing new."""
        self._is_publishing = False

    def connected(self) -> None:
        """Repeat what is not answered."""
        for packet_id, sent in self.open.items():
            if sent.is_received:
                self._release(packet_id)
            else:
                self._publish(packet_id, sent, DUP)
        self._fill()

    def take(self, first: int, body: bytes) -> None:
        """Go on with the message that an answer is for."""
        kind, packet_id = first >> 4, int.from_bytes(body[:2], "big")
        if kind == codes.PUBREC:
            # In the order of PUBREC, as the standard asks.
            sent = self.open.pop(packet_id, None)
            if sent is not None:
                sent.is_received = True
                self.open[packet_id] = sent
            self._release(packet_id)
        elif kind in (codes.PUBACK, codes.PUBCOMP):
            sent = self.open.pop(packet_id, None)
            if sent is not None:
                self._confirmed(sent.payload)
            self._fill()

    def _fill(self) -> None:
        while self._is_publishing and len(self.open) < UNDER_WAY:
            self._last_id = self._last_id % PACKET_ID_MAX + 1
            sent = self.open[self._last_id] = Sent(next(self._payloads))
            self._publish(self._last_id, sent, 0)

    def _publish(self, packet_id: int, sent: Sent, dup: int) -> None:
        data = publish(self._topic, sent.payload.encode(), self._qos, packet_id)
        self._send(bytes((data[0] | dup,)) + data[1:])

    def _release(self, packet_id: int) -> None:
        self._send(packet(codes.PUBREL << 4 | 2, packet_id.to_bytes(2, "big")))


class Subscriber(MqttClient):
    """Subscribes to a topic once; its session keeps that. received: gets each payload.

    subscribed: set when the broker has the subscription. sessions_lost: how often it was gone
    later.
    """

    def __init__(
        self, name: str, addresses: Sequence[Address], topic: str, qos: int,
        received: Callable[[str], object],
    ) -> None:  # fmt: skip
        super().__init__(name, addresses)
        self.subscribed = asyncio.Event()
        self.sessions_lost = 0
        self._topic = topic
        self._qos = qos
        self._received = received
        self._held: set[int] = set()
        """The packet identifiers of QoS 2 without PUBREL."""

    def connected(self) -> None:
        """Subscribe, unless the session has done so."""
        if self.subscribed.is_set() and not self.is_present:
            self.sessions_lost += 1
        if not self.subscribed.is_set() or not self.is_present:
            self._send(packet(0x82, b"\0\1" + encode_text(self._topic) + bytes((self._qos,))))

    def take(self, first: int, body: bytes) -> None:
        """Take a message, and answer."""
        kind = first >> 4
        if kind == codes.SUBACK:
            assert body[2] == self._qos, f"{self.name} is granted {body[2]}"
            self.subscribed.set()
        elif kind == codes.PUBLISH:
            self._deliver(first >> 1 & 3, body)
        elif kind == codes.PUBREL:
            self._held.discard(int.from_bytes(body[:2], "big"))
            self._send(packet(codes.PUBCOMP << 4, body[:2]))

    def _deliver(self, qos: int, body: bytes) -> None:
        place = 2 + int.from_bytes(body[:2], "big")
        packet_id, payload = body[place : place + 2], body[place + 2 :].decode()
        if qos == 1:
            self._received(payload)
            self._send(packet(codes.PUBACK << 4, packet_id))
            return
        number = int.from_bytes(packet_id, "big")
        if number not in self._held:
            self._held.add(number)
            self._received(payload)
        self._send(packet(codes.PUBREC << 4, packet_id))
