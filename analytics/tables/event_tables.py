"""Tables that need single records: sizes, publishers, duplicates and gaps."""

from leveret.analytics.tables.buckets import UP_TO

_ACTIVITY_US = 10_000_000

SIZES = f"""
    select to_date(timestamp_micros(time_us)) as date, vhost, exchange,
        {UP_TO.format("body_size")} as up_to_bytes,
        sum(weight) as messages, sum(weight * body_size) as bytes
    from events where event = 'publish' group by 1, 2, 3, 4
"""

PUBLISHERS = f"""
    with published as (
        select vhost, user, explode(queues) as queue, time_us - time_us % {_ACTIVITY_US} as at_us,
            weight
        from events where event = 'publish'
        union all
        select vhost, user, explode(streams), time_us - time_us % {_ACTIVITY_US}, weight
        from events where event = 'publish'
        union all
        select vhost, user, queue, time_us - time_us % {_ACTIVITY_US}, messages
        from events where event = 'append'
    )
    select to_date(timestamp_micros(at_us)) as date, at_us, vhost, queue, user,
        sum(weight) as messages
    from published group by vhost, queue, user, at_us
"""

IDENTIFIED = """
    select vhost, message_id, xxhash64(vhost, message_id) as id, time_us, exchange, connection,
        coalesce(get(queues, 0), get(streams, 0)) as first_queue
    from events where event = 'publish' and message_id is not null
"""
"""The view `identified`: publishes of messages with an id."""

DUPLICATES = """
    with doubtful as (
        select id from identified group by 1 having count(*) > 1
    )
    select to_date(timestamp_micros(min(time_us))) as date, vhost, message_id,
        count(*) as messages, min(time_us) as first_us, max(time_us) as last_us,
        sort_array(collect_set(exchange)) as exchanges,
        slice(sort_array(collect_set(connection)), 1, 10) as connections,
        slice(sort_array(collect_set(first_queue)), 1, 10) as queues
    from identified semi join doubtful using (id)
    group by vhost, message_id having count(*) > 1
"""

GAPS = """
    select to_date(timestamp_micros(time_us)) as date, vhost, node, time_us, until_us, lost
    from events where event = 'gap'
"""

QUERIES = {
    "sizes": SIZES, "publishers": PUBLISHERS, "duplicates": DUPLICATES, "gaps": GAPS,
}  # fmt: skip
"""The tables, made from the views `events` and `identified`."""
