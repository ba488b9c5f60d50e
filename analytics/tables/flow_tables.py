"""Tables counted from flows: traffic by minute between users, exchanges, queues and consumers."""

REPLY_NAMES = "amq.rabbitmq.reply-to"
IS_REPLY = f"exchange = '' and get(routing_keys, 0) like '{REPLY_NAMES}.%'"
"""Direct replies go to a channel without a queue. Each channel has a name of its own."""

FLOWS_BY_KEY = f"""
    select date_trunc('minute', timestamp_micros(time_us)) as minute, vhost, node, event, exchange,
        queue, queues, streams,
        case when event not in ('publish', 'deliver', 'return') then null
            when {IS_REPLY} then '{REPLY_NAMES}' else get(routing_keys, 0) end as full_key,
        coalesce(event in ('publish', 'return') and {IS_REPLY}, false) as is_reply,
        user, connection, channel, consumer_tag, reason, redelivered, requeue,
        no_ack, count(*) as records, sum(coalesce(count, messages, weight)) as messages,
        sum(weight * body_size) as bytes, min(time_us) as first_us, max(time_us) as last_us,
        max(weight) as sample
    from events group by all
"""
"""The view `flows_by_key`: records counted by minute, participants, event and routing key."""

FLOWS = """
    select minute, vhost, node, event, exchange, queue, queues, streams, is_reply,
        full_key is not null as has_key, named_key as routing_key, user, connection, channel,
        consumer_tag, reason, redelivered,
        requeue, no_ack, sum(records) as records, sum(messages) as messages, sum(bytes) as bytes,
        min(first_us) as first_us, max(last_us) as last_us, max(sample) as sample
    from flows_by_key left join named_keys on to_date(minute) = on_date and vhost = in_vhost
        and exchange = of_exchange and full_key = named_key
    group by all
"""
"""The view `flows`: the same, with few routing keys (key_tables.py). Many tables need no more."""

_WITH_EXCHANGE = "('publish', 'deliver', 'return')"
_WITH_CLIENT = "('publish', 'deliver', 'ack', 'return', 'append', 'read')"
_COUNTED = "minute, vhost, event, redelivered, messages, bytes"

TRAFFIC = f"""
    with parties as (
        select 'exchange' as kind, exchange as name, {_COUNTED}
        from flows where event in {_WITH_EXCHANGE}
        union all
        select 'routing_key', routing_key, {_COUNTED} from flows where has_key
        union all
        select 'user', user, {_COUNTED} from flows where event in {_WITH_CLIENT}
        union all
        select 'connection', connection, {_COUNTED} from flows where event in {_WITH_CLIENT}
        union all
        select 'queue', queue, {_COUNTED}
        from flows where event in ('deliver', 'ack', 'append', 'read')
        union all
        select 'queue', explode(queues), {_COUNTED}
        from flows where event in ('publish', 'dead_letter')
        union all
        select 'queue', explode(streams), {_COUNTED}
        from flows where event in ('publish', 'dead_letter')
    )
    select to_date(minute) as date, minute, vhost, kind, name,
        sum(if(event in ('publish', 'dead_letter', 'append'), messages, 0)) as published,
        sum(if(event in ('deliver', 'read'), messages, 0)) as delivered,
        sum(if(event = 'ack', messages, 0)) as acknowledged,
        sum(if(event = 'deliver' and redelivered, messages, 0)) as redelivered,
        sum(if(event = 'return', messages, 0)) as returned,
        sum(if(event in ('publish', 'append'), bytes, 0)) as bytes_in,
        sum(if(event in ('deliver', 'read'), bytes, 0)) as bytes_out
    from parties where name is not null or kind = 'routing_key'
    group by minute, vhost, kind, name
"""

_QUEUES = "array_size(queues) + coalesce(array_size(streams), 0)"

FAN_OUT = f"""
    select to_date(minute) as date, vhost, exchange, cast({_QUEUES} as bigint) as queues,
        sum(messages) as messages
    from flows where event = 'publish' and not is_reply group by 1, 2, 3, 4
"""

REDELIVERIES = """
    select * from (
        select to_date(minute) as date, minute, vhost, queue,
            sum(if(event = 'deliver', messages, 0)) as delivered,
            sum(if(event = 'deliver' and redelivered, messages, 0)) as redelivered,
            sum(if(event = 'reject' and requeue, messages, 0)) as rejected,
            sum(if(event = 'requeue', messages, 0)) as requeued
        from flows where event in ('deliver', 'reject', 'requeue')
        group by minute, vhost, queue
    ) where redelivered + rejected + requeued > 0
"""

UNROUTABLE = f"""
    select to_date(minute) as date, minute, vhost, exchange, routing_key,
        sum(if(event = 'publish', messages, 0)) as messages,
        sum(if(event = 'return', messages, 0)) as returned,
        min(user) as user, min(connection) as connection
    from flows left join (
        select distinct vhost as of_vhost, name as of_request from requests
    ) as requested on exchange = '' and vhost = of_vhost and routing_key = of_request
    where not is_reply and of_request is null
        and (event = 'return' or (event = 'publish' and {_QUEUES} = 0))
        and coalesce(reason, '') != 'duplicate'
    group by minute, vhost, exchange, routing_key
"""

_MEASURED = "minute, vhost, messages, bytes, first_us, last_us"
_CONSUMER = "concat(coalesce(consumer_tag, 'basic.get'), ' on ', coalesce(connection, ''))"

TOPOLOGY = f"""
    with edges as (
        select 'user' as source_kind, user as source, 'exchange' as target_kind, exchange as target,
            cast(null as string) as dead_letters, {_MEASURED}
        from flows where event = 'publish'
        union all
        select 'queue', queue, 'exchange', exchange, reason, {_MEASURED}
        from flows where event = 'dead_letter'
        union all
        select 'exchange', exchange, 'queue', explode(queues), if(event = 'publish', null, reason),
            {_MEASURED}
        from flows where event in ('publish', 'dead_letter')
        union all
        select 'exchange', exchange, 'queue', explode(streams), if(event = 'publish', null, reason),
            {_MEASURED}
        from flows where event in ('publish', 'dead_letter')
        union all
        select 'user', user, 'queue', queue, null, {_MEASURED} from flows where event = 'append'
        union all
        select 'queue', queue, 'consumer', {_CONSUMER}, null, {_MEASURED}
        from flows where event in ('deliver', 'read')
    ), spans as (
        select to_date(minute) as date, (max(last_us) - min(first_us)) / 1e6 as seconds
        from flows group by 1
    )
    select date, vhost, source_kind, source, target_kind, target, dead_letters,
        sum(messages) as messages, sum(bytes) as bytes,
        min(first_us) as first_us, max(last_us) as last_us,
        sum(messages) / greatest(1, max(seconds)) as rate
    from edges join spans on date = to_date(minute)
    group by date, vhost, source_kind, source, target_kind, target, dead_letters
"""

CHURN = """
    with known as (
        select vhost, node, connection, min(if(event = 'open', first_us, null)) as opened_us,
            min(if(event = 'close', first_us, null)) as closed_us
        from flows where event in ('open', 'close') group by 1, 2, 3
    ), earlier as (
        select vhost, count(*) as before from known
        where closed_us is not null and (opened_us is null or closed_us < opened_us) group by 1
    ), minutes as (
        select minute, vhost, sum(if(event = 'open', records, 0)) as opened,
            sum(if(event = 'close', records, 0)) as closed
        from flows where event in ('open', 'close') group by 1, 2
    )
    select to_date(minute) as date, minute, vhost, opened, closed, coalesce(before, 0) +
        sum(opened - closed) over (partition by vhost order by minute) as open
    from minutes left join earlier using (vhost)
"""

CONNECTIONS = """
    select date, vhost, connection, user, opened_us, closed_us,
        closed_us - opened_us as lived_us, published, delivered, acknowledged, channels
    from (
        select to_date(minute) as date, vhost, connection, max(user) as user,
            min(if(event = 'open', first_us, null)) as opened_us,
            max(if(event = 'close', last_us, null)) as closed_us,
            sum(if(event in ('publish', 'append'), messages, 0)) as published,
            sum(if(event in ('deliver', 'read'), messages, 0)) as delivered,
            sum(if(event = 'ack', messages, 0)) as acknowledged,
            max(channel) as channels
        from flows where connection != '' group by 1, 2, 3
    )
"""

SUMMARY = """
    select to_date(minute) as date, vhost, node, event, sum(records) as events,
        max(sample) as sample, min(first_us) as first_us, max(last_us) as last_us
    from flows group by 1, 2, 3, 4
"""

QUERIES = {
    "traffic": TRAFFIC, "fan_out": FAN_OUT, "redeliveries": REDELIVERIES, "unroutable": UNROUTABLE,
    "topology": TOPOLOGY, "connection_churn": CHURN, "connections": CONNECTIONS, "summary": SUMMARY,
}  # fmt: skip
"""The tables, made from the view `flows`."""
