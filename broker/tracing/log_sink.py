"""Writes the events of a vhost as records of a trace log (record.py), in blocks (block_writer.py).

This is on the path of each message, so the common parts of records of publishes, deliveries and
acknowledgements are made once and cached: a text for each channel, consumer and queue, and one for
each address. The properties of a message are copied as they arrived. With bodies, each record has
its own.

One message in `sample` is in the log, chosen by its number, so all its events are in the log or
none. Messages from before the trace began have no number and are not in a sample.

What is delivered from a stream, and acknowledged, is in the records of its chunks
(stream_records.py), not in those of messages.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.events.taps import Settled
from leveret.broker.events.traced import TracedChannel, TracedConnection, TracedQueue
from leveret.broker.runtime.clock import Clock
from leveret.broker.tracing import record
from leveret.broker.tracing.block_writer import SharedText
from leveret.broker.tracing.log_blocks import BLOCK_BYTES, LogBlocks, LogOptions, event_start
from leveret.broker.tracing.pattern import TracePattern
from leveret.broker.tracing.routing_keys import routing_keys_of
from leveret.broker.tracing.shown import json_of, shown
from leveret.broker.tracing.stream_records import StreamRecords, is_sampled, who
from leveret.storage.messages.message import Entry, Message

TEXTS_MAX: Final = 4096
"""Texts of each kind that are kept. When there are more, all are dropped."""
CLOSED_MAX: Final = 64
"""Closed connections whose texts may still be kept."""

Key = TypeVar("Key")


class LogSink(StreamRecords):
    """The log of one vhost: its messages, and the chunks of its streams."""

    def __init__(
        self, blocks: LogBlocks, clock: Clock, pattern: TracePattern, options: LogOptions
    ) -> None:
        super().__init__(blocks, clock, pattern, options)
        self._sample = options.sample
        self._has_bodies = options.has_bodies
        self._closed = 0
        self._published: dict[
            tuple[TracedChannel | None, str, tuple[TracedQueue, ...], str], SharedText
        ] = {}
        self._delivered: dict[tuple[TracedChannel, TracedQueue, str | None, bool], SharedText] = {}
        self._acked: dict[tuple[TracedChannel, TracedQueue], SharedText] = {}
        self._about: dict[bytes | tuple[bytes, tuple[str, ...]], SharedText] = {}

    def __repr__(self) -> str:
        return f"the trace log of vhost {self._options.vhost!r}"

    def detached(self) -> None:
        """Write the rest."""
        self._batches.close()

    # Events of many messages

    def published(
        self,
        channel: TracedChannel | None,
        messages: Sequence[Message],
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
        reason: str = "",
    ) -> None:
        """Write a record for each message."""
        first = messages[0]
        exchange = first.address.exchange
        start = self._published.get((channel, exchange, tuple(queues), reason))
        if start is None:
            start = self._publish_start(channel, exchange, queues, reason)
        if not start.text:
            return
        about = self._about_of(first, routing_keys)
        now, block, sample = self._now(), self._block, self._sample
        for message in messages:
            number = message.number
            if sample == 1 or is_sampled(number, sample):
                if self._has_bodies:
                    self._add_body(now, message)
                header = message.header
                assert isinstance(header, ContentHeader)
                block.published(start, about, header, now, number, len(message.body))

    def delivered(
        self,
        channel: TracedChannel,
        queue: TracedQueue,
        consumer_tag: str | None,
        entries: Sequence[Entry],
        first_tag: int,
        no_ack: bool,
    ) -> None:
        """Write a record for each message."""
        start = self._delivered.get((channel, queue, consumer_tag, no_ack))
        if start is None:
            start = self._deliver_start(channel, queue, consumer_tag, no_ack)
        if not start.text:
            return
        now, block, sample = self._now(), self._block, self._sample
        tag = first_tag - 1
        for entry in entries:
            tag += 1
            message = entry.message
            number = message.number
            if sample != 1 and not is_sampled(number, sample):
                continue
            about = self._about.get(message.address.encoded)
            header = message.header
            assert isinstance(header, ContentHeader)
            if about is None or header.needs_care or header.bcc_keys:
                about = self._about_of(message, routing_keys_of(message))
            if self._has_bodies:
                self._add_body(now, message)
            size, redelivered = len(message.body), entry.redelivered
            block.delivered(start, about, header, now, number, size, tag, redelivered)

    def acked(self, channel: TracedChannel, settled: Settled) -> None:
        """Write a record for each delivery."""
        now, block, sample, starts = self._now(), self._block, self._sample, self._acked
        for tag, delivery in settled:
            queue = delivery.queue
            number = delivery.entry.message.number
            start = starts.get((channel, queue))
            if start is None:
                start = self._ack_start(channel, queue)
            if start.text and (sample == 1 or is_sampled(number, sample)):
                block.acked(start, now, number, tag)

    def _add_body(self, now: int, message: Message) -> None:
        """Add the body of the record that follows. Bodies are large, so the block may be full."""
        if self._block.size >= BLOCK_BYTES:
            self._batches.turn(now)
        self._block.add_body(message.body[: self._options.body_bytes_max])

    def rejected(self, channel: TracedChannel, settled: Settled, requeue: bool) -> None:
        """Write a record for each delivery."""
        for tag, delivery in settled:
            more = {**who(channel), "delivery_tag": tag, "requeue": requeue}
            self._happened(record.REJECT, delivery.queue, delivery.entry.message, more)

    # Events of single messages

    def requeued(self, settled: Settled) -> None:
        """Write a record for each delivery."""
        for _, delivery in settled:
            self._happened(record.REQUEUE, delivery.queue, delivery.entry.message)

    def expired(self, queue: TracedQueue, message: Message) -> None:
        """Write a record."""
        self._happened(record.EXPIRE, queue, message)

    def delayed(self, queue: TracedQueue, message: Message, until_ms: int) -> None:
        """Write a record."""
        self._happened(record.DELAY, queue, message, {"until_us": until_ms * 1000})

    def dropped(self, queue: TracedQueue, message: Message, reason: str) -> None:
        """Write a record."""
        self._happened(record.DROP, queue, message, {"reason": reason})

    def emptied(self, queue: TracedQueue, reason: str, count: int) -> None:
        """Write one record for all messages, which are not known one by one."""
        if count and self._matches(record.DROP, queue.name):
            self._say(record.DROP, queue=shown(queue.name), reason=reason, count=count)

    def dead_lettered(
        self,
        queue: TracedQueue,
        message: Message,
        reason: str,
        letter: Message,
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
    ) -> None:
        """Write a record if either of the two messages is in the sample."""
        more = {
            "reason": reason,
            "new_message": letter.number,
            "exchange": shown(letter.address.exchange),
            "routing_keys": [shown(key) for key in routing_keys],
            **_targets(queues),
        }
        self._happened(record.DEAD_LETTER, queue, message, more, letter)

    def returned(
        self,
        channel: TracedChannel,
        messages: Sequence[Message],
        code: int,
        text: str,
        reason: str = "",
    ) -> None:
        """Write a record for each message."""
        address = messages[0].address
        if not self._matches(record.RETURN, address.exchange):
            return
        more = {
            "exchange": shown(address.exchange), "routing_keys": [shown(address.routing_key)],
            "reply_code": code, "reply_text": text, **_refusal(reason),
        }  # fmt: skip
        for message in messages:
            if is_sampled(message.number, self._sample):
                self._say(record.RETURN, **who(channel), message=message.number, **more)

    def _happened(
        self,
        event: str,
        queue: TracedQueue,
        message: Message,
        more: dict[str, Any] | None = None,
        letter: Message | None = None,
    ) -> None:
        is_shown = is_sampled(message.number, self._sample) or (
            letter is not None and is_sampled(letter.number, self._sample)
        )
        if is_shown and queue.kind.removes_messages and self._matches(event, queue.name):
            self._say(event, queue=shown(queue.name), message=message.number, **(more or {}))

    # Connections

    def connection_opened(self, connection: TracedConnection) -> None:
        """Write a record."""
        self._say_of(connection, record.OPEN)

    def connection_closed(self, connection: TracedConnection) -> None:
        """Write a record. From time to time, drop the texts of closed connections."""
        self._say_of(connection, record.CLOSE)
        self._closed += 1
        if self._closed % CLOSED_MAX == 0:
            self._published.clear()
            self._delivered.clear()
            self._acked.clear()
            self._starts.clear()

    def _say_of(self, connection: TracedConnection, event: str) -> None:
        if self._matches(event, ""):
            self._say(
                event, connection=shown(connection.name), channel=0,
                user=shown(connection.user.name),
            )  # fmt: skip

    # Texts of records; empty ones if the pattern excludes such records

    def _publish_start(
        self,
        channel: TracedChannel | None,
        exchange: str,
        queues: Sequence[TracedQueue],
        reason: str,
    ) -> SharedText:
        start = b""
        if self._matches(record.PUBLISH, exchange):
            more = {**_targets(queues), **_refusal(reason)}
            start = self._text(record.PUBLISH, **who(channel), **more)
        return _keep(self._published, (channel, exchange, tuple(queues), reason), start)

    def _deliver_start(
        self, channel: TracedChannel, queue: TracedQueue, tag: str | None, no_ack: bool
    ) -> SharedText:
        start = b""
        if queue.kind.removes_messages and self._matches(record.DELIVER, queue.name):
            start = self._text(
                record.DELIVER, **who(channel), queue=shown(queue.name),
                consumer_tag=None if tag is None else shown(tag), no_ack=no_ack,
            )  # fmt: skip
        return _keep(self._delivered, (channel, queue, tag, no_ack), start)

    def _ack_start(self, channel: TracedChannel, queue: TracedQueue) -> SharedText:
        start = b""
        if queue.kind.removes_messages and self._matches(record.ACK, queue.name):
            start = self._text(record.ACK, **who(channel), queue=shown(queue.name))
        return _keep(self._acked, (channel, queue), start)

    def _text(self, event: str, **more: Any) -> bytes:
        return event_start(event, self._options, **more).encode()

    def _about_of(self, message: Message, routing_keys: Sequence[str]) -> SharedText:
        """Return the second text of a record: the address of its message."""
        address = message.address
        key: bytes | tuple[bytes, tuple[str, ...]] = address.encoded
        if len(routing_keys) > 1:
            key = (address.encoded, tuple(routing_keys))
        about = self._about.get(key)
        if about is None:
            known = {
                "exchange": shown(address.exchange),
                "routing_keys": [shown(key) for key in routing_keys],
            }
            text = f',{json_of(known)[1:-1]},"properties":'
            about = _keep(self._about, key, text.encode())
        return about


def _keep(texts: dict[Key, SharedText], key: Key, text: bytes) -> SharedText:
    if len(texts) >= TEXTS_MAX:
        texts.clear()
    shared = texts[key] = SharedText(text)
    return shared


def _refusal(reason: str) -> dict[str, str]:
    """The field of a record that tells why an exchange refused its message, if one did."""
    return {"reason": reason} if reason else {}


def _targets(queues: Sequence[TracedQueue]) -> dict[str, list[str]]:
    """The fields of a record that tell where a message was routed."""
    streams = [shown(queue.name) for queue in queues if not queue.kind.removes_messages]
    if not streams:
        return {"queues": [shown(queue.name) for queue in queues]}
    names = [shown(queue.name) for queue in queues if queue.kind.removes_messages]
    return {"queues": names, "streams": streams}
