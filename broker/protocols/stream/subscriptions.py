"""The subscriptions of a connection: chunks go to the client as they are stored, against credit.

A subscription takes the next chunks of its reader as long as it has credit and the output is not
congested; the ones that can go on take turns. So a client that gives a large credit and reads
nothing has one turn's chunks in memory.

A single active consumer has no reader until its stream makes it active. The client is asked first,
and answers where it begins. One that has to stop gets nothing from then on; the next one begins
when the client has answered (it has stored its offset by then), or when the connection ends.
"""

import logging
from collections.abc import Sequence
from struct import Struct
from typing import Final

from leveret.broker.amqp.json_form import text
from leveret.broker.events.stream_events import ChunkRead, ReadingEnded, StreamChunk
from leveret.broker.events.taps import Taps
from leveret.broker.protocols.stream import codes, responses
from leveret.broker.protocols.stream.requests import Properties
from leveret.broker.protocols.stream.serving import (
    READ,
    CommandRefused,
    ServingConnection,
    check,
    find_stream,
    note_error,
)
from leveret.broker.protocols.stream.super_streams import partition_of
from leveret.broker.queues.contract.offset_specification import NEXT, OffsetSpecification
from leveret.broker.queues.contract.status import SubscriptionFigures
from leveret.broker.queues.contract.stream import Chunk, Stream, StreamReader
from leveret.broker.runtime.clock import Timer
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Actor
from leveret.storage.stream_log.chunks import HEAD_BYTES
from leveret.storage.stream_log.stored_chunks import StoredChunk

CREDIT_MAX: Final = 1 << 31
CHUNKS_AT_ONCE: Final = 64
BYTES_AT_ONCE: Final = 256 * 1024
"""The chunks of one subscription before the next subscription has its turn."""
CHUNK_WORK: Final = 20
"""The work of a chunk (broker/runtime/turns.py)."""
UPDATE_TIMEOUT_MS: Final = 60_000
"""The time limit for a client's answer that a consumer begins or stops."""
NAME: Final = "name"
NAME_BYTES_MAX: Final = 255
_TRACED = Struct(">4xIq8xQ")
"""The fields of a chunk's head in traces: the number of messages, the time, the first offset."""

logger = logging.getLogger("leveret.connection")


class Subscription:
    """One subscription.

    credit: how many chunks may be sent. start: where it begins. group: the name of its group of
    single active consumers; None without one. is_active: it may have a reader. may_have_chunks: the
    reader has not reported that it has none. consumed: the number of messages that were sent.
    properties: those that the client gave.
    """

    __slots__ = (
        "_subscriptions", "consumed", "credit", "group", "is_active", "may_have_chunks", "number",
        "properties", "reader", "start", "stream",
    )  # fmt: skip

    def __init__(
        self,
        subscriptions: "Subscriptions",
        number: int,
        stream: Stream,
        start: OffsetSpecification,
        credit: int,
        properties: Properties,
    ) -> None:
        self._subscriptions = subscriptions
        self.number = number
        self.stream = stream
        self.start = start
        self.credit = credit
        self.properties = properties
        is_single = properties.get("single-active-consumer") == "true"
        self.group: bytes | None = None
        if is_single:
            self.group = properties[NAME].encode("utf-8", "surrogateescape")
        self.is_active = not is_single
        self.reader: StreamReader | None = None
        self.may_have_chunks = False
        self.consumed = 0

    @property
    def tag(self) -> str:
        """Its name in traces."""
        return self.properties.get(NAME) or f"subscription {self.number}"

    @property
    def filter_values(self) -> tuple[bytes, ...]:
        """The filter values that it wants; empty for all messages."""
        return tuple(
            value.encode("utf-8", "surrogateescape")
            for name, value in self.properties.items()
            if name.startswith("filter.")
        )

    @property
    def match_unfiltered(self) -> bool:
        """Whether it also wants messages without a filter value."""
        return self.properties.get("match-unfiltered") == "true"

    def lag_ms(self, wall_ms: int) -> int | None:
        """The age of the last message that it got, if more follow. wall_ms: the time now."""
        reader = self.reader
        if reader is None:
            return None
        if not reader.lag:
            return 0
        return max(0, wall_ms - reader.taken_ms) if reader.taken_ms else None

    # Calls of its reader and its group

    def ready(self) -> None:
        """The reader has chunks."""
        self.may_have_chunks = True
        self._subscriptions.go_on_with(self)

    def failed(self, error: Exception) -> None:
        """The reader has ended."""
        self._subscriptions.reader_failed(self, error)

    def update(self, is_active: bool) -> None:
        """The group activates it, or stops it."""
        self._subscriptions.update(self, is_active)

    def stop_reading(self) -> None:
        """Close the reader, if there is one."""
        reader, self.reader = self.reader, None
        self.may_have_chunks = False
        if reader is not None:
            reader.close()
            self._subscriptions.reading_ended(self)


class Subscriptions(Actor):
    """The subscriptions of one connection, by their numbers.

    deliver_version: the version of deliveries that the client accepts.
    """

    def __init__(self, connection: ServingConnection) -> None:
        super().__init__()
        self._connection = connection
        self._turns = connection.services.turns
        self._counts = connection.services.counts.stream_protocol
        self._ready: dict[Subscription, None] = {}
        self._updates: dict[int, tuple[Subscription, bool, Timer]] = {}
        self._last_correlation = 0
        self.by_number: dict[int, Subscription] = {}
        self.deliver_version = 1

    # Subscribing

    async def subscribe(
        self, number: int, name: str, start: OffsetSpecification | None, credit: int,
        properties: Properties,
    ) -> bytes:  # fmt: skip
        """Subscribe to a stream. Raises CommandRefused."""
        connection = self._connection
        await check(connection, name, READ)
        stream = find_stream(connection, name)
        if number in self.by_number:
            raise CommandRefused(codes.SUBSCRIPTION_ID_ALREADY_EXISTS)
        is_single = properties.get("single-active-consumer") == "true"
        reference = properties.get(NAME, "").encode("utf-8", "surrogateescape")
        if len(reference) > NAME_BYTES_MAX or (is_single and NAME not in properties):
            raise CommandRefused(codes.PRECONDITION_FAILED)
        partition = -1
        if is_single and properties.get("super-stream"):
            partition = partition_of(connection.vhost, properties["super-stream"], name)
        one = Subscription(self, number, stream, start or NEXT, credit, properties)
        self.by_number[number] = one
        self._counts.consumers += 1
        connection.use(stream)
        if one.group is not None:
            stream.join_group(one.group, partition, one)
            return b""
        try:
            await self._open_reader(one, one.start)
        except BaseException:
            self._remove(one)
            raise
        if one.reader is None:
            # The stream was deleted meanwhile.
            raise CommandRefused(codes.STREAM_NOT_AVAILABLE)
        return b""

    async def _open_reader(self, one: Subscription, start: OffsetSpecification) -> None:
        answer: Answer[StreamReader] = Answer(give_back=StreamReader.close)
        one.stream.open_reader(
            start, one.filter_values, one.match_unfiltered, one, answer,
            sends_files=self._connection.sends_files,
        )  # fmt: skip
        reader = await answer
        if self.by_number.get(one.number) is not one or not one.is_active:
            reader.close()
            return
        one.reader = reader
        one.ready()

    def unsubscribe(self, number: int) -> None:
        """End a subscription. Raises CommandRefused."""
        one = self.by_number.get(number)
        if one is None:
            raise CommandRefused(codes.SUBSCRIPTION_ID_DOES_NOT_EXIST)
        self._remove(one)

    def _remove(self, one: Subscription) -> None:
        if self.by_number.get(one.number) is not one:
            return
        del self.by_number[one.number]
        self._counts.consumers -= 1
        self._ready.pop(one, None)
        one.is_active = False
        one.stop_reading()
        for correlation, (subscription, _, timer) in list(self._updates.items()):
            if subscription is one:
                timer.cancel()
                del self._updates[correlation]
        if one.group is not None:
            one.stream.leave_group(one.group, one)
        self._connection.end_use(one.stream)

    def lose(self, stream: Stream) -> None:
        """End the subscriptions of a stream."""
        for one in [one for one in self.by_number.values() if one.stream is stream]:
            self._remove(one)

    def close(self) -> None:
        """End all subscriptions: the connection ends."""
        for one in list(self.by_number.values()):
            self._remove(one)

    def reader_failed(self, one: Subscription, error: Exception) -> None:
        """A reader has ended without a request of the client."""
        if self.by_number.get(one.number) is not one:
            return
        if not one.stream.is_deleted:
            logger.error(
                "%s: reading stream '%s' has failed: %s",
                self._connection.name, one.stream.name, error,
            )  # fmt: skip
        self._connection.lose(one.stream)

    def statuses(self) -> list[SubscriptionFigures]:
        """The subscriptions, for management."""
        wall_ms = int(self._connection.services.clock.wall_time_s() * 1000)
        return [
            SubscriptionFigures(
                number=number,
                queue=text(one.stream.name),
                properties={text(name): text(value) for name, value in one.properties.items()},
                credit=one.credit,
                is_single_active=one.group is not None,
                is_active=one.is_active,
                offset=0 if one.reader is None else one.reader.next_offset,
                lag=0 if one.reader is None else one.reader.lag,
                lag_ms=one.lag_ms(wall_ms),
                consumed=one.consumed,
            )
            for number, one in self.by_number.items()
        ]

    # Delivering

    def credit(self, number: int, credit: int) -> None:
        """The client takes more chunks of a subscription."""
        one = self.by_number.get(number)
        if one is None:
            note_error(self._connection.services, codes.SUBSCRIPTION_ID_DOES_NOT_EXIST)
            error = responses.credit_error(codes.SUBSCRIPTION_ID_DOES_NOT_EXIST, number)
            self._connection.send(error)
            return
        one.credit = min(CREDIT_MAX, max(0, one.credit + credit))
        if one.reader is None:
            self._connection.send(responses.credit_error(codes.PRECONDITION_FAILED, number))
        else:
            self.go_on_with(one)

    def go_on_with(self, one: Subscription) -> None:
        """Deliver to a subscription, if it has credit and there are chunks."""
        if one.credit > 0 and one.may_have_chunks and one.reader is not None:
            self._ready[one] = None
            self._turns.wake(self)

    def go_on(self) -> None:
        """Deliver to all subscriptions that can go on: the output is no longer congested."""
        if self._ready:
            self._turns.wake(self)

    def take_turn(self) -> None:
        """Deliver in turn to the subscriptions that can go on."""
        ready = self._ready
        while ready and self._turns.work_left > 0 and not self._connection.is_congested:
            one = next(iter(ready))
            del ready[one]
            self._deliver(one)
        if ready and not self._connection.is_congested:
            self.go_on()

    def _deliver(self, one: Subscription) -> None:
        reader = one.reader
        assert reader is not None, "a subscription without a reader is ready"
        one.may_have_chunks = False
        chunks = reader.take(min(one.credit, CHUNKS_AT_ONCE), BYTES_AT_ONCE)
        self._turns.work_left -= CHUNK_WORK * (1 + len(chunks))
        if not chunks:
            return
        one.may_have_chunks = True
        one.credit -= len(chunks)
        committed = None if self.deliver_version == 1 else reader.next_offset + reader.lag - 1
        consumed_before = one.consumed
        for chunk in chunks:
            if isinstance(chunk, StoredChunk):
                self._send_stored(one, chunk, committed)
            else:
                one.consumed += int.from_bytes(chunk[4:8], "big")
                self._connection.send(responses.deliver_head(one.number, len(chunk), committed))
                self._connection.send(chunk)
        self._counts.delivered += one.consumed - consumed_before
        tracer = self._connection.vhost.tracer
        if tracer is not None:
            self._trace(tracer, one, chunks, reader.next_offset + reader.lag)
        self.go_on_with(one)

    def _send_stored(self, one: Subscription, chunk: StoredChunk, committed: int | None) -> None:
        """Send a chunk from its file."""
        head, entries = chunk.head_for_clients, chunk.entries()
        one.consumed += chunk.head.message_count
        frame_head = responses.deliver_head(one.number, len(head) + entries.size, committed)
        self._connection.send(frame_head + head)
        self._connection.send_part(entries)

    def _trace(
        self, tracer: Taps, one: Subscription, chunks: Sequence[Chunk], end_offset: int,
    ) -> None:  # fmt: skip
        """Report the chunks that were sent."""
        session, is_filtered = self._connection.session, bool(one.filter_values)
        for chunk in chunks:
            if isinstance(chunk, StoredChunk):
                head = chunk.head_for_clients
                size = len(head) + chunk.head.entries_bytes
            else:
                head, size = bytes(chunk[:HEAD_BYTES]), len(chunk)
            count, time_ms, offset = _TRACED.unpack_from(head)
            read = StreamChunk(offset, count, size, time_ms)
            lag = max(0, end_offset - offset - count)
            tracer.stream_changed(ChunkRead(session, one.stream, one.tag, read, lag, is_filtered))

    def reading_ended(self, one: Subscription) -> None:
        """Report that a reader was closed."""
        tracer = self._connection.vhost.tracer
        if tracer is not None:
            tracer.stream_changed(ReadingEnded(self._connection.session, one.stream, one.tag))

    # Single active consumers

    def update(self, one: Subscription, is_active: bool) -> None:
        """Ask the client to start or to stop a subscription."""
        one.is_active = is_active
        if not is_active:
            one.stop_reading()
            self._ready.pop(one, None)
        self._last_correlation += 1
        correlation = self._last_correlation
        timer = self._connection.services.clock.call_later_ms(UPDATE_TIMEOUT_MS, self._too_late)
        self._updates[correlation] = (one, is_active, timer)
        self._connection.send(
            responses.consumer_update(correlation, one.number, is_active=is_active)
        )

    async def answer_update(
        self, correlation: int, code: int, start: OffsetSpecification | None
    ) -> None:
        """The client has answered `update`."""
        one, is_active, timer = self._updates.pop(correlation, (None, False, None))
        if one is None or timer is None:
            return
        timer.cancel()
        if code != codes.OK:
            logger.warning(
                "%s: a consumer of stream '%s' was answered with code %d",
                self._connection.name, one.stream.name, code,
            )  # fmt: skip
        if not is_active:
            assert one.group is not None, "only single active consumers are told to stop"
            one.stream.stopped(one.group, one)
        elif one.is_active and one.reader is None:
            try:
                await self._open_reader(one, start or one.start)
            except Exception as error:
                self.reader_failed(one, error)

    def _too_late(self) -> None:
        self._connection.fail(codes.INTERNAL_ERROR, "a consumer update was not answered in time")
