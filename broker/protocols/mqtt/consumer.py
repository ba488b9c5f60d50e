"""A session's consumer of one of its queues: the path of a message to the socket. Compiled.

A session has a queue for its filters of QoS 0 and one for those of QoS 1, and a consumer for each.
The PUBLISH packets of a run are written one behind the other to a buffer that all consumers use in
turn, and become one piece of the output.
"""

from typing import Final

from librt.strings import BytesWriter, write_i16_be
from mypy_extensions import i64

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.properties import PERSISTENT
from leveret.broker.protocols.mqtt.messages import EXPIRES, RETAIN, flags_and_properties
from leveret.broker.protocols.mqtt.mqtt_session import MqttSession
from leveret.broker.protocols.mqtt.properties import MESSAGE_EXPIRY_INTERVAL, encode_variable
from leveret.broker.protocols.mqtt.subscriptions import PLAIN, Wanted
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.sessions.interceptors import message_to_send
from leveret.broker.sessions.session_consumer import SessionConsumer
from leveret.broker.sessions.unacked_record import Unacked
from leveret.storage.messages.message import Address, Entry

_WRITER: Final = BytesWriter()
"""Emptied at the beginning of each `MqttConsumer.deliver`."""
COPIED_BYTES_MAX: Final = 16 * 1024
"""Up to this size it costs less to copy a body than to write it as a piece of its own."""
FIXED_HEADER_BYTES: Final = 2
"""The bytes of a packet's type and length, about."""
PUBLISH: Final = 0x30
QOS_1: Final = 2
DUP: Final = 8
"""The first byte of a PUBLISH, and its flags."""


class MqttConsumer(SessionConsumer):
    """The consumer of one queue. If it needs no acknowledgements, all messages are QoS 0."""

    __slots__ = (
        "_address", "_flags", "_header", "_is_shared", "_output", "_properties", "_topic",
        "_wanted", "mqtt", "qos",
    )  # fmt: skip

    def __init__(
        self,
        session: MqttSession,
        queue: QueueClient,
        tag: str,
        qos: int,
        shared: Wanted | None = None,
    ) -> None:
        """shared: what the filter asks for, if the queue is that of a shared subscription."""
        super().__init__(session, queue, tag, qos == 0, False, {})
        self.mqtt = session
        self.qos = qos
        self._output = session.output
        self._address: Address | None = None
        self._topic = b""
        self._wanted: Wanted = shared or PLAIN
        self._is_shared = shared is not None
        self._header: ContentHeader | None = None
        self._flags = 0
        self._properties = b""

    def room(self) -> int:
        """The number of messages that it takes now: none while the client does not keep up."""
        if self._output.is_congested:
            return 0
        room = super().room()
        retained = self.mqtt.retained
        if retained is None or self.no_ack:
            return room
        beside: int = retained.room_beside()
        return min(room, beside)

    def forget_wanted(self) -> None:
        """The subscriptions have changed."""
        self._address = None

    def deliver(self, entries: list[Entry]) -> None:
        """Send messages to the client, and record those of QoS 1 as unsettled."""
        session = self.mqtt
        writer = _WRITER
        writer.truncate(0)
        now_ms = session.vhost.turns.now_ms
        is_level_5 = session.is_level_5
        packet_bytes_max: i64 = session.packet_bytes_max
        first_id = 0
        total: i64 = 0
        settled: list[Entry] = []
        intercepts = session.intercepts_outgoing
        for entry in entries:
            message = entry.message
            if intercepts:
                changed = message_to_send(session, self.queue.name, message)
                if changed is None:
                    if not self.no_ack:
                        unsent = Unacked(entry, self.queue, self, now_ms)
                        session.unacked.records[session.next_packet_id()] = unsent
                    continue
                message = changed
            if message.address is not self._address:
                self._use(message.address)
            header = message.header
            # Compiled code reads attributes of a known class in a tenth of the time.
            assert isinstance(header, ContentHeader)
            properties = self._properties_of(header, entry) if is_level_5 else b""
            body = message.body
            size: i64 = len(self._topic) + len(properties) + len(body)
            is_qos_1 = self._is_qos_1(header)
            if packet_bytes_max and _packet_bytes(size + 2 * is_qos_1) > packet_bytes_max:
                settled.append(entry)
                continue
            packet_id = 0
            if is_qos_1:
                packet_id = session.next_packet_id()
                first_id = first_id or packet_id
                session.unacked.records[packet_id] = Unacked(entry, self.queue, self, now_ms)
            else:
                settled.append(entry)
            retain = self._flags & RETAIN if self._wanted.keeps_retain else 0
            _write_start(writer, size, self._topic, packet_id, entry.redelivered, retain)
            writer.write(properties)
            self._write_body(writer, body)
            total += size + FIXED_HEADER_BYTES
        self._take_over(writer)
        if total:
            self._output.gathered(total)
        self.note_delivered(entries, first_id)
        if settled and not self.no_ack:
            self.credit += len(settled)
            self.queue.ack(settled)

    def _is_qos_1(self, header: ContentHeader) -> bool:
        if self.no_ack:
            return False
        return header.kind & 0xFF == PERSISTENT

    def _write_body(self, writer: BytesWriter, body: bytes) -> None:
        """Write the payload of a packet; a large one is a piece of its own."""
        if len(body) <= COPIED_BYTES_MAX:
            writer.write(body)
        else:
            self._take_over(writer)
            self._output.pieces.append(body)

    def _take_over(self, writer: BytesWriter) -> None:
        """Append the written packets to the connection's output."""
        if len(writer):
            self._output.pieces.append(writer.getvalue())
            writer.truncate(0)

    def _use(self, address: Address) -> None:
        """The next messages are of this address."""
        self._address = address
        self._topic = self.mqtt.topics.encoded(address.routing_key)
        if self.mqtt.is_level_5 and not self._is_shared:
            self._wanted = self.mqtt.subscriptions.wanted(address.routing_key, self.qos)

    def _properties_of(self, header: ContentHeader, entry: Entry) -> bytes:
        """The properties of a message for this client, with their length before them."""
        if header is not self._header:
            self._header = header
            self._flags, self._properties = flags_and_properties(header, self.mqtt.topics)
        properties = self._properties + self._wanted.identifiers
        if self._flags & EXPIRES and entry.expires_at_ms:
            left_ms = max(0, entry.expires_at_ms - self.mqtt.services.clock.now_ms())
            interval_s = min((left_ms + 999) // 1000, 0xFFFFFFFF)
            start = bytes((MESSAGE_EXPIRY_INTERVAL,))
            properties = start + interval_s.to_bytes(4, "big") + properties
        if not properties:
            return b"\0"
        return encode_variable(len(properties)) + properties


def _packet_bytes(size: i64) -> i64:
    """The bytes of a packet. size: without its fixed header."""
    return size + 1 + len(encode_variable(size))


def _write_start(
    writer: BytesWriter, size: i64, topic: bytes, packet_id: int, is_repeated: bool, retain: int
) -> None:
    """Write a PUBLISH up to its properties. size: of its other parts. packet_id: 0 for QoS 0."""
    first: i64 = PUBLISH | retain
    if packet_id:
        first |= QOS_1 | DUP if is_repeated else QOS_1
        size += 2
    writer.append(first)
    while size > 127:
        writer.append(size & 127 | 128)
        size >>= 7
    writer.append(size)
    writer.write(topic)
    if packet_id:
        write_i16_be(writer, packet_id if packet_id < 32768 else packet_id - 65536)
