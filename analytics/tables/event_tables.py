"""Tables that need single records: depth, sizes, duplicates and gaps.

Depth is the running sum of messages that enter and leave. It is summed by second first, so that a
busy queue is spread over all workers; then over the seconds of a minute, for the minute's peaks;
then over minutes. Messages from before the trace make the sum negative, and are added back.
"""

from leveret.analytics.tables.buckets import UP_TO

_SECOND_US, _MINUTE_US = 1_000_000, 60_000_000

_CHANGES = f"""
    select vhost, queue, time_us - time_us % {_SECOND_US} as second_us, weight,
        case when event = 'reject' and requeue then 'requeue' else event end as event,
        coalesce(count, weight) as messages, coalesce(no_ack, false) as no_ack
    from events
    where event in ('deliver', 'ack', 'reject', 'requeue', 'expire', 'drop')
    union all
    select vhost, explode(queues), time_us - time_us % {_SECOND_US}, weight, 'come', weight, false
    from events where event in ('publish', 'dead_letter')
"""

DEPTH = f"""
    with changes as ({_CHANGES}), seconds as (
        select vhost, queue, second_us, second_us - second_us % {_MINUTE_US} as minute_us,
            sum(case when event in ('come', 'requeue') then messages
                when event in ('deliver', 'expire', 'drop') then -messages else 0 end) as ready,
            sum(case when event = 'deliver' and not no_ack then messages
                when event in ('ack', 'reject', 'requeue') then -messages else 0 end) as unacked,
            sum(if(event = 'come', messages, 0)) as came,
            sum(case when event in ('ack', 'reject', 'expire', 'drop') then messages
                when event = 'deliver' and no_ack then messages else 0 end) as gone
        from changes group by vhost, queue, second_us
    ), running as (
        select *, sum(ready) over so_far as ready_so_far, sum(unacked) over so_far as unacked_so_far
        from seconds
        window so_far as (partition by vhost, queue, minute_us order by second_us)
    ), minutes as (
        select vhost, queue, minute_us, sum(ready) as ready, sum(unacked) as unacked,
            sum(came) as came, sum(gone) as gone,
            max(ready_so_far) as ready_most, max(unacked_so_far) as unacked_most,
            min(ready_so_far) as ready_least, min(unacked_so_far) as unacked_least
        from running group by vhost, queue, minute_us
    ), sums as (
        select *, sum(ready) over so_far as ready_sum, sum(unacked) over so_far as unacked_sum
        from minutes window so_far as (partition by vhost, queue order by minute_us)
    ), based as (
        select *,
            least(0, min(ready_sum - ready + ready_least) over whole) as ready_base,
            least(0, min(unacked_sum - unacked + unacked_least) over whole) as unacked_base
        from sums window whole as (partition by vhost, queue)
    )
    select to_date(timestamp_micros(minute_us)) as date,
        timestamp_micros(minute_us) as minute, vhost, queue,
        ready_sum - ready_base as ready, unacked_sum - unacked_base as unacked,
        ready_sum - ready + ready_most - ready_base as ready_max,
        unacked_sum - unacked + unacked_most - unacked_base as unacked_max, came, gone as `left`
    from based
"""

SIZES = f"""
    select to_date(timestamp_micros(time_us)) as date, vhost, exchange,
        {UP_TO.format("body_size")} as up_to_bytes,
        sum(weight) as messages, sum(weight * body_size) as bytes
    from events where event = 'publish' group by 1, 2, 3, 4
"""

DUPLICATES = """
    with doubtful as (
        select xxhash64(vhost, message_id) as id from events
        where event = 'publish' and message_id is not null
        group by 1 having count(*) > 1
    )
    select to_date(timestamp_micros(min(time_us))) as date, vhost, message_id,
        count(*) as messages, min(time_us) as first_us, max(time_us) as last_us,
        sort_array(collect_set(exchange)) as exchanges,
        slice(sort_array(collect_set(connection)), 1, 10) as connections
    from events semi join doubtful on xxhash64(vhost, message_id) = id
    where event = 'publish' and message_id is not null
    group by vhost, message_id having count(*) > 1
"""

GAPS = """
    select to_date(timestamp_micros(time_us)) as date, vhost, node, time_us, until_us, lost
    from events where event = 'gap'
"""

QUERIES = {"depth": DEPTH, "sizes": SIZES, "duplicates": DUPLICATES, "gaps": GAPS}
"""The tables, made from the view `events`."""
