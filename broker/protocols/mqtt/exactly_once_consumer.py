"""A session's consumer of its queue for filters of QoS 2.

A message that was published with QoS 2 is sent when the record of its packet identifier is on disk,
and acknowledged to the queue when the record that the client has it is on disk (exactly_once.py).
Messages of other publishers are delivered like those from the queue of QoS 1.

Barriers are messages that the consumer publishes to the queue, and acknowledges when the queue
delivers them. By then everything before them was delivered, and acknowledgements before them are
safe.
"""

import secrets
from collections.abc import Sequence
from functools import partial
from typing import Final

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import encode_short_string
from leveret.broker.protocols.mqtt import codes, packets
from leveret.broker.protocols.mqtt.consumer import MqttConsumer
from leveret.broker.protocols.mqtt.exactly_once import (
    Acknowledge,
    Completed,
    Effect,
    Forget,
    Outbound,
    Record,
    SendPublish,
    SendPubrel,
)
from leveret.broker.protocols.mqtt.exactly_once_messages import (
    TrackedPublish,
    barrier_header,
    nonce_of,
    read_tracked,
)
from leveret.broker.protocols.mqtt.messages import RETAIN
from leveret.broker.protocols.mqtt.mqtt_session import MqttSession
from leveret.broker.protocols.mqtt.properties import encode_variable
from leveret.broker.protocols.mqtt.record_queue import NONCE_BYTES, Confirmed, Records
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.clock import Timer
from leveret.broker.sessions.interceptors import message_to_send
from leveret.storage.messages.message import Address, Entry, Message

TAG: Final = "qos2"
BARRIER_AFTER_MS: Final = 1_000
FINISHED_MANY: Final = 64
"""A barrier is published after this many completed messages, or a time after the first."""
PUBLISH_QOS_2: Final = 0x34
DUP: Final = 8
BARRIER_PARTS: Final = 2
"""A barrier has passed when it is confirmed, and has come out of the queue."""


class _Barrier:
    """A barrier that has not passed. missing: of `BARRIER_PARTS`."""

    __slots__ = ("missing", "nonce", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.nonce = secrets.token_bytes(NONCE_BYTES)
        self.missing = BARRIER_PARTS


class ExactlyOnceConsumer(MqttConsumer):
    """The consumer of the queue of QoS 2. Nothing is delivered to it before `begin`."""

    __slots__ = (
        "_barrier", "_entries", "_has_begun", "_has_ended", "_outbound", "_records", "_taking_room",
        "_timer",
    )  # fmt: skip

    def __init__(
        self, session: MqttSession, queue: QueueClient, records: Records, outbound: Outbound
    ) -> None:
        super().__init__(session, queue, TAG, 2)
        self.is_exclusive = True
        self._records = records
        self._outbound = outbound
        self._entries: dict[bytes, Entry] = {}
        """The messages that the queue has delivered and that are not acknowledged."""
        self._taking_room: set[bytes] = set()
        """Those that count as unacknowledged by the client, until PUBCOMP."""
        self._barrier: _Barrier | None = None
        self._timer: Timer | None = None
        self._has_begun = self._has_ended = False

    def begin(self) -> None:
        """The client is told that it is connected: continue its deliveries."""
        self._has_begun = True
        # The client may have these, and must not get more than it allows.
        self._taking_room.update(self._outbound.released)
        self.credit -= len(self._taking_room)
        self._do(self._outbound.connected())
        self._wait_for_barrier()
        if self.is_waiting:
            self.queue.credit(self)

    def room(self) -> int:
        """The number of messages that it may be given now."""
        return super().room() if self._has_begun and not self._has_ended else 0

    # From the queue

    def deliver(self, entries: list[Entry]) -> None:
        """Send messages to the client, or first record that they will be sent."""
        others: list[Entry] = []
        counted: list[Entry] = []
        for entry in entries:
            header = entry.message.header
            tracked = read_tracked(header)
            if tracked is not None:
                self._take(entry, tracked, counted)
            elif (nonce := nonce_of(header)) is None:
                others.append(entry)
            else:
                self.queue.ack([entry])
                barrier = self._barrier
                if barrier is not None and barrier.nonce == nonce:
                    self._barrier_has_part(barrier)
        if counted:
            self.note_delivered(counted, 0)
        if others:
            super().deliver(others)

    def _take(self, entry: Entry, tracked: TrackedPublish, counted: list[Entry]) -> None:
        identity = tracked.identity
        is_under_way = identity in self._outbound
        if identity in self._entries or (not is_under_way and self._is_too_large(entry)):
            # It was handed over twice; or the client does not take it.
            self.queue.ack([entry])
            return
        self._entries[identity] = entry
        effects = self._outbound.delivered(identity, tracked.is_repeatable, tracked.oldest_number)
        if not any(isinstance(effect, Acknowledge) for effect in effects):
            self._taking_room.add(identity)
            counted.append(entry)
        self._do(effects)

    def _is_too_large(self, entry: Entry) -> bool:
        limit = self.mqtt.packet_bytes_max
        return limit > 0 and len(self._packet(entry, 1, False)) > limit

    # From the client

    def received(self, packet_id: int, code: int) -> None:
        """PUBREC has come."""
        self._do(self._outbound.received(packet_id, code >= codes.UNSPECIFIED_ERROR))

    def completed(self, packet_id: int) -> None:
        """PUBCOMP has come."""
        self._do(self._outbound.completed(packet_id))

    # Effects

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Record):
                self._records.write(effect, partial(self._written, effect))
            elif isinstance(effect, SendPublish):
                entry = self._entries[effect.identity]
                packet = self._packet(entry, effect.packet_id, effect.is_repeated)
                if packet:
                    self._output.write(packet)
            elif isinstance(effect, SendPubrel):
                code = codes.SUCCESS if effect.is_known else codes.PACKET_IDENTIFIER_NOT_FOUND
                level = self.mqtt.level
                self._output.write(
                    packets.acknowledgement(level, codes.PUBREL, effect.packet_id, code)
                )
            elif isinstance(effect, Acknowledge):
                acked = self._entries.pop(effect.identity, None)
                if acked is not None:
                    self.queue.ack([acked])
            elif isinstance(effect, Completed):
                self._complete(effect.identity)
            elif isinstance(effect, Forget):
                self._records.forget(effect.identity)

    def _written(self, record: Record) -> None:
        """A record is safe."""
        if not self._has_ended:
            self._do(self._outbound.synced(record.packet_id))

    def _complete(self, identity: bytes) -> None:
        if identity in self._taking_room:
            self._taking_room.discard(identity)
            self.settled()
        if self._outbound.finished_count >= FINISHED_MANY:
            self._publish_barrier()
        else:
            self._wait_for_barrier()

    def _packet(self, entry: Entry, packet_id: int, is_repeated: bool) -> bytes:
        """A PUBLISH of QoS 2; empty if an interceptor fails, which ends the connection."""
        session = self.mqtt
        message: Message | None = entry.message
        if session.intercepts_outgoing:
            message = message_to_send(session, self.queue.name, entry.message)
        if message is None:
            return b""
        header = message.header
        assert isinstance(header, ContentHeader)
        if message.address is not self._address:
            self._use(message.address)
        first = PUBLISH_QOS_2 | (DUP if is_repeated else 0)
        properties = b""
        if session.is_level_5:
            properties = self._properties_of(header, entry)
            if self._wanted.keeps_retain:
                first |= self._flags & RETAIN
        body = b"".join((self._topic, packet_id.to_bytes(2, "big"), properties, message.body))
        return bytes((first,)) + encode_variable(len(body)) + body

    # Barriers

    def _wait_for_barrier(self) -> None:
        """Publish a barrier after a time, unless none is needed or one is under way."""
        if self._timer is None and self._barrier is None and self._outbound.wants_barrier:
            clock = self.mqtt.services.clock
            self._timer = clock.call_later_ms(BARRIER_AFTER_MS, self._publish_barrier)

    def _publish_barrier(self) -> None:
        self._end_timer()
        if self._has_ended or self._barrier is not None or not self._outbound.wants_barrier:
            return
        number = self._outbound.barrier_published()
        if self._records.queue is None:
            # The queue ends with the connection: it delivers nothing again.
            self._do(self._outbound.barrier_passed(number))
            return
        barrier = self._barrier = _Barrier(number)
        name = self.queue.name
        address = Address("", name, encode_short_string("") + encode_short_string(name))
        message = Message(address, barrier_header(barrier.nonce), b"")
        confirmed = partial(self._barrier_has_part, barrier)
        Confirmed(confirmed, self._barrier_refused).publish(self.queue, [message])

    def _barrier_has_part(self, barrier: _Barrier) -> None:
        barrier.missing -= 1
        if not barrier.missing and not self._has_ended:
            self._barrier = None
            self._do(self._outbound.barrier_passed(barrier.number))
            self._wait_for_barrier()

    def _barrier_refused(self) -> None:
        """The queue is full: try again with the next completed messages."""
        self._barrier = None

    def _end_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    # Its end

    def close(self) -> None:
        """The connection ends: requeue unacknowledged messages, and then leave the queue.

        The next connection's consumer can begin only when this one has left.
        """
        if self._has_ended:
            return
        self._has_ended = True
        self._end_timer()
        self.session.consumers.pop(self.tag, None)
        if not self.queue.is_deleted:
            entries, self._entries = self._entries, {}
            if entries:
                self.queue.requeue(sorted(entries.values(), key=_position))
            self.queue.cancel(self, channel_ended=True)
        self._records.close()


def _position(entry: Entry) -> int:
    return entry.position
