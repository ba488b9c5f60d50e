"""Writes publishes and deliveries of a vhost in the formats of RabbitMQ's tracing plugin.

There are two formats: text for people, and JSON objects with payloads in base64, for programs that
read the plugin's files. As with the plugin, a trace contains the events that the firehose would
copy, so it receives nothing while the firehose is off (`trace_off`).
"""

import base64
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_terms import table_term
from leveret.broker.amqp.properties import Properties
from leveret.broker.erlang.lines import format_lines
from leveret.broker.erlang.terms import Atom
from leveret.broker.events.taps import Sink
from leveret.broker.events.traced import TracedChannel, TracedQueue
from leveret.broker.runtime.clock import Clock
from leveret.broker.tracing.lines import TraceLines
from leveret.broker.tracing.pattern import TracePattern
from leveret.broker.tracing.routing_keys import routing_keys_of
from leveret.broker.tracing.shown import json_of, properties_shown, shown
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.messages.message import Entry, Message

TEXT, JSON = "text", "json"
LABEL_CHARACTERS = 14
RULE = "=" * 80


class Event(NamedTuple):
    """A publish or a delivery. queue: None for a publish. routed_queues: None for a delivery."""

    time_us: int
    node: str
    vhost: str
    connection: str
    user: str
    channel: int
    exchange: str
    queue: str | None
    routing_keys: list[str]
    routed_queues: list[str] | None
    properties: Properties
    payload: bytes


def time_text(time_us: int) -> str:
    """Format a time: `2026-11-21T05:07:56.663+00:00`."""
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).isoformat(timespec="milliseconds")


def as_text(event: Event) -> str:
    """Format an event as the plugin does for text."""
    kind = "published" if event.queue is None else "received"
    where = (
        f"Queue:        {event.queue}\n"
        if event.routed_queues is None
        else f"Routed queues: {format_lines(event.routed_queues, LABEL_CHARACTERS + 1)}\n"
    )
    return (
        f"\n{RULE}\n{time_text(event.time_us)}: Message {kind}\n\n"
        f"Node:         {event.node}\nConnection:   {event.connection}\n"
        f"Virtual host: {event.vhost}\nUser:         {event.user}\n"
        f"Channel:      {event.channel}\nExchange:     {event.exchange}\n"
        f"Routing keys: {format_lines(event.routing_keys, LABEL_CHARACTERS)}\n{where}"
        f"Properties:   {format_lines(properties_term(event.properties), LABEL_CHARACTERS)}\n"
        f"Payload: \n{event.payload.decode('utf-8', 'surrogateescape')}\n"
    )


def as_json(event: Event) -> str:
    """Format an event as the plugin does for JSON; keys are in alphabetical order, as there."""
    routed = event.routed_queues
    line = {
        "channel": event.channel,
        "connection": shown(event.connection),
        "exchange": shown(event.exchange),
        "node": event.node,
        "payload": base64.b64encode(event.payload).decode(),
        "properties": properties_shown(event.properties),
        "queue": "none" if event.queue is None else shown(event.queue),
        "routed_queues": "none" if routed is None else [shown(name) for name in routed],
        "routing_keys": [shown(key) for key in event.routing_keys],
        "timestamp": time_text(event.time_us),
        "type": "published" if event.queue is None else "received",
        "user": shown(event.user),
        "vhost": shown(event.vhost),
    }
    return f"{msgspec.json.encode(line, order='sorted').decode()}\n"


def properties_term(properties: Properties) -> list[Any]:
    """Return a message's properties in the order of the firehose: the last one first."""
    return [_property_term(name, value) for name, value in reversed(properties.items())]


def _property_term(name: str, value: Any) -> tuple[str, Atom, Any]:
    if isinstance(value, dict):
        return name, Atom("table"), table_term(value)
    return name, Atom("longstr" if isinstance(value, str) else "signedint"), value


FORMATS: dict[str, Callable[[Event], str]] = {TEXT: as_text, JSON: as_json}


def gap_as_text(began_us: int, ended_us: int, lost: int) -> str:
    """Return the text that replaces lost messages."""
    return f"\n{RULE}\n{time_text(began_us)}: {lost} messages lost until {time_text(ended_us)}\n"


def gap_as_json(began_us: int, ended_us: int, lost: int) -> str:
    """Return the JSON object that replaces lost messages."""
    gap = {
        "lost": lost, "timestamp": time_text(began_us), "type": "gap", "until": time_text(ended_us),
    }  # fmt: skip
    return json_of(gap) + "\n"


GAPS: dict[str, Callable[[int, int, int], str]] = {TEXT: gap_as_text, JSON: gap_as_json}


class PluginSink(Sink):
    """The trace of one vhost. payload_bytes_max: the part of a payload that is written; None for
    all.
    """

    def __init__(
        self,
        lines: TraceLines,
        clock: Clock,
        pattern: TracePattern,
        vhost: VirtualHost,
        node: str,
        format_name: str,
        payload_bytes_max: int | None,
    ) -> None:
        self._lines = lines
        self._clock = clock
        self._matches = pattern.matches
        self._vhost = vhost
        self._node = node
        self._formatted = FORMATS[format_name]
        self._payload_bytes_max = payload_bytes_max

    def __repr__(self) -> str:
        return f"the trace to {self._lines.batches.output.name}"

    @property
    def is_listening(self) -> bool:
        """Whether the firehose is on."""
        return self._vhost.is_traced

    def published(
        self,
        channel: TracedChannel | None,
        messages: Sequence[Message],
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
        reason: str = "",
    ) -> None:
        """Write a client's publishes."""
        if channel is None or not self._matches("publish", messages[0].address.exchange):
            return
        routed = [queue.name for queue in queues]
        for message in messages:
            self._write(channel, message, None, list(routing_keys), routed)

    def delivered(
        self,
        channel: TracedChannel,
        queue: TracedQueue,
        consumer_tag: str | None,
        entries: Sequence[Entry],
        first_tag: int,
        no_ack: bool,
    ) -> None:
        """Write a delivery to a client."""
        if not self._matches("deliver", queue.name):
            return
        for entry in entries:
            keys = routing_keys_of(entry.message)
            self._write(channel, entry.message, queue.name, keys, None)

    def detached(self) -> None:
        """Write the rest."""
        self._lines.batches.close()

    def _write(
        self,
        channel: TracedChannel,
        message: Message,
        queue: str | None,
        routing_keys: list[str],
        routed_queues: list[str] | None,
    ) -> None:
        header, connection = message.header, channel.connection
        assert isinstance(header, ContentHeader)
        time_us = int(self._clock.wall_time_s() * 1_000_000)
        payload = message.body[: self._payload_bytes_max]
        event = Event(
            time_us, self._node, self._vhost.name, connection.name, connection.user.name,
            channel.number, message.address.exchange, queue, routing_keys, routed_queues,
            header.properties, payload,
        )  # fmt: skip
        self._lines.add(time_us, self._formatted(event), len(payload))
