"""Handles the packets of a connection in order, in turns. Compiled.

All packets of a read are handled in one turn (broker/runtime/turns.py), as long as there is work
left. A packet that waits for an answer, such as a SUBSCRIBE, holds up the packets after it.
Meanwhile, and while an alarm blocks publishers, the socket is not read.
"""

import logging
from typing import Final, Protocol

from mypy_extensions import i64

from leveret.broker.amqp.errors import Fault
from leveret.broker.net.held_input import HeldInput, InputConnection
from leveret.broker.protocols.ending import HANDSHAKE, RUNNING
from leveret.broker.protocols.mqtt import codes, packets
from leveret.broker.protocols.mqtt.mqtt_session import MqttSession
from leveret.broker.protocols.mqtt.packet_input import PacketInput
from leveret.broker.protocols.mqtt.packets import UnknownProtocol
from leveret.broker.protocols.mqtt.properties import MalformedPacket
from leveret.broker.protocols.mqtt.publisher import MqttPublisher
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.pending import Steps
from leveret.storage.messages.message import Entry
from leveret.storage.metadata.metadata import MetadataError

PACKET_WORK: Final = 250
ACK_WORK: Final = 4
"""The work of a packet other than PUBLISH, in the units of broker/runtime/turns.py."""
PUBREC: Final = codes.PUBREC << 4
PUBREL: Final = codes.PUBREL << 4 | 2
PUBCOMP: Final = codes.PUBCOMP << 4
EXACTLY_ONCE_PACKETS: Final = frozenset((PUBREC, PUBREL, PUBCOMP))

logger = logging.getLogger("leveret.connection")


class IncomingConnection(InputConnection, Protocol):
    """The connection whose packets are handled."""

    name: str

    @property
    def state(self) -> str:
        """One of those in protocols/ending.py."""

    @property
    def session(self) -> MqttSession:
        """The session of the client, which is created on first use."""

    def connect(self, packet: packets.Connect) -> Steps:
        """CONNECT has come."""

    def subscribe(self, packet: packets.Subscribe) -> Steps:
        """SUBSCRIBE has come."""

    def unsubscribe(self, packet: packets.Unsubscribe) -> Steps:
        """UNSUBSCRIBE has come."""

    def client_disconnects(self, packet: packets.Disconnect) -> None:
        """DISCONNECT has come."""

    def send(self, packet: bytes) -> None:
        """Send a packet."""

    def fail(self, code: int, reason: str) -> None:
        """Close the connection with a reason code."""

    def fault(self, fault: Fault) -> None:
        """Close the connection because of a fault."""

    def drop(self) -> None:
        """Close the socket after all output is sent."""


class MqttInput(HeldInput):
    """The input of one connection. last_read_ms: the time of the last read.

    packets: those that are not handled yet. publisher: created by the first PUBLISH.
    """

    __slots__ = (
        "_acked", "_acked_queue", "_connection", "_has_packet", "_level",
        "last_read_ms", "packets", "publisher",
    )  # fmt: skip

    def __init__(self, connection: IncomingConnection, packet_bytes_max: int) -> None:
        super().__init__(connection)
        self._connection = connection
        self._level = 0
        self._has_packet = False
        self._acked: list[Entry] | None = None
        self._acked_queue: QueueClient | None = None
        self.last_read_ms = 0
        self.packets = PacketInput(packet_bytes_max)
        self.publisher: MqttPublisher | None = None

    def logged_in(self, level: int, packet_bytes_max: int) -> None:
        """The client is known. level: the protocol's, 3 to 5."""
        self._level = level
        self.packets.packet_bytes_max = packet_bytes_max

    def release(self) -> None:
        """Forget everything: the connection ends."""
        self.end_operations()
        publisher, self.publisher = self.publisher, None
        if publisher is not None:
            publisher.close()
        self._acked = self._acked_queue = None
        self._has_packet = False
        self.packets.clear()

    # Packets

    def take(self, data: bytes) -> None:
        """Handle the bytes of one read."""
        self.last_read_ms = self._turns.now_ms
        taken = self.packets
        if not self._level and not taken.waiting_bytes and data[0] != codes.CONNECT << 4:
            logger.error("closing connection %s: it is not MQTT", self._connection.name)
            self._connection.drop()
            return
        taken.add(data)
        self.handle_read(len(data))

    def handle(self) -> None:
        """Handle the packets that have come. If some have to wait, the socket is not read."""
        try:
            is_all = self._handle_packets()
            self._settle_acked()
        except UnknownProtocol as unknown:
            logger.error("closing connection %s: %s", self._connection.name, unknown)
            self._connection.drop()
            return
        except MalformedPacket as malformed:
            self._malformed(malformed)
            return
        except Exception as error:
            self.operation_failed(error)
            return
        if is_all:
            self.resume()
        else:
            self.pause()

    def _handle_packets(self) -> bool:
        """Handle packets; returns whether none is left that is complete."""
        taken = self.packets
        turns = self._turns
        publisher = self.publisher
        if publisher is not None and publisher.has_run and not self._may_publish(publisher):
            return False
        while self._operation is None and turns.work_left > 0 and not self._reading.is_blocked:
            if not self._has_packet:
                if not taken.take():
                    publisher = self.publisher
                    return publisher is None or publisher.flush()
                self._has_packet = True
            first: i64 = taken.first
            if first >> 4 == codes.PUBLISH and self._level:
                publisher = self.publisher
                if publisher is None:
                    publisher = self.publisher = self._make_publisher()
                if not publisher.add(taken.data, taken.begin, taken.end, first):
                    continue
                self._has_packet = False
            elif first == codes.PUBACK << 4 and self._level:
                self._has_packet = False
                self._ack(packets.read_packet_id(taken.data, int(taken.begin), int(taken.end)))
            else:
                publisher = self.publisher
                if publisher is not None and not publisher.flush():
                    continue
                self._has_packet = False
                self._handle_other(int(first))
        publisher = self.publisher
        if publisher is not None and publisher.has_run and self._operation is None:
            publisher.flush()
        return False

    def _may_publish(self, publisher: MqttPublisher) -> bool:
        """Publish the waiting run, unless it still has to wait."""
        if self._operation is not None or self._reading.is_blocked:
            return False
        return publisher.flush()

    def _make_publisher(self) -> MqttPublisher:
        return MqttPublisher(self._connection.session, self._reading, self)

    def _handle_other(self, first: int) -> None:
        """Handle a packet other than PUBLISH and PUBACK. Raises MalformedPacket."""
        connection, taken = self._connection, self.packets
        state = connection.state
        data, begin, end = taken.data, int(taken.begin), int(taken.end)
        self._turns.work_left -= PACKET_WORK + end - begin
        if state is HANDSHAKE:
            if first != codes.CONNECT << 4:
                raise UnknownProtocol("the first packet is not CONNECT")
            self.run(connection.connect(packets.read_connect(data, begin, end)))
        elif state is not RUNNING:
            return
        elif first == codes.PINGREQ << 4:
            connection.send(packets.PINGRESP)
        elif first == codes.SUBSCRIBE << 4 | 2:
            packet = packets.read_subscribe(data, begin, end, self._level)
            self.run(connection.subscribe(packet))
        elif first == codes.UNSUBSCRIBE << 4 | 2:
            self.run(
                connection.unsubscribe(packets.read_unsubscribe(data, begin, end, self._level))
            )
        elif first in EXACTLY_ONCE_PACKETS and connection.session.exactly_once is not None:
            self._exactly_once(first)
        elif first == codes.DISCONNECT << 4:
            connection.client_disconnects(packets.read_disconnect(data, begin, end, self._level))
        elif first >> 4 == codes.AUTH:
            raise UnknownProtocol("AUTH is not expected: no authentication method was agreed on")
        else:
            raise MalformedPacket(
                f"a packet of type {first >> 4} with flags {first & 15} is not expected",
                codes.PROTOCOL_ERROR,
            )

    def _exactly_once(self, first: int) -> None:
        """Handle PUBREC, PUBREL or PUBCOMP. Raises MalformedPacket."""
        taken = self.packets
        packet_id, code = packets.read_acknowledgement(
            taken.data, int(taken.begin), int(taken.end), self._level
        )
        exactly_once = self._connection.session.exactly_once
        if first == PUBREC:
            exactly_once.received(packet_id, code)
        elif first == PUBCOMP:
            exactly_once.completed(packet_id)
            if self._connection.session.retained is not None:
                self._connection.session.retained.go_on()
        else:
            publisher = self.publisher
            if publisher is None:
                publisher = self.publisher = self._make_publisher()
            if exactly_once.publisher is None:
                self.run(exactly_once.release_later(publisher, packet_id))
            else:
                exactly_once.publisher.release(packet_id)

    def _malformed(self, error: MalformedPacket) -> None:
        """Close the connection, after publishing the messages that came before the packet."""
        publisher = self.publisher
        if publisher is not None:
            try:
                publisher.flush()
            except Exception as failure:
                self.operation_failed(failure)
                return
        self._connection.fail(error.code, str(error))

    # Acknowledgements

    def _ack(self, packet_id: int) -> None:
        """A PUBACK. Consecutive ones of one read are passed to their queue as a run."""
        session = self._connection.session
        record = session.unacked.take(packet_id)
        if record is None:
            # A retained message, or one that was acknowledged before.
            if session.retained is not None:
                session.retained.acked(packet_id)
            return
        self._turns.work_left -= ACK_WORK
        tracer = session.vhost.tracer
        if tracer is not None and tracer.hears_acks:
            tracer.acked(session, [(packet_id, record)])
        acked = self._acked
        if acked is None or record.queue is not self._acked_queue:
            self._settle_acked()
            acked = self._acked = []
            self._acked_queue = record.queue
        acked.append(record.entry)
        if record.consumer is not None:
            record.consumer.settled()
        if session.retained is not None:
            session.retained.go_on()

    def _settle_acked(self) -> None:
        acked, self._acked = self._acked, None
        queue, self._acked_queue = self._acked_queue, None
        if acked and queue is not None:
            queue.ack(acked)

    # Operations that may wait

    def operation_failed(self, error: Exception) -> None:
        """The operation of a packet has failed."""
        if isinstance(error, Fault):
            self._connection.fault(error)
        elif isinstance(error, MalformedPacket):
            self._connection.fail(error.code, str(error))
        elif isinstance(error, MetadataError):
            # The node has just left the majority of its cluster, for example.
            self._connection.fail(codes.UNSPECIFIED_ERROR, str(error))
        else:
            name = self._connection.name
            logger.error("%s: a packet could not be handled", name, exc_info=error)
            self._connection.fail(codes.UNSPECIFIED_ERROR, "internal error")
