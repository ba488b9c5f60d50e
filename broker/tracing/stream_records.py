"""Writes the events of streams as records of a trace log, one for each chunk.

A stream moves messages by the thousand, and they stay in it, so there are no records of single
deliveries, and no acknowledgements: these only make room. Only a message of AMQP 0-9-1, which has a
record of its publish, has one of its offset. The beginning of a record is made once for
each consumer, publisher or stream.
"""

from typing import Any, Final

from leveret.broker.events.stream_events import (
    ChunkCommitted,
    ChunkRead,
    MessagesPlaced,
    OffsetStored,
    ReadingEnded,
    RetentionMoved,
    StreamChunk,
    StreamEvent,
    StreamLimits,
    StreamPublished,
)
from leveret.broker.events.taps import Sink
from leveret.broker.events.traced import TracedChannel, TracedQueue
from leveret.broker.runtime.clock import Clock
from leveret.broker.tracing import record
from leveret.broker.tracing.log_blocks import BLOCK_BYTES, LogBlocks, LogOptions, event_start
from leveret.broker.tracing.pattern import TracePattern
from leveret.broker.tracing.shown import shown

STARTS_MAX: Final = 4096
"""Beginnings of records that are kept. When there are more, all are dropped."""
_AGE_MS_MAX: Final = 1 << 50


class StreamRecords(Sink):
    """The records of streams in the log of one vhost."""

    def __init__(
        self, blocks: LogBlocks, clock: Clock, pattern: TracePattern, options: LogOptions
    ) -> None:
        self._block = blocks.block
        self._batches = blocks.batches
        self._wall_time_s = clock.wall_time_s
        self._matches = pattern.matches
        self._options = options
        self._starts: dict[tuple[str, TracedChannel | None, TracedQueue, str], str] = {}

    def stream_changed(self, event: StreamEvent) -> None:
        """Write a record for an event."""
        if isinstance(event, ChunkRead):
            self._chunk_read(event)
        elif isinstance(event, ChunkCommitted):
            self._chunk_committed(event)
        elif isinstance(event, StreamPublished):
            self._published_to_stream(event)
        elif isinstance(event, MessagesPlaced):
            self._messages_placed(event)
        elif isinstance(event, ReadingEnded):
            # The consumer needs no beginning of records any longer.
            self._starts.pop((record.READ, event.channel, event.stream, event.consumer_tag), None)
            tag = shown(event.consumer_tag)
            self._say_of_stream(
                record.END_READING, event.stream, **who(event.channel), consumer_tag=tag
            )
        elif isinstance(event, OffsetStored):
            self._say_of_stream(
                record.STORE_OFFSET, event.stream, **who(event.channel),
                consumer_tag=shown(event.name), offset=event.offset,
            )  # fmt: skip
        elif isinstance(event, RetentionMoved):
            limits = event.limits
            self._say_of_stream(
                record.RETAIN, event.stream, first_offset=limits.first_offset,
                max_age_us=_microseconds(limits.age_max_ms), max_bytes=limits.bytes_max,
                segment_bytes=limits.segment_bytes,
            )  # fmt: skip

    def _published_to_stream(self, event: StreamPublished) -> None:
        """Write a record for the messages of a publish."""
        key = record.APPEND, event.channel, event.stream, event.publisher
        start = self._starts.get(key)
        if start is None:
            start = self._start(key, publisher=shown(event.publisher))
        if start:
            now = self._now()
            line = f'{start}{now},"messages":{event.messages},"body_size":{event.size}}}\n'
            self._block.happened(now, line.encode())

    def _messages_placed(self, event: MessagesPlaced) -> None:
        """Write a record for each message of the sample."""
        key = record.PLACE, None, event.stream, ""
        start = self._starts.get(key)
        if start is None:
            start = self._start(key)
        if start:
            now, sample = self._now(), self._options.sample
            for place, number in enumerate(event.numbers, event.offset):
                if is_sampled(number, sample):
                    line = f'{start}{now},"message":{number},"offset":{place}}}\n'
                    self._block.happened(now, line.encode())

    def _chunk_committed(self, event: ChunkCommitted) -> None:
        """Write a record for a chunk."""
        key = record.COMMIT, None, event.stream, ""
        start = self._starts.get(key)
        if start is None:
            start = self._start(key)
        if start:
            now = self._now()
            line = f"{start}{now}{_of_chunk(event.chunk)}{_of_limits(event.limits)}}}\n"
            self._block.happened(now, line.encode())

    def _chunk_read(self, event: ChunkRead) -> None:
        """Write a record for a chunk, or for the part of one that a consumer got."""
        key = record.READ, event.channel, event.stream, event.consumer_tag
        start = self._starts.get(key)
        if start is None:
            tag = shown(event.consumer_tag)
            start = self._start(key, consumer_tag=tag, filtered=event.is_filtered)
        if start:
            now = self._now()
            line = f'{start}{now}{_of_chunk(event.chunk)},"lag":{event.lag}}}\n'
            self._block.happened(now, line.encode())

    def _say_of_stream(self, event: str, stream: TracedQueue, **fields: Any) -> None:
        if self._matches(event, stream.name):
            self._say(event, queue=shown(stream.name), **fields)

    def _start(self, key: tuple[str, TracedChannel | None, TracedQueue, str], **more: Any) -> str:
        """The first text of a record; empty if the pattern excludes such records."""
        event, channel, stream, _ = key
        start = ""
        if self._matches(event, stream.name):
            known = {} if channel is None else who(channel)
            start = event_start(event, self._options, **known, queue=shown(stream.name), **more)
        if len(self._starts) >= STARTS_MAX:
            self._starts.clear()
        self._starts[key] = start
        return start

    def _say(self, event: str, **fields: Any) -> None:
        now = self._now()
        line = f"{event_start(event, self._options, **fields)}{now}}}\n"
        self._block.happened(now, line.encode())

    def _now(self) -> int:
        """The time of records that are added now."""
        now = int(self._wall_time_s() * 1_000_000)
        if now >= self._batches.turns_us or self._block.size >= BLOCK_BYTES:
            self._batches.turn(now)
        return now


def is_sampled(number: int, sample: int) -> bool:
    """Whether the log has the events of a message. sample: one in this number is in it."""
    return sample == 1 or (number != 0 and number % sample == 0)


def who(channel: TracedChannel | None) -> dict[str, Any]:
    """The fields of a record that tell whose client caused an event."""
    if channel is None:
        return {"connection": "", "channel": 0, "user": ""}
    connection = channel.connection
    return {
        "connection": shown(connection.name),
        "channel": channel.number,
        "user": shown(connection.user.name),
    }


def _of_chunk(chunk: StreamChunk) -> str:
    return (
        f',"offset":{chunk.offset},"messages":{chunk.messages},"body_size":{chunk.size}'
        f',"published_us":{chunk.time_ms * 1000}'
    )


def _of_limits(limits: StreamLimits) -> str:
    age_us, octets = _microseconds(limits.age_max_ms), limits.bytes_max
    return (
        f',"first_offset":{limits.first_offset}'
        f',"max_age_us":{"null" if age_us is None else age_us}'
        f',"max_bytes":{"null" if octets is None else octets}'
        f',"segment_bytes":{limits.segment_bytes}'
    )


def _microseconds(ms: int | None) -> int | None:
    """The limit of an age as logs show it; None if it is longer than any log."""
    return None if ms is None or ms > _AGE_MS_MAX else ms * 1000
