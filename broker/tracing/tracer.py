"""The tracer of a traced vhost, which passes reports from the taps on to sinks (sinks.py).

It passes each report of the taps (broker/events/taps.py) on to the sinks that override its method.
A sink that raises is logged and removed: tracing must not disturb the observed traffic. Messages of
the firehose's own exchange are not reported.

The tracer also numbers the messages of its vhost as they are published (message_numbers.py).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from leveret.broker.events.stream_events import StreamEvent
from leveret.broker.events.taps import TRACE_EXCHANGE, Settled, Sink, Taps
from leveret.broker.events.traced import TracedChannel, TracedConnection, TracedQueue
from leveret.broker.runtime.message_numbers import MessageNumbers
from leveret.storage.messages.message import Entry, Message

logger = logging.getLogger("leveret.tracing")

Reports = tuple[Callable[..., object], ...]


class Tracer(Taps):
    """The tracer of one vhost. It is immutable: a different set of sinks gets a new tracer.

    failed: called with a sink that raised an error.
    """

    __slots__ = (
        "_acked", "_closed", "_dead_lettered", "_delayed", "_delivered", "_dropped", "_emptied",
        "_expired", "_failed", "_numbers", "_opened", "_published", "_rejected", "_requeued",
        "_returned", "_stream_changed", "sinks",
    )  # fmt: skip

    def __init__(
        self, numbers: MessageNumbers, sinks: Sequence[Sink], failed: Callable[[Sink], object]
    ) -> None:
        self.sinks = tuple(sinks)
        self._numbers = numbers
        self._failed = failed
        self._published = self._overrides_of("published")
        self._delivered = self._overrides_of("delivered")
        self._acked = self._overrides_of("acked")
        self._rejected = self._overrides_of("rejected")
        self._requeued = self._overrides_of("requeued")
        self._expired = self._overrides_of("expired")
        self._delayed = self._overrides_of("delayed")
        self._dropped = self._overrides_of("dropped")
        self._emptied = self._overrides_of("emptied")
        self._dead_lettered = self._overrides_of("dead_lettered")
        self._returned = self._overrides_of("returned")
        self._opened = self._overrides_of("connection_opened")
        self._closed = self._overrides_of("connection_closed")
        self._stream_changed = self._overrides_of("stream_changed")

    def _overrides_of(self, name: str) -> Reports:
        return tuple(
            getattr(sink, name)
            for sink in self.sinks
            if getattr(type(sink), name) is not getattr(Sink, name)
        )

    def _report(self, reports: Reports, *event: Any) -> None:
        for report in reports:
            try:
                report(*event)
            except Exception:
                self._remove_failed(report)

    def _remove_failed(self, report: Callable[..., object]) -> None:
        sink = report.__self__  # type: ignore[attr-defined]
        logger.exception("%r failed on a trace event and is removed", sink)
        self._failed(sink)

    @property
    def hears_acks(self) -> bool:
        """Whether a sink receives acknowledgements."""
        return bool(self._acked)

    def take_numbers(self, count: int) -> int:
        """The first of `count` consecutive numbers that no message has."""
        return self._numbers.take(count)

    # The reports; see `Sink`. The three per-message ones do not call `_report`, since function
    # calls are most of a tracer's cost.

    def published(
        self,
        channel: TracedChannel | None,
        messages: Sequence[Message],
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
        reason: str = "",
    ) -> None:
        """Messages were published to one address."""
        if _is_of_firehose(messages[0]):
            return
        for report in self._published:
            try:
                report(channel, messages, routing_keys, queues, reason)
            except Exception:
                self._remove_failed(report)

    def delivered(
        self,
        channel: TracedChannel,
        queue: TracedQueue,
        consumer_tag: str | None,
        entries: Sequence[Entry],
        first_tag: int,
        no_ack: bool,
    ) -> None:
        """Messages were delivered to a client."""
        reports = self._delivered
        if not reports:
            return
        for entry in entries:
            if entry.message.address.exchange == TRACE_EXCHANGE:
                self._delivered_in_part(channel, queue, consumer_tag, entries, first_tag, no_ack)
                return
        for report in reports:
            try:
                report(channel, queue, consumer_tag, entries, first_tag, no_ack)
            except Exception:
                self._remove_failed(report)

    def _delivered_in_part(
        self,
        channel: TracedChannel,
        queue: TracedQueue,
        consumer_tag: str | None,
        entries: Sequence[Entry],
        first_tag: int,
        no_ack: bool,
    ) -> None:
        """Report the entries that are not copies made by the firehose."""
        for tag, entry in enumerate(entries, first_tag):
            if not _is_of_firehose(entry.message):
                self._report(self._delivered, channel, queue, consumer_tag, [entry], tag, no_ack)

    def acked(self, channel: TracedChannel, settled: Settled) -> None:
        """A client acknowledged deliveries."""
        reports = self._acked
        if not reports:
            return
        for _, delivery in settled:
            if delivery.entry.message.address.exchange == TRACE_EXCHANGE:
                settled = _traced(settled)
                break
        for report in reports if settled else ():
            try:
                report(channel, settled)
            except Exception:
                self._remove_failed(report)

    def rejected(self, channel: TracedChannel, settled: Settled, requeue: bool) -> None:
        """A client rejected deliveries."""
        if self._rejected and (traced := _traced(settled)):
            self._report(self._rejected, channel, traced, requeue)

    def requeued(self, settled: Settled) -> None:
        """Deliveries were requeued."""
        if self._requeued and (traced := _traced(settled)):
            self._report(self._requeued, traced)

    def expired(self, queue: TracedQueue, message: Message) -> None:
        """A message expired."""
        if not _is_of_firehose(message):
            self._report(self._expired, queue, message)

    def delayed(self, queue: TracedQueue, message: Message, until_ms: int) -> None:
        """A returned message waits for its retry."""
        if not _is_of_firehose(message):
            self._report(self._delayed, queue, message, until_ms)

    def dropped(self, queue: TracedQueue, message: Message, reason: str) -> None:
        """A full queue dropped or refused a message, or its queue was deleted."""
        if not _is_of_firehose(message):
            self._report(self._dropped, queue, message, reason)

    def emptied(self, queue: TracedQueue, reason: str, count: int) -> None:
        """All ready messages of a queue were dropped."""
        self._report(self._emptied, queue, reason, count)

    def dead_lettered(
        self,
        queue: TracedQueue,
        message: Message,
        reason: str,
        letter: Message,
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
    ) -> None:
        """A dead-lettered message was published."""
        if not _is_of_firehose(message):
            self._report(self._dead_lettered, queue, message, reason, letter, routing_keys, queues)

    def returned(
        self,
        channel: TracedChannel,
        messages: Sequence[Message],
        code: int,
        text: str,
        reason: str = "",
    ) -> None:
        """Mandatory messages were returned to their publisher."""
        self._report(self._returned, channel, messages, code, text, reason)

    def connection_opened(self, connection: TracedConnection) -> None:
        """A client opened the vhost."""
        self._report(self._opened, connection)

    def connection_closed(self, connection: TracedConnection) -> None:
        """A connection that had opened the vhost has ended."""
        self._report(self._closed, connection)

    def stream_changed(self, event: StreamEvent) -> None:
        """Something happened in a stream."""
        self._report(self._stream_changed, event)


def _is_of_firehose(message: Message) -> bool:
    """Whether the message is a copy made by the firehose: its exchange is internal."""
    return message.address.exchange == TRACE_EXCHANGE


def _traced(settled: Settled) -> Settled:
    return [pair for pair in settled if not _is_of_firehose(pair[1].entry.message)]
