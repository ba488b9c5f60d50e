"""Writes the events of a vhost as records of a trace log (record.py).

Records are built on the message path, so each is joined from a few pieces of text:

    {"event":"deliver",...,"queue":"q","time_us":  1700000000000000,"message":7  ,"exchange":...}
    shared by all of a consumer                    of this record                shared by messages

The first piece is cached for each channel, consumer and queue, the last for each address and
header, since most messages of a publisher have the same. With bodies, each record has its own.

One message in `sample` is in the log, chosen by its number, so all its events are in the log or
none. Messages from before the trace began have no number and are not in a sample.
"""

import base64
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.clock import Clock
from leveret.broker.events.taps import Settled, Sink, TracedChannel, TracedConnection, TracedQueue
from leveret.broker.tracing import record
from leveret.broker.tracing.json_text import json_of, properties_shown, routing_keys_of, shown
from leveret.broker.tracing.lines import LINES_MAX, Lines
from leveret.broker.tracing.pattern import Pattern
from leveret.storage.message import Address, Entry, Header, Message

PIECES_MAX = 4096
"""Pieces of each kind that are cached; a full cache is cleared."""
CLOSED_MAX = 64
"""Closed connections whose pieces may still be cached."""

Key = TypeVar("Key")
Piece = TypeVar("Piece")


class Kind(NamedTuple):
    """What a channel published last, with the two outer pieces of its records."""

    address: Address
    header: Header
    queues: list[TracedQueue]
    start: str
    about: str


class LogOptions(NamedTuple):
    """The contents of a vhost's log.

    sample: one message in this number is logged. has_bodies: whether records have bodies.
    body_bytes_max: the part of each body that is logged; None for all.
    """

    node: str
    vhost: str
    sample: int = 1
    has_bodies: bool = False
    body_bytes_max: int | None = None


def event_start(event: str, options: LogOptions, **more: Any) -> str:
    """Return the first piece of a record, up to its time."""
    known = {"event": event, "node": options.node, "vhost": shown(options.vhost), **more}
    return f'{json_of(known)[:-1]},"time_us":'


def header_line(options: LogOptions, time_us: int) -> str:
    """Return the first line of a file."""
    start = event_start(record.HEADER, options, version=record.VERSION, sample=options.sample)
    return f"{start}{time_us}}}\n"


def gap_line(options: LogOptions, began_us: int, ended_us: int, lost: int) -> str:
    """Return the record that replaces lost records."""
    start = event_start(record.GAP, options)
    return f'{start}{began_us},"until_us":{ended_us},"lost":{lost}}}\n'


class LogSink(Sink):
    """The log of one vhost."""

    def __init__(self, lines: Lines, clock: Clock, pattern: Pattern, options: LogOptions) -> None:
        self._lines = lines
        self._wall_time_s = clock.wall_time_s
        self._matches = pattern.matches
        self._options = options
        self._sample = options.sample
        self._has_bodies = options.has_bodies
        self._closed = 0
        self._published: dict[TracedChannel | None, Kind] = {}
        self._delivered: dict[tuple[TracedChannel, TracedQueue, str | None, bool], str] = {}
        self._acked: dict[tuple[TracedChannel, TracedQueue], str] = {}
        self._about: dict[tuple[Address, Header], str] = {}

    def __repr__(self) -> str:
        return f"<the trace log of vhost {self._options.vhost!r}>"

    def detached(self) -> None:
        """Write the rest."""
        self._lines.close()

    # Events of many messages

    def published(
        self,
        channel: TracedChannel | None,
        messages: Sequence[Message],
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
    ) -> None:
        """Write a record for each message."""
        for _, equal in groupby(messages, _identity_of_header):
            self._published_equal(channel, list(equal), routing_keys, queues)

    def _published_equal(
        self,
        channel: TracedChannel | None,
        messages: Sequence[Message],
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
    ) -> None:
        """Write records of messages with the same header."""
        first = messages[0]
        last = self._published.get(channel)
        if (
            last is None
            or last.address is not first.address
            or last.header is not first.header
            or last.queues != queues
        ):
            last = self._new_kind(channel, first, routing_keys, queues)
        _, _, _, start, about = last
        if not start:
            return
        sample, lines = self._sample, self._lines
        now = int(self._wall_time_s() * 1_000_000)
        if now >= lines.turns_us or len(lines.pending) >= LINES_MAX:
            lines.turn(now)
        start = f'{start}{now},"message":'
        add = lines.pending.append
        for message in messages:
            number = message.number
            if sample == 1 or _is_sampled(number, sample):
                end = self._with_body(message, about) if self._has_bodies else about
                add(f'{start}{number},"body_size":{len(message.body)}{end}')

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
        if not start:
            return
        sample, lines = self._sample, self._lines
        now = int(self._wall_time_s() * 1_000_000)
        if now >= lines.turns_us or len(lines.pending) >= LINES_MAX:
            lines.turn(now)
        start = f'{start}{now},"message":'
        add = lines.pending.append
        address, header, about = None, None, ""
        for tag, entry in enumerate(entries, first_tag):
            message = entry.message
            number = message.number
            if sample != 1 and not _is_sampled(number, sample):
                continue
            if message.header is not header or message.address is not address:
                address, header = message.address, message.header
                about = self._about.get((address, header)) or self._new_about(message)
            end = self._with_body(message, about) if self._has_bodies else about
            redelivered = "true" if entry.redelivered else "false"
            add(
                f'{start}{number},"delivery_tag":{tag},"redelivered":{redelivered}'
                f',"body_size":{len(message.body)}{end}'
            )

    def acked(self, channel: TracedChannel, settled: Settled) -> None:
        """Write a record for each delivery."""
        sample, lines, starts = self._sample, self._lines, self._acked
        now = int(self._wall_time_s() * 1_000_000)
        if now >= lines.turns_us or len(lines.pending) >= LINES_MAX:
            lines.turn(now)
        for tag, delivery in settled:
            queue = delivery.queue
            number = delivery.entry.message.number
            start = starts.get((channel, queue))
            if start is None:
                start = self._ack_start(channel, queue)
            if start and (sample == 1 or _is_sampled(number, sample)):
                lines.pending.append(f'{start}{now},"message":{number},"delivery_tag":{tag}}}\n')

    def rejected(self, channel: TracedChannel, settled: Settled, requeue: bool) -> None:
        """Write a record for each delivery."""
        for tag, delivery in settled:
            more = {**_who(channel), "delivery_tag": tag, "requeue": requeue}
            self._happened(record.REJECT, delivery.queue, delivery.entry.message, more)

    # Events of single messages

    def requeued(self, settled: Settled) -> None:
        """Write a record for each delivery."""
        for _, delivery in settled:
            self._happened(record.REQUEUE, delivery.queue, delivery.entry.message)

    def expired(self, queue: TracedQueue, message: Message) -> None:
        """Write a record."""
        self._happened(record.EXPIRE, queue, message)

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
            "queues": [shown(target.name) for target in queues],
        }
        self._happened(record.DEAD_LETTER, queue, message, more, letter)

    def returned(
        self, channel: TracedChannel, messages: Sequence[Message], code: int, text: str
    ) -> None:
        """Write a record for each message."""
        address = messages[0].address
        if not self._matches(record.RETURN, address.exchange):
            return
        more = {
            "exchange": shown(address.exchange), "routing_keys": [shown(address.routing_key)],
            "reply_code": code, "reply_text": text,
        }  # fmt: skip
        for message in messages:
            if _is_sampled(message.number, self._sample):
                self._say(record.RETURN, **_who(channel), message=message.number, **more)

    def _happened(
        self,
        event: str,
        queue: TracedQueue,
        message: Message,
        more: dict[str, Any] | None = None,
        letter: Message | None = None,
    ) -> None:
        is_sampled = _is_sampled(message.number, self._sample) or (
            letter is not None and _is_sampled(letter.number, self._sample)
        )
        if is_sampled and self._matches(event, queue.name):
            self._say(event, queue=shown(queue.name), message=message.number, **(more or {}))

    def _say(self, event: str, **fields: Any) -> None:
        now = int(self._wall_time_s() * 1_000_000)
        self._lines.add(now, f"{event_start(event, self._options, **fields)}{now}}}\n")

    # Connections

    def connection_opened(self, connection: TracedConnection) -> None:
        """Write a record."""
        self._say_of(connection, record.OPEN)

    def connection_closed(self, connection: TracedConnection) -> None:
        """Write a record. From time to time, remove the cached pieces of closed connections."""
        self._say_of(connection, record.CLOSE)
        self._closed += 1
        if self._closed % CLOSED_MAX == 0:
            self._published.clear()
            self._delivered.clear()
            self._acked.clear()

    def _say_of(self, connection: TracedConnection, event: str) -> None:
        if self._matches(event, ""):
            self._say(
                event, connection=shown(connection.name), channel=0,
                user=shown(connection.user.name),
            )  # fmt: skip

    # Pieces of records; an empty first piece means that the pattern excludes such records

    def _new_kind(
        self,
        channel: TracedChannel | None,
        first: Message,
        routing_keys: Sequence[str],
        queues: Sequence[TracedQueue],
    ) -> "Kind":
        start = ""
        if self._matches(record.PUBLISH, first.address.exchange):
            names = [shown(queue.name) for queue in queues]
            start = event_start(record.PUBLISH, self._options, **_who(channel), queues=names)
        about = self._about.get((first.address, first.header))
        if about is None:
            about = self._new_about(first, routing_keys)
        kind = Kind(first.address, first.header, list(queues), start, about)
        return _keep(self._published, channel, kind)

    def _deliver_start(
        self, channel: TracedChannel, queue: TracedQueue, tag: str | None, no_ack: bool
    ) -> str:
        start = ""
        if self._matches(record.DELIVER, queue.name):
            start = event_start(
                record.DELIVER, self._options, **_who(channel), queue=shown(queue.name),
                consumer_tag=None if tag is None else shown(tag), no_ack=no_ack,
            )  # fmt: skip
        return _keep(self._delivered, (channel, queue, tag, no_ack), start)

    def _ack_start(self, channel: TracedChannel, queue: TracedQueue) -> str:
        start = ""
        if self._matches(record.ACK, queue.name):
            start = event_start(record.ACK, self._options, **_who(channel), queue=shown(queue.name))
        return _keep(self._acked, (channel, queue), start)

    def _new_about(self, message: Message, routing_keys: Sequence[str] = ()) -> str:
        """Return the last piece of a record: the address and properties of its message.

        routing_keys: taken from the message if empty.
        """
        address, header = message.address, message.header
        assert isinstance(header, ContentHeader)
        keys = routing_keys or routing_keys_of(message)
        more = {
            "exchange": shown(address.exchange),
            "routing_keys": [shown(key) for key in keys],
            "properties": properties_shown(header.properties),
        }
        return _keep(self._about, (address, header), f",{json_of(more)[1:]}\n")

    def _with_body(self, message: Message, about: str) -> str:
        body = message.body[: self._options.body_bytes_max]
        self._lines.added_body(len(body))
        return f'{about[:-2]},"body":"{base64.b64encode(body).decode()}"}}\n'


def _keep(pieces: dict[Key, Piece], key: Key, piece: Piece) -> Piece:
    if len(pieces) >= PIECES_MAX:
        pieces.clear()
    pieces[key] = piece
    return piece


def _is_sampled(number: int, sample: int) -> bool:
    return sample == 1 or (number != 0 and number % sample == 0)


def _who(channel: TracedChannel | None) -> dict[str, Any]:
    if channel is None:
        return {"connection": "", "channel": 0, "user": ""}
    connection = channel.connection
    return {
        "connection": shown(connection.name),
        "channel": channel.number,
        "user": shown(connection.user.name),
    }


def _identity_of_header(message: Message) -> int:
    return id(message.header)
