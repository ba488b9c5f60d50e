"""Tables of streams: what is published and kept, and how far each consumer is behind.

Records of streams are about chunks. They are summed up in steps of ten seconds, and of the offsets
in a step the highest counts: a stream, and a consumer that reads it, go forwards.

    streams     the end of a stream after each step, and its first offset
    readers     where each consumer is after each step of its stream, while it reads

A consumer is behind by the messages between its offset and the end. The time by which it is behind
is the age of the first message that it has not read: that was published after the last one that it
read, and in the step in which the stream came to have more than the consumer has read.
"""

from leveret.analytics.tables.engine import Engine

_STEP_US = 10_000_000
_NEVER = "9000000000000000000"

STREAM_STEPS = f"""
    select vhost, queue, event, coalesce(connection, '') as connection,
        coalesce(channel, 0) as channel, coalesce(consumer_tag, '') as consumer_tag,
        time_us - time_us % {_STEP_US} as at_us, coalesce(user, '') as user,
        sum(if(event = 'store_offset', 1, coalesce(messages, 0))) as messages,
        sum(coalesce(body_size, 0)) as bytes, min(time_us) as first_us, max(time_us) as last_us,
        max(`offset` + coalesce(messages, 0)) as next_offset,
        max(`offset` + messages + coalesce(lag, 0)) as end_offset,
        max(first_offset) as first_offset, max(published_us) as published_us,
        max(if(filtered, 1, 0)) as is_filtered,
        max(max_age_us) as max_age_us, max(max_bytes) as max_bytes,
        max(segment_bytes) as segment_bytes
    from events where event in ('commit', 'read', 'end_reading', 'store_offset', 'retain')
    group by 1, 2, 3, 4, 5, 6, 7, 8
"""
"""The view `stream_steps`: the records of streams, by ten seconds, event and client."""

_STREAMS = """
    with steps as (
        select vhost, queue, at_us, sum(if(event = 'commit', messages, 0)) as committed,
            sum(if(event = 'commit', bytes, 0)) as bytes,
            sum(if(event = 'read', messages, 0)) as read_messages,
            max(if(event = 'retain', null, end_offset)) as end_offset,
            max(first_offset) as first_offset, max(max_age_us) as max_age_us,
            max(max_bytes) as max_bytes, max(segment_bytes) as segment_bytes,
            max(last_us) as last_us
        from stream_steps where event in ('commit', 'read', 'retain') group by 1, 2, 3
    ), running as (
        select vhost, queue, at_us, committed, bytes, read_messages, max_age_us, max_bytes,
            segment_bytes, last_us, max(end_offset) over so_far as end_offset,
            max(first_offset) over so_far as first_offset,
            min(at_us) over (partition by vhost, queue) as first_step_us
        from steps window so_far as (partition by vhost, queue order by at_us)
    )
    select *, end_offset - coalesce(
        lag(end_offset) over (partition by vhost, queue order by at_us), end_offset - committed
    ) as published
    from running
"""
"""The view `streams`."""

_READER = "vhost, queue, connection, channel, consumer_tag, user"

_READERS = f"""
    with ends as (
        select vhost, queue, connection, channel, consumer_tag, max(last_us) as ended_us
        from stream_steps where event = 'end_reading' group by 1, 2, 3, 4, 5
    ), closed as (
        select vhost, connection, max(last_us) as closed_us from flows where event = 'close'
        group by 1, 2
    ), spans as (
        select {_READER}, min(at_us) as since_us, max(last_us) as last_read_us,
            max(is_filtered) as is_filtered
        from stream_steps where event = 'read'
        group by {_READER}
    ), known as (
        select spans.*, if(coalesce(ended_us, closed_us) >= last_read_us,
            coalesce(ended_us, closed_us), null) as ended_us
        from spans left join ends using (vhost, queue, connection, channel, consumer_tag)
            left join closed using (vhost, connection)
    ), read as (
        select {_READER}, at_us, messages, bytes, last_us as read_us, next_offset, published_us
        from stream_steps where event = 'read'
    ), steps as (
        select known.*, at_us, end_offset, first_offset, first_step_us, last_us
        from known join streams using (vhost, queue)
        where at_us >= since_us and at_us <= coalesce(ended_us, {_NEVER})
    ), filled as (
        select steps.*, messages, bytes, read_us, next_offset, published_us,
            count(next_offset) over (partition by {_READER} order by at_us) as reads
        from steps left join read using ({_READER}, at_us)
    )
    select {_READER}, at_us, is_filtered, ended_us, end_offset, first_offset, first_step_us,
        greatest(last_us, coalesce(read_us, last_us)) as last_us,
        coalesce(messages, 0) as messages, coalesce(bytes, 0) as bytes,
        max(next_offset) over of_last as next_offset,
        max(published_us) over of_last as published_us
    from filled window of_last as (partition by {_READER}, reads)
"""
"""The view `readers`. A step without a read has the offset of the last step with one."""

_BEHIND = """
    with marks as (
        select vhost, queue, end_offset as place, at_us, 0 as is_reader from streams
        union all
        select distinct vhost, queue, next_offset, cast(null as bigint), 1 from readers
    ), behind as (
        select vhost, queue, place, is_reader, min(at_us) over (
            partition by vhost, queue order by place desc, is_reader desc
            rows between unbounded preceding and current row
        ) as behind_us
        from marks
    )
    select vhost, queue, place as next_offset, behind_us from behind where is_reader = 1
"""
"""The view `behind`: the step in which a stream came to have more than a reader has read."""

STREAM_ACTIVITY = """
    select to_date(timestamp_micros(at_us)) as date, at_us, vhost, queue, published, bytes,
        read_messages, end_offset, first_offset, max_age_us, max_bytes, segment_bytes
    from streams
"""

STREAM_CONSUMERS = """
    select to_date(timestamp_micros(at_us)) as date, at_us, vhost, queue, connection, channel,
        consumer_tag, user, messages as read_messages, bytes, next_offset,
        greatest(0, end_offset - next_offset) as lag,
        case when end_offset <= next_offset then 0
            when behind_us = first_step_us
                then greatest(0, last_us - coalesce(published_us, behind_us))
            else greatest(0, last_us - greatest(behind_us, coalesce(published_us, 0)))
            end as lag_us,
        greatest(0, first_offset - next_offset) as lost, is_filtered = 1 as is_filtered, ended_us
    from readers left join behind using (vhost, queue, next_offset)
"""

STREAM_OFFSETS = """
    select to_date(timestamp_micros(at_us)) as date, at_us, vhost, queue, consumer_tag as name,
        user, connection, messages as times, next_offset as stored_offset
    from stream_steps where event = 'store_offset'
"""

QUERIES = {
    "stream_activity": STREAM_ACTIVITY, "stream_consumers": STREAM_CONSUMERS,
    "stream_offsets": STREAM_OFFSETS,
}  # fmt: skip
"""The tables, made from the view `stream_steps` and those of `stage_streams`."""


def stage_streams(engine: Engine) -> None:
    """Make the views of the view `stream_steps`."""
    engine.stage("streams", _STREAMS)
    engine.stage("readers", _READERS)
    engine.view("behind", _BEHIND)
