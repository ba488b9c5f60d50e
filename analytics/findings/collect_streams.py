"""Collects the figures of streams whose consumers are behind, or have lost messages.

Rows are those of the tables, or the last ones of longer steps (evidence.py).
"""

from typing import NamedTuple

from leveret.analytics.findings.evidence import (
    Evidence,
    ReaderStep,
    StreamReaderSteps,
    StreamSteps,
)
from leveret.analytics.findings.finding import Queue
from leveret.analytics.tables.engine import Engine, Row

READERS_MAX, ROWS_MAX = 200, 500_000
LAG_MIN = 10
"""Messages that a consumer lacks at the end of the trace, to be of interest."""

_READER = "vhost, queue, connection, channel, consumer_tag, user"
_STEP = "at_us - (at_us - begins_us) % step_us"

_BEHIND = f"""
    select {_READER}, ended_us, last_lag from (
        select {_READER}, max(ended_us) as ended_us, max_by(lag, at_us) as last_lag,
            max(lost) as most_lost, max(if(is_filtered, 1, 0)) as is_filtered
        from stream_consumers group by {_READER}
    ) as readers
    where is_filtered = 0 and (most_lost > 0 or (ended_us is null and last_lag >= {LAG_MIN}))
    order by last_lag desc, {_READER} limit {READERS_MAX}
"""
_READER_STEPS = f"""
    with rows as (
        select stream_consumers.*, first_offset, {_STEP} as step_at_us
        from stream_consumers join spans using (vhost)
            join (select vhost, queue, at_us, first_offset from stream_activity) as activity
                using (vhost, queue, at_us)
        semi join late_readers using ({_READER})
    )
    select {_READER}, step_at_us, sum(read_messages), max_by(next_offset, at_us),
        max_by(lag, at_us), max_by(lag_us, at_us), max_by(lost, at_us),
        coalesce(max_by(first_offset, at_us), 0), max(ended_us)
    from rows group by {_READER}, step_at_us order by {_READER}, step_at_us
"""
_STREAM_STEPS = f"""
    select vhost, queue, {_STEP} as step_at_us, sum(published), sum(bytes), max(end_offset),
        max_by(max_age_us, at_us), max_by(max_bytes, at_us), max(segment_bytes)
    from stream_activity join spans using (vhost)
        semi join (select distinct vhost, queue from late_readers) as late using (vhost, queue)
    group by 1, 2, 3 order by 1, 2, 3
"""
_STORED = """
    select vhost, queue, name, user, max_by(stored_offset, at_us)
    from stream_offsets semi join (select distinct vhost, queue from late_readers) as late
        using (vhost, queue)
    group by 1, 2, 3, 4 order by 1, 2, 3, 4
"""


class LastStoredOffset(NamedTuple):
    """The last offset that was stored under a name."""

    name: str
    user: str
    offset: int


def collect_streams(engine: Engine, found: Evidence) -> None:
    """Add the figures. The view `spans` has the steps of each virtual host."""
    engine.view("late_readers", _BEHIND)
    for vhost, name, at_us, published, size, end, age_us, octets, segment in _rows(
        engine, _STREAM_STEPS
    ):
        stream = found.streams.setdefault(Queue(vhost, name), StreamSteps())
        stream.ends[at_us], stream.messages[at_us] = end or 0, published or 0
        stream.bytes[at_us] = size or 0
        if segment is not None:
            stream.age_max_us, stream.bytes_max, stream.segment_bytes = age_us, octets, segment
    stored: dict[Queue, list[LastStoredOffset]] = {}
    for vhost, name, *one in _rows(engine, _STORED):
        stored.setdefault(Queue(vhost, name), []).append(LastStoredOffset(*one))
    readers: dict[Row, StreamReaderSteps] = {}
    for row in _rows(engine, _READER_STEPS):
        vhost, name, connection, _, tag, _, *step, ended_us = row
        reader = readers.get(row[:6])
        if reader is None:
            reader = StreamReaderSteps(Queue(vhost, name), connection, tag, ended_us is not None)
            readers[row[:6]] = reader
        reader.steps.append(ReaderStep(*step))
    for (*_, user), reader in readers.items():
        _name(reader, user, stored.get(reader.queue, []))
    found.stream_readers = list(readers.values())


def _rows(engine: Engine, query: str) -> list[Row]:
    return engine.rows(f"{query} limit :limit", {"limit": ROWS_MAX})


def _name(reader: StreamReaderSteps, user: str, stored: list[LastStoredOffset]) -> None:
    """Find the name under which a consumer stores its offset: clients may use other connections.

    It is the only one of the consumer's user that is where the consumer has been.
    """
    begun, end = reader.steps[0].next_offset - reader.steps[0].read, reader.steps[-1].next_offset
    own = [one for one in stored if one.name == reader.name] or [
        one for one in stored if one.user == user and begun <= one.offset < end
    ]
    if len(own) == 1:
        reader.name, reader.stored_offset = own[0].name, own[0].offset
