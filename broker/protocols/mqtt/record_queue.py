"""The records of QoS 2 of one session and one direction: messages in a queue.

A node keeps queues safely and a cluster replicates them, so records survive as messages do. Each is
published with a confirm, and acknowledged when it is not needed. The session's connection is the
queue's only consumer (exclusive), so that two nodes never use the records at the same time, and it
holds the records that are needed. When it ends, they go back to their places.

Reading: the queue first delivers its records, then a mark that this connection has published. When
the mark was delivered and is confirmed, everything before it was delivered and is safe.

A session that ends with its connection has no queue: its records are written at once (`NoRecords`).
"""

import logging
import secrets
from collections.abc import Callable
from typing import Final, Protocol

from leveret.broker.amqp.content_header import header_with
from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.amqp.field_table import Table, encode_short_string
from leveret.broker.amqp.properties import PERSISTENT
from leveret.broker.protocols.mqtt.exactly_once import Record
from leveret.broker.protocols.mqtt.exactly_once_messages import (
    Ordered,
    decode_entry,
    encode_mark,
    encode_record,
)
from leveret.broker.protocols.mqtt.mqtt_session import MqttSession
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.queues.contract.queue_client import UNLIMITED, QueueClient
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.access import find_queue
from leveret.broker.sessions.declaring_queues import QueueProperties, declare_queue
from leveret.broker.sessions.session_consumer import SessionConsumer
from leveret.storage.messages.message import Address, Entry, Message

NONCE_BYTES: Final = 16
PREFETCH_MAX: Final = 1 << 20
"""A session has fewer records: two for each packet identifier and each completed message."""
IN_USE: Final = 403
RETRY_MS: Final = 200
"""How often a queue is asked whether its former consumer has ended."""
HEADER: Final = header_with(delivery_mode=PERSISTENT)
Done = Callable[[], object]

logger = logging.getLogger("leveret.connection")


class Records(Protocol):
    """The records of one direction. queue: None if they are in memory only."""

    queue: QueueClient | None

    def write(self, record: Record, done: Done) -> None:
        """Write a record. done: called when it is safe."""

    def wrote_with_message(self, identity: bytes) -> None:
        """RECEIVED is published as a part of its message, to `queue` among others."""

    def forget(self, identity: bytes) -> None:
        """The records of a message are not needed any longer."""

    def close(self) -> None:
        """The connection ends."""


class NoRecords:
    """Records of a session that ends with its connection."""

    queue: QueueClient | None = None

    def write(self, record: Record, done: Done) -> None:
        """Write a record."""
        done()

    def wrote_with_message(self, identity: bytes) -> None:
        """A message is published."""

    def forget(self, identity: bytes) -> None:
        """A message is completed."""

    def close(self) -> None:
        """The connection ends."""


class Confirmed:
    """Publishes one run, and calls back when it is safe. failed: called if it is refused."""

    __slots__ = ("_done", "_failed", "_holders", "_is_published")

    def __init__(self, done: Done, failed: Done) -> None:
        self._done: Done | None = done
        self._failed: Done | None = failed
        self._holders = 0
        self._is_published = False

    def publish(self, queue: QueueClient, messages: list[Message]) -> None:
        """Publish messages to a queue."""
        queue.publish(publication_of(messages, None, self, 1))
        self._is_published = True
        self._look()

    def hold(self, first: int, count: int, holder: object) -> None:
        """A holder will confirm the run."""
        self._holders += 1

    def confirm(self, first: int, holder: object) -> None:
        """A holder has the run."""
        self._holders -= 1
        self._look()

    def _look(self) -> None:
        if self._is_published and not self._holders:
            done, self._done, self._failed = self._done, None, None
            if done is not None:
                done()

    def refuse(self, number: int) -> None:
        """The queue refuses a message."""
        self._fail()

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """A holder is gone; if the queue was deleted, nothing is safe either."""
        self._fail()

    def _fail(self) -> None:
        failed, self._done, self._failed = self._failed, None, None
        if failed is not None:
            failed()


class RecordQueue:
    """The records in a queue. failed: called with a reason if they cannot be written or kept."""

    def __init__(self, session: MqttSession, name: str, failed: Callable[[str], object]) -> None:
        self._session = session
        self._name = name
        self._failed = failed
        self._address = Address("", name, encode_short_string("") + encode_short_string(name))
        self._turns = session.vhost.turns
        self._order = 0
        self._waiting: list[tuple[Record, Done]] = []
        self._entries: dict[bytes, list[Entry]] = {}
        self._coming: dict[bytes, int] = {}
        """How many records of a message are written, and have not come back from the queue."""
        self._forgotten: set[bytes] = set()
        self._read: list[Ordered] | None = []
        self._mark = secrets.token_bytes(NONCE_BYTES)
        self._mark_came: Answer[None] = Answer()
        self._consumer: RecordConsumer | None = None
        self._has_ended = False
        self.queue: QueueClient | None = None

    # Reading

    async def open(self, arguments: Table) -> list[Record]:
        """Declare the queue, if there is none, and read it. Raises Fault.

        Returns the records that are needed, in their order.
        """
        session = self._session
        if self._name not in session.vhost.queues:
            await declare_queue(session, self._name, QueueProperties(arguments, durable=True))
        queue = self.queue = find_queue(session, self._name)
        self._consumer = RecordConsumer(session, queue, self)
        await subscribe_alone(queue, self._consumer, session.services.clock)
        confirmed: Answer[None] = Answer()
        body = encode_mark(self._mark, self._next_order())
        mark = Message(self._address, HEADER, body)
        Confirmed(lambda: confirmed.give(None), self._fail).publish(queue, [mark])
        await confirmed
        await self._mark_came
        found, self._read = self._read or [], None
        found.sort(key=_order)
        return [one.record for one in found if one.record is not None]

    def take(self, entries: list[Entry]) -> None:
        """The queue delivers records, or messages with their RECEIVED."""
        queue = self.queue
        assert queue is not None, "a queue that delivers is known"
        unneeded: list[Entry] = []
        for entry in entries:
            found = decode_entry(entry.message.header, entry.message.body)
            if found is None or found.record is None:
                unneeded.append(entry)
                if found is None:
                    logger.warning("%r has a message that is no record: it is removed", queue)
                elif found.identity == self._mark:
                    self._mark_came.give(None)
                continue
            self._order = max(self._order, found.order)
            if self._read is not None:
                self._read.append(found)
            self._came(entry, found.identity, unneeded)
        if unneeded:
            queue.ack(unneeded)

    def _came(self, entry: Entry, identity: bytes, unneeded: list[Entry]) -> None:
        coming = self._coming.pop(identity, 0)
        if coming > 1:
            self._coming[identity] = coming - 1
        if identity not in self._forgotten:
            self._entries.setdefault(identity, []).append(entry)
            return
        unneeded.append(entry)
        if coming <= 1:
            self._forgotten.discard(identity)

    # Writing

    def _next_order(self) -> int:
        self._order = max(self._order + 1, int(self._session.services.clock.wall_time_s() * 1e6))
        return self._order

    def write(self, record: Record, done: Done) -> None:
        """Write a record, with the others of this round as one run."""
        if self._has_ended:
            return
        if not self._waiting:
            self._turns.before_batch(self._publish)
        self._waiting.append((record, done))

    def wrote_with_message(self, identity: bytes) -> None:
        """RECEIVED is published as a part of its message."""
        self._coming[identity] = self._coming.get(identity, 0) + 1

    def _publish(self) -> None:
        waiting, self._waiting = self._waiting, []
        queue = self.queue
        if self._has_ended or not waiting or queue is None:
            return
        messages: list[Message] = []
        for record, _ in waiting:
            self.wrote_with_message(record.identity)
            body = encode_record(record, self._next_order())
            messages.append(Message(self._address, HEADER, body))
        Confirmed(lambda: self._written(waiting), self._fail).publish(queue, messages)

    def _written(self, written: list[tuple[Record, Done]]) -> None:
        for _, done in written:
            if not self._has_ended:
                done()

    def _fail(self) -> None:
        if not self._has_ended:
            self._failed(f"the records of QoS 2 in {self.queue!r} cannot be written")

    def lost(self) -> None:
        """The queue is deleted, has crashed, or has taken its messages back."""
        if not self._has_ended:
            self._failed(f"the records of QoS 2 in {self.queue!r} cannot be used any longer")

    def forget(self, identity: bytes) -> None:
        """Acknowledge the records of a message, the oldest first."""
        if self._coming.get(identity):
            self._forgotten.add(identity)
        entries = self._entries.pop(identity, None)
        if entries and self.queue is not None and not self._has_ended:
            self.queue.ack(entries)

    def close(self) -> None:
        """Give the records back to the queue, and leave it."""
        if self._has_ended:
            return
        self._has_ended = True
        queue, consumer = self.queue, self._consumer
        if queue is None or consumer is None or queue.is_deleted:
            return
        held = [entry for entries in self._entries.values() for entry in entries]
        self._entries.clear()
        if held:
            held.sort(key=_position)
            queue.requeue(held)
        queue.cancel(consumer, channel_ended=True)


class RecordConsumer(SessionConsumer):
    """The only consumer of a queue of records."""

    __slots__ = ("_records",)

    def __init__(self, session: MqttSession, queue: QueueClient, records: RecordQueue) -> None:
        super().__init__(session, queue, "records", False, True, {})
        self._records = records
        # A quorum queue gives it as many as this says.
        self.prefetch_count = PREFETCH_MAX

    def room(self) -> int:
        """Any number: it needs all of them."""
        return 0 if self.session.has_ended else UNLIMITED

    def deliver(self, entries: list[Entry]) -> None:
        """Take records."""
        self._records.take(entries)

    def queue_deleted(self) -> None:
        """The queue is deleted, or has crashed."""
        self._records.lost()

    def timed_out(self) -> None:
        """The queue has taken the records back."""
        self._records.lost()


async def subscribe_alone(queue: QueueClient, consumer: SessionConsumer, clock: Clock) -> None:
    """Subscribe a queue's only consumer; waits until a former consumer has ended.

    A queue on another node may not know yet that the former consumer's node is gone. Raises Fault.
    """
    while True:
        subscribed: Answer[None] = Answer(give_back=lambda _: queue.cancel(consumer, True))
        queue.subscribe(consumer, subscribed)
        try:
            await subscribed
        except ChannelFault as fault:
            if fault.reply_code != IN_USE:
                raise
            await _after(clock, RETRY_MS)
            continue
        return


def _after(clock: Clock, delay_ms: int) -> Answer[None]:
    later: Answer[None] = Answer()
    clock.call_later_ms(delay_ms, lambda: later.give(None))
    return later


def _order(one: Ordered) -> int:
    return one.order


def _position(entry: Entry) -> int:
    return entry.position
