"""Tables that need single records: sizes, publishers, priorities, duplicates and gaps."""

from leveret.analytics.tables.buckets import UP_TO

_ACTIVITY_US = 10_000_000

SIZES = f"""
    select to_date(timestamp_micros(time_us)) as date, vhost, exchange,
        {UP_TO.format("body_size")} as up_to_bytes,
        sum(weight) as messages, sum(weight * body_size) as bytes
    from events where event = 'publish' group by 1, 2, 3, 4
"""

_STEP = f"time_us - time_us % {_ACTIVITY_US}"

PUBLISHERS = f"""
    with published as (
        select vhost, user, connection, explode(queues) as queue, time_us, weight
        from events where event = 'publish'
        union all
        select vhost, user, connection, explode(streams), time_us, weight
        from events where event = 'publish'
        union all
        select vhost, user, connection, queue, time_us, messages from events
        where event = 'append'
    )
    select to_date(timestamp_micros(at_us)) as date, at_us, vhost, queue, user, connection,
        sum(weight) as messages, min(time_us) as first_us, max(time_us) as last_us
    from (select *, {_STEP} as at_us from published) as stepped
    group by vhost, queue, user, connection, at_us
"""

PRIORITY_STEPS = f"""
    with messages as (
        select vhost, explode(queues) as queue, {_STEP} as at_us,
            coalesce(priority, 0) as priority, weight as came, 0 as delivered
        from events where event = 'publish'
        union all
        select vhost, queue, {_STEP}, coalesce(priority, 0), 0, weight
        from events where event = 'deliver' and not redelivered
    )
    select vhost, queue, at_us, priority, sum(came) as came, sum(delivered) as delivered
    from messages group by vhost, queue, at_us, priority
"""
"""The view `priority_steps`."""

PRIORITIES = """
    select to_date(timestamp_micros(at_us)) as date, at_us, vhost, queue, priority, came, delivered
    from priority_steps semi join (
        select vhost, queue from priority_steps group by 1, 2 having count(distinct priority) > 1
    ) as several using (vhost, queue)
"""

KINDS = f"""
    with kinds as (
        select to_date(timestamp_micros(time_us)) as date, vhost, explode(queues) as queue, user,
            content_type, app_id, type, {UP_TO.format("body_size")} as up_to_bytes, weight
        from events where event = 'publish'
    )
    select date, vhost, queue, user, content_type, app_id, type, up_to_bytes,
        sum(weight) as messages
    from kinds group by date, vhost, queue, user, content_type, app_id, type, up_to_bytes
"""

IDENTIFIED = """
    select vhost, queue, message_id, xxhash64(vhost, queue, message_id) as id, time_us, exchange,
        connection
    from (
        select vhost, explode(queues) as queue, message_id, time_us, exchange, connection
        from events where event = 'publish' and message_id is not null
        union all
        select vhost, explode(streams), message_id, time_us, exchange, connection
        from events where event = 'publish' and message_id is not null
    ) as routed
"""
"""The view `identified`: messages with an id that came to queues, by queue."""

DUPLICATES = """
    with doubtful as (
        select id from identified group by 1 having count(*) > 1
    ), repeated as (
        select *, max(time_us) over (partition by vhost, queue, message_id) as latest_us
        from identified semi join doubtful using (id)
    )
    select to_date(timestamp_micros(min(time_us))) as date, vhost, queue, message_id,
        count(*) as messages, min(time_us) as first_us, max(time_us) as last_us,
        sort_array(collect_set(exchange)) as exchanges,
        slice(sort_array(collect_set(connection)), 1, 10) as connections,
        max(if(time_us = latest_us, connection, null)) as last_connection
    from repeated group by vhost, queue, message_id having count(*) > 1
"""

GAPS = """
    select to_date(timestamp_micros(time_us)) as date, vhost, node, time_us, until_us, lost
    from events where event = 'gap'
"""

QUERIES = {
    "sizes": SIZES, "publishers": PUBLISHERS, "priorities": PRIORITIES, "kinds": KINDS,
    "duplicates": DUPLICATES, "gaps": GAPS,
}  # fmt: skip
"""The tables, made from the views `events`, `identified` and `priority_steps`."""
