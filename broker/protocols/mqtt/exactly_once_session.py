"""The part of a connection for QoS 2: its machines and their records, opened when they are needed.

    the client publishes     ExactlyOncePublisher; if the session is persistent, `...received`
    the client subscribes    ExactlyOnceConsumer; if the session is persistent, `...sent`

A persistent session is continued before CONNACK is sent: its queues are consumed, so the connection
that consumed them before has ended, on any node.
"""

from hashlib import blake2b
from typing import Final

from leveret.broker.amqp.field_table import Table
from leveret.broker.protocols.mqtt import codes, packets
from leveret.broker.protocols.mqtt.exactly_once import SOURCE_BYTES, Inbound, Outbound
from leveret.broker.protocols.mqtt.exactly_once_consumer import ExactlyOnceConsumer
from leveret.broker.protocols.mqtt.exactly_once_publishing import (
    ConfirmingSession,
    ExactlyOncePublisher,
    PublishingParts,
)
from leveret.broker.protocols.mqtt.mqtt_session import MqttSession
from leveret.broker.protocols.mqtt.names import exactly_once_queue, record_queues
from leveret.broker.protocols.mqtt.record_queue import (
    NoRecords,
    RecordQueue,
    Records,
    subscribe_alone,
)
from leveret.broker.sessions.access import find_queue

CONFIRMING_SESSION: Final = 3
"""The number of the session whose confirms are PUBRECs; that of a will is 2."""


class ExactlyOnceSession:
    """QoS 2 of one connection. publisher: None until the client publishes with QoS 2.

    arguments: of the queues of records; None for a session that ends with its connection.
    """

    __slots__ = (
        "_arguments",
        "_consumer",
        "_inbound",
        "_received",
        "_received_name",
        "_sent_name",
        "_session",
        "client_id",
        "publisher",
        "queue_name",
    )  # fmt: skip

    def __init__(self, session: MqttSession, client_id: str, arguments: Table | None) -> None:
        self._session = session
        self._arguments = arguments
        self.client_id = client_id
        self.queue_name = exactly_once_queue(client_id)
        self._received_name, self._sent_name = record_queues(client_id)
        self._received: Records | None = None
        self._inbound: Inbound | None = None
        self._consumer: ExactlyOnceConsumer | None = None
        self.publisher: ExactlyOncePublisher | None = None

    async def resume(self) -> None:
        """Read the records and consume the queue of a persistent session. Raises Fault."""
        queues = self._session.vhost.queues
        if self._received_name in queues:
            await self._open_received()
        if self.queue_name in queues:
            await self.open_consumer()

    def begin(self) -> None:
        """The client is told that it is connected, or subscribed."""
        if self._consumer is not None:
            self._consumer.begin()

    # Publishing

    async def _open_received(self) -> None:
        source = blake2b(
            self.client_id.encode("utf-8", "surrogateescape"), digest_size=SOURCE_BYTES
        ).digest()
        if self._arguments is None:
            self._received, self._inbound = NoRecords(), Inbound(source)
            return
        records = self._received = RecordQueue(self._session, self._received_name, self._failed)
        self._inbound = Inbound.from_records(source, await records.open(self._arguments))

    async def open_publisher(self, parts: PublishingParts) -> None:
        """The client publishes with QoS 2. Raises Fault."""
        if self._received is None:
            await self._open_received()
        received, inbound = self._received, self._inbound
        assert received is not None, "the records are open"
        assert inbound is not None, "the records are read"
        beside = ConfirmingSession(self._session, CONFIRMING_SESSION)
        self.publisher = ExactlyOncePublisher(self._session, beside, received, inbound, parts)

    # Subscribing

    async def open_consumer(self) -> None:
        """Consume the queue of QoS 2, which exists, unless it is consumed. Raises Fault."""
        if self._consumer is not None:
            return
        session = self._session
        records: Records = NoRecords()
        outbound = Outbound()
        if self._arguments is not None:
            queue_of_records = records = RecordQueue(session, self._sent_name, self._failed)
            outbound = Outbound.from_records(await queue_of_records.open(self._arguments))
        queue = find_queue(session, self.queue_name)
        consumer = ExactlyOnceConsumer(session, queue, records, outbound)
        await subscribe_alone(queue, consumer, session.services.clock)
        session.consumers[consumer.tag] = consumer
        self._consumer = consumer

    # Packets

    async def release_later(self, parts: PublishingParts, packet_id: int) -> None:
        """PUBREL has come before any PUBLISH of QoS 2 on this connection. Raises Fault."""
        if self._arguments is None or self._received is not None:
            await self.open_publisher(parts)
            assert self.publisher is not None, "it is open"
            self.publisher.release(packet_id)
        else:
            # Nothing was ever received: no queue is made for this answer.
            self._session.output.write(
                packets.acknowledgement(
                    self._session.level, codes.PUBCOMP, packet_id, codes.PACKET_IDENTIFIER_NOT_FOUND
                )
            )

    def received(self, packet_id: int, code: int) -> None:
        """PUBREC has come."""
        if self._consumer is not None:
            self._consumer.received(packet_id, code)

    def completed(self, packet_id: int) -> None:
        """PUBCOMP has come."""
        if self._consumer is not None:
            self._consumer.completed(packet_id)

    # Its end

    def _failed(self, reason: str) -> None:
        """The records cannot be written: the client comes back, and they are read again."""
        fail = getattr(self._session.connection, "fail")  # noqa: B009
        fail(codes.SERVER_UNAVAILABLE, reason)

    def close(self) -> None:
        """The connection ends."""
        if self._consumer is not None:
            self._consumer.close()
        if self.publisher is not None:
            self.publisher.close()
        elif self._received is not None:
            self._received.close()
