"""Who is told what happens in which vhost: the tracer of each traced vhost, and its sinks.

A vhost has a `Tracer` while a sink listens to it, a trace to files, or the firehose with something
bound to its exchange, and none otherwise: then it costs what a vhost costs that is not traced. The
tracer passes on what the taps tell (broker/taps.py), each event to those sinks that override its
method. A sink that fails is logged and told no more: tracing must not hurt what it looks at. What
goes through the exchange of the firehose is told to nobody.

The tracer also numbers the messages of its vhost as they are published. Numbers are the node's: one
row for all vhosts, for as long as it lives. The first one after a start is the time, in units of
1/2^32 s, so no restart gives out a number twice, unless the clock was set back.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from broker.taps import (
    TRACE_EXCHANGE,
    Settled,
    Sink,
    Taps,
    TracedChannel,
    TracedConnection,
    TracedQueue,
)
from broker.tracing.firehose import Firehose
from broker.vhost import VirtualHost
from storage.message import Entry, Message

SECOND_BITS = 32
"""Numbers that are there for each second: more than any node publishes."""

logger = logging.getLogger("leveret.tracing")

Told = tuple[Callable[..., object], ...]


class MessageNumbers:
    """The row of a node's message numbers. next: the one that is given out next."""

    __slots__ = ("next",)

    def __init__(self, wall_time_s: float) -> None:
        self.next = int(wall_time_s * (1 << SECOND_BITS))

    def take(self, count: int) -> int:
        """The first of so many."""
        first = self.next
        self.next = first + count
        return first


class Tracing:
    """The traces of a node: which sinks there are for each vhost."""

    def __init__(self, wall_time_s: float, node: str) -> None:
        """wall_time_s: now, in seconds since 1970. node: the node's name."""
        self._numbers = MessageNumbers(wall_time_s)
        self._node = node
        self._sinks: dict[VirtualHost, tuple[Sink, ...]] = {}

    def set_firehose(self, vhost: VirtualHost, is_on: bool) -> None:
        """Copy what happens in a vhost to its trace exchange, or do so no more."""
        found = [sink for sink in self.sinks(vhost) if isinstance(sink, Firehose)]
        vhost.is_traced = is_on
        self._choose_tracer(vhost)
        if is_on and not found:
            self.attach(vhost, Firehose(vhost, self._node))
        elif found and not is_on:
            self.detach(vhost, found[0])

    def attach(self, vhost: VirtualHost, sink: Sink) -> None:
        """Tell a sink from now on what happens in a vhost. It is not attached yet."""
        self._set_sinks(vhost, [*self.sinks(vhost), sink])

    def detach(self, vhost: VirtualHost, sink: Sink) -> None:
        """Tell a sink no more, if it still is told."""
        kept = [other for other in self.sinks(vhost) if other is not sink]
        if len(kept) < len(self.sinks(vhost)):
            self._set_sinks(vhost, kept)
            sink.detached()

    def forget_vhost(self, vhost: VirtualHost) -> None:
        """The vhost is deleted, and its sinks are told no more."""
        for sink in self.sinks(vhost):
            self.detach(vhost, sink)
        vhost.is_traced = False

    def stop(self) -> None:
        """The node ends, and all sinks are told no more."""
        for vhost in tuple(self._sinks):
            self.forget_vhost(vhost)

    def sinks(self, vhost: VirtualHost) -> tuple[Sink, ...]:
        """The sinks of a vhost, in the order in which they are told, if they listen."""
        return self._sinks.get(vhost, ())

    def _set_sinks(self, vhost: VirtualHost, sinks: Sequence[Sink]) -> None:
        if sinks:
            self._sinks[vhost] = tuple(sinks)
            vhost.routes_listener = lambda: self._choose_tracer(vhost)
        else:
            self._sinks.pop(vhost, None)
            vhost.routes_listener = None
        self._choose_tracer(vhost)

    def _choose_tracer(self, vhost: VirtualHost) -> None:
        """Have those sinks told that listen now."""
        listening = tuple(sink for sink in self.sinks(vhost) if sink.is_listening)
        told = vhost.tracer.sinks if isinstance(vhost.tracer, Tracer) else ()
        if not listening:
            vhost.tracer = None
        elif listening != told:
            vhost.tracer = Tracer(self._numbers, listening, lambda sink: self.detach(vhost, sink))


class Tracer(Taps):
    """The tracer of one vhost. It never changes: another set of sinks has another tracer.

    failed: called with a sink that raised something.
    """

    __slots__ = (
        "_acked", "_closed", "_dead_lettered", "_delivered", "_dropped", "_emptied", "_expired",
        "_failed", "_numbers", "_opened", "_published", "_rejected", "_requeued", "_returned",
        "sinks",
    )  # fmt: skip

    def __init__(
        self, numbers: MessageNumbers, sinks: Sequence[Sink], failed: Callable[[Sink], object]
    ) -> None:
        self.sinks = tuple(sinks)
        self._numbers = numbers
        self._failed = failed
        self._published = self._those_with("published")
        self._delivered = self._those_with("delivered")
        self._acked = self._those_with("acked")
        self._rejected = self._those_with("rejected")
        self._requeued = self._those_with("requeued")
        self._expired = self._those_with("expired")
        self._dropped = self._those_with("dropped")
        self._emptied = self._those_with("emptied")
        self._dead_lettered = self._those_with("dead_lettered")
        self._returned = self._those_with("returned")
        self._opened = self._those_with("connection_opened")
        self._closed = self._those_with("connection_closed")

    def _those_with(self, name: str) -> Told:
        return tuple(
            getattr(sink, name)
            for sink in self.sinks
            if getattr(type(sink), name) is not getattr(Sink, name)
        )

    def _tell(self, told: Told, *event: Any) -> None:
        for tell in told:
            try:
                tell(*event)
            except Exception:
                self._has_failed(tell)

    def _has_failed(self, tell: Callable[..., object]) -> None:
        sink = tell.__self__  # type: ignore[attr-defined]
        logger.exception("tracing to %r has failed, and ends", sink)
        self._failed(sink)

    def take_numbers(self, count: int) -> int:
        """See `MessageNumbers`."""
        return self._numbers.take(count)

    # What is told; see `Sink`. The three that come with each message do what `_tell` does by
    # themselves, and look at numbers: calls of functions are most of what a tracer costs.

    def published(
        self,
        channel: TracedChannel | None,
        messages: Sequence[Message],
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
    ) -> None:
        """Messages were published."""
        if not messages[0].number and _is_of_firehose(messages[0]):
            return
        for tell in self._published:
            try:
                tell(channel, messages, routing_keys, queues)
            except Exception:
                self._has_failed(tell)

    def delivered(
        self,
        channel: TracedChannel,
        queue: TracedQueue,
        consumer_tag: str | None,
        entries: Sequence[Entry],
        first_tag: int,
        no_ack: bool,
    ) -> None:
        """A client was given messages."""
        told = self._delivered
        if not told:
            return
        for entry in entries:
            if not entry.message.number and _is_of_firehose(entry.message):
                self._delivered_in_part(channel, queue, consumer_tag, entries, first_tag, no_ack)
                return
        for tell in told:
            try:
                tell(channel, queue, consumer_tag, entries, first_tag, no_ack)
            except Exception:
                self._has_failed(tell)

    def _delivered_in_part(
        self,
        channel: TracedChannel,
        queue: TracedQueue,
        consumer_tag: str | None,
        entries: Sequence[Entry],
        first_tag: int,
        no_ack: bool,
    ) -> None:
        """Some of the entries are copies of the firehose."""
        for tag, entry in enumerate(entries, first_tag):
            if not _is_of_firehose(entry.message):
                self._tell(self._delivered, channel, queue, consumer_tag, [entry], tag, no_ack)

    def acked(self, channel: TracedChannel, settled: Settled) -> None:
        """A client acknowledged deliveries."""
        told = self._acked
        if not told:
            return
        for _, delivery in settled:
            if not delivery.entry.message.number:
                settled = _traced(settled)
                break
        for tell in told if settled else ():
            try:
                tell(channel, settled)
            except Exception:
                self._has_failed(tell)

    def rejected(self, channel: TracedChannel, settled: Settled, requeue: bool) -> None:
        """A client refused deliveries."""
        if self._rejected and (traced := _traced(settled)):
            self._tell(self._rejected, channel, traced, requeue)

    def requeued(self, settled: Settled) -> None:
        """Deliveries go back to their queues."""
        if self._requeued and (traced := _traced(settled)):
            self._tell(self._requeued, traced)

    def expired(self, queue: TracedQueue, message: Message) -> None:
        """A message's time was over."""
        if not _is_of_firehose(message):
            self._tell(self._expired, queue, message)

    def dropped(self, queue: TracedQueue, message: Message, reason: str) -> None:
        """A queue was full, or is no more."""
        if not _is_of_firehose(message):
            self._tell(self._dropped, queue, message, reason)

    def emptied(self, queue: TracedQueue, reason: str, count: int) -> None:
        """Ready messages went all at once."""
        self._tell(self._emptied, queue, reason, count)

    def dead_lettered(
        self,
        queue: TracedQueue,
        message: Message,
        reason: str,
        letter: Message,
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
    ) -> None:
        """A message that died in a queue goes on."""
        if not _is_of_firehose(message):
            self._tell(self._dead_lettered, queue, message, reason, letter, routing_keys, queues)

    def returned(
        self, channel: TracedChannel, messages: Sequence[Message], code: int, text: str
    ) -> None:
        """Mandatory messages go back to their publisher."""
        self._tell(self._returned, channel, messages, code, text)

    def connection_opened(self, connection: TracedConnection) -> None:
        """A client opened the vhost."""
        self._tell(self._opened, connection)

    def connection_closed(self, connection: TracedConnection) -> None:
        """A client that had opened the vhost is gone."""
        self._tell(self._closed, connection)


def _is_of_firehose(message: Message) -> bool:
    """Only what is not numbered can be: the firehose's own messages are not."""
    return not message.number and message.address.exchange == TRACE_EXCHANGE


def _traced(settled: Settled) -> Settled:
    return [pair for pair in settled if not _is_of_firehose(pair[1].entry.message)]
