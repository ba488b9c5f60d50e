"""Tables made from the number of messages in each queue, second by second.

Depth is the running sum of messages that enter and leave. It is summed by second first, so that a
busy queue is spread over all workers; then over the seconds of a minute, then over minutes.
Messages from before the trace make the sum negative, and are added back. The view `levels` has the
depth after each second in which something happened; the tables are sums over it.

A queue is unattended while messages are ready and none is unacknowledged: a consumer with room
would get one, and a consumer without room holds some.
"""

from leveret.analytics.tables.engine import Engine

_SECOND_US, _MINUTE_US, _ACTIVITY_US = 1_000_000, 60_000_000, 10_000_000
UNATTENDED_US = 5_000_000
"""Shorter times without a consumer have no row."""

_CHANGES = f"""
    select vhost, queue, time_us - time_us % {_SECOND_US} as second_us, weight,
        case when event = 'reject' and requeue then 'requeue' else event end as event,
        event = 'reject' as is_reject, coalesce(redelivered, false) as redelivered,
        coalesce(count, weight) as messages, coalesce(no_ack, false) as no_ack,
        if(event = 'deliver', weight * body_size, 0) as bytes,
        if(event = 'deliver', body_size, 0) as size
    from events
    where event in ('deliver', 'ack', 'reject', 'requeue', 'expire', 'drop')
    union all
    select vhost, explode(queues), time_us - time_us % {_SECOND_US}, weight, 'come', false, false,
        weight, false, 0, 0
    from events where event in ('publish', 'dead_letter')
"""

SECONDS = f"""
    with changes as ({_CHANGES})
    select vhost, queue, second_us, second_us - second_us % {_MINUTE_US} as minute_us,
        sum(case when event in ('come', 'requeue') then messages
            when event in ('deliver', 'expire', 'drop') then -messages else 0 end) as ready,
        sum(case when event = 'deliver' and not no_ack then messages
            when event in ('ack', 'reject', 'requeue') then -messages else 0 end) as unacked,
        sum(if(event = 'come', messages, 0)) as came,
        sum(case when event in ('ack', 'reject', 'expire', 'drop') then messages
            when event = 'deliver' and no_ack then messages else 0 end) as gone,
        sum(if(event = 'deliver', messages, 0)) as delivered,
        sum(if(event = 'deliver' and redelivered, messages, 0)) as redelivered,
        sum(if(event = 'ack', messages, 0)) as acknowledged,
        sum(if(event = 'reject', messages, 0)) as rejected,
        sum(if(event = 'requeue', messages, 0)) as requeued,
        sum(if(event = 'requeue' and is_reject, messages, 0)) as sent_back,
        sum(if(event = 'expire', messages, 0)) as expired,
        sum(if(event = 'drop', messages, 0)) as dropped, sum(bytes) as bytes,
        max(size) as size_max
    from changes group by vhost, queue, second_us
"""
"""The view `seconds`: what happened to the messages of each queue, by second."""

_LEVELS = """
    with running as (
        select *, sum(ready) over so_far as ready_so_far, sum(unacked) over so_far as unacked_so_far
        from seconds
        window so_far as (partition by vhost, queue, minute_us order by second_us)
    ), minutes as (
        select vhost, queue, minute_us, sum(ready) as ready, sum(unacked) as unacked,
            min(ready_so_far) as ready_least, min(unacked_so_far) as unacked_least
        from running group by vhost, queue, minute_us
    ), sums as (
        select *, sum(ready) over so_far as ready_sum, sum(unacked) over so_far as unacked_sum
        from minutes window so_far as (partition by vhost, queue order by minute_us)
    ), based as (
        select vhost, queue, minute_us,
            ready_sum - ready - least(0, min(ready_sum - ready + ready_least) over whole)
                as ready_before,
            unacked_sum - unacked - least(0, min(unacked_sum - unacked + unacked_least) over whole)
                as unacked_before
        from sums window whole as (partition by vhost, queue)
    )
    select vhost, queue, second_us, ready_before + ready_so_far as ready,
        unacked_before + unacked_so_far as unacked, came, gone, delivered, redelivered,
        acknowledged, rejected, requeued, sent_back, expired, dropped, bytes, size_max
    from running join based using (vhost, queue, minute_us)
"""

DEPTH = f"""
    select to_date(timestamp_micros(minute_us)) as date,
        timestamp_micros(minute_us) as minute, vhost, queue,
        max_by(ready, second_us) as ready, max_by(unacked, second_us) as unacked,
        max(ready) as ready_max, max(unacked) as unacked_max, sum(came) as came,
        sum(gone) as `left`
    from (select *, second_us - second_us % {_MINUTE_US} as minute_us from levels) as of_minutes
    group by vhost, queue, minute_us
"""

WAITS = f"""
    select vhost, queue, end_us - end_us % {_ACTIVITY_US} as at_us, max(took) as wait_max_us
    from measured join queue_keys using (queue_key) where measure = 'wait' group by 1, 2, 3
"""
"""The view `waits`: the longest wait of a message first delivered in ten seconds."""

QUEUE_ACTIVITY = f"""
    with activity as (
        select vhost, queue, second_us - second_us % {_ACTIVITY_US} as at_us,
            max_by(ready, second_us) as ready, max_by(unacked, second_us) as unacked,
            max(ready) as ready_max, max(unacked) as unacked_max, sum(came) as came,
            sum(delivered) as delivered, sum(redelivered) as redelivered,
            sum(acknowledged) as acknowledged, sum(rejected) as rejected,
            sum(requeued) as requeued, sum(sent_back) as sent_back, sum(expired) as expired,
            sum(dropped) as dropped, sum(bytes) as bytes, max(size_max) as size_max
        from levels group by 1, 2, 3
    )
    select to_date(timestamp_micros(at_us)) as date, activity.*, wait_max_us
    from activity left join waits using (vhost, queue, at_us)
"""

UNATTENDED = f"""
    with states as (
        select *, delivered > 0 or unacked > 0 as is_attended from levels
        where delivered > 0 or unacked > 0 or ready > 0
    ), neighbours as (
        select *, lag(is_attended) over seconds as was_attended,
            lag(second_us) over seconds as before_us,
            lag(ready > 0 and unacked = 0) over seconds as was_left,
            lead(is_attended) over seconds as will_be_attended,
            lead(second_us) over seconds as next_us
        from states window seconds as (partition by vhost, queue order by second_us)
    ), numbered as (
        select *, sum(if(not is_attended and coalesce(was_attended, true), 1, 0))
            over (partition by vhost, queue order by second_us) as number
        from neighbours
    ), stretches as (
        select vhost, queue, number,
            min(if(was_left and was_attended, before_us, second_us)) as since_us,
            max(if(will_be_attended, next_us, null)) as until_us, max(second_us) as last_us,
            max(ready) as ready_max, max_by(ready, second_us) as ready_last, sum(came) as came
        from numbered where not is_attended group by vhost, queue, number
    )
    select to_date(timestamp_micros(since_us)) as date, vhost, queue, since_us, until_us, ready_max,
        ready_last, came
    from stretches where until_us is null or until_us - since_us >= {UNATTENDED_US}
"""

QUERIES = {"depth": DEPTH, "queue_activity": QUEUE_ACTIVITY, "unattended": UNATTENDED}
"""The tables, made from the views `levels` and `waits`."""


def stage_levels(engine: Engine) -> None:
    """Keep the depth after each second of the view `seconds` as the view `levels`."""
    engine.stage("levels", _LEVELS)
