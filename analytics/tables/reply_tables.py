"""The table of replies that have no queue: direct replies, and those whose queue has gone.

The reply-to property of a request names the place of its reply, which has this name as its routing
key. A requester has gone when its connection was closed, or when the queue does not exist; that a
channel was closed is not in the trace. Requests and replies are sums for each name, so that a
requester that sends many requests costs no more than one.
"""

from leveret.analytics.tables.flow_tables import IS_REPLY

_ACTIVITY_US = 10_000_000

REQUESTS = """
    select vhost, reply_to as name, connection as requester, sum(weight) as requests
    from events where event = 'publish' and reply_to is not null
    group by vhost, reply_to, connection
"""
"""The view `requests`."""

REPLY_STEPS = f"""
    select time_us - time_us % {_ACTIVITY_US} as at_us, vhost, user, connection,
        get(routing_keys, 0) as name, coalesce({IS_REPLY}, false) as is_direct,
        sum(weight) as replies, min(time_us) as first_us, max(time_us) as last_us
    from events where event = 'publish' and exchange = '' and array_size(queues) = 0
        and coalesce(array_size(streams), 0) = 0
    group by time_us - time_us % {_ACTIVITY_US}, vhost, user, connection, get(routing_keys, 0),
        coalesce({IS_REPLY}, false)
"""
"""The view `reply_steps`."""

REPLIES = """
    with requesters as (
        select vhost, name, max(requester) as requester from requests group by 1, 2
    ), gone as (
        select vhost, connection as requester, max(last_us) as gone_us from flows
        where event = 'close' group by 1, 2
    ), known as (
        select reply_steps.*, gone_us, requester from reply_steps
            left join requesters using (vhost, name) left join gone using (vhost, requester)
        where is_direct or requester is not null
    )
    select to_date(timestamp_micros(at_us)) as date, at_us, vhost, user, connection,
        sum(replies) as replies,
        sum(case when not is_direct or first_us > gone_us then replies
            when last_us > gone_us then 1 else 0 end) as late,
        max(if(last_us > gone_us, last_us - gone_us, null)) as late_max_us
    from known group by at_us, vhost, user, connection
"""

QUERIES = {"replies": REPLIES}
"""The table, made from these views and `flows`."""
