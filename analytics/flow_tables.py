"""Tables counted from flows: traffic by minute between users, exchanges, queues and consumers."""

from pyspark.sql import DataFrame, SparkSession

HOT_TIMES, HOT_SHARE, HALF, COLD_PART, PLACES_MAX = 10, 0.05, 0.5, 0.01, 1_000

_ENTRY = "named_struct('kind', '{}', 'name', {})"
_USER, _CONNECTION = _ENTRY.format("user", "user"), _ENTRY.format("connection", "connection")
_EXCHANGE, _QUEUE = _ENTRY.format("exchange", "exchange"), _ENTRY.format("queue", "queue")
_KEY = _ENTRY.format("routing_key", "routing_keys[0]")
_QUEUES = "transform(queues, q -> named_struct('kind', 'queue', 'name', q))"

TRAFFIC = f"""
    select to_date(minute) as date, minute, vhost, who.kind, who.name,
        {{published}} as published, {{delivered}} as delivered, {{acknowledged}} as acknowledged,
        {{redelivered}} as redelivered, {{returned}} as returned,
        {{bytes_in}} as bytes_in, {{bytes_out}} as bytes_out
    from (
        select *, explode(case
            when event = 'publish' then concat(
                array({_EXCHANGE}, {_USER}, {_CONNECTION}, {_KEY}), {_QUEUES})
            when event = 'deliver' then array({_EXCHANGE}, {_USER}, {_CONNECTION}, {_KEY}, {_QUEUE})
            when event = 'ack' then array({_USER}, {_CONNECTION}, {_QUEUE})
            when event = 'return' then array({_EXCHANGE}, {_USER}, {_CONNECTION}, {_KEY})
            when event = 'dead_letter' then {_QUEUES} end) as who
        from flows where event in ('publish', 'deliver', 'ack', 'return', 'dead_letter')
    ) where who.name is not null
    group by minute, vhost, who.kind, who.name
""".format(
    published="sum(if(event in ('publish', 'dead_letter'), messages, 0))",
    delivered="sum(if(event = 'deliver', messages, 0))",
    acknowledged="sum(if(event = 'ack', messages, 0))",
    redelivered="sum(if(event = 'deliver' and redelivered, messages, 0))",
    returned="sum(if(event = 'return', messages, 0))",
    bytes_in="sum(if(event = 'publish', bytes, 0))",
    bytes_out="sum(if(event = 'deliver', bytes, 0))",
)

FAN_OUT = """
    select to_date(minute) as date, vhost, exchange, cast(size(queues) as bigint) as queues,
        sum(messages) as messages
    from flows where event = 'publish' group by 1, 2, 3, 4
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

UNROUTABLE = """
    select to_date(minute) as date, minute, vhost, exchange, routing_keys[0] as routing_key,
        sum(if(event = 'publish', messages, 0)) as messages,
        sum(if(event = 'return', messages, 0)) as returned,
        min(user) as user, min(connection) as connection
    from flows where event = 'return' or (event = 'publish' and size(queues) = 0)
    group by minute, vhost, exchange, routing_keys[0]
"""

ROUTING_KEYS = f"""
    with counted as (
        select to_date(minute) as date, vhost, exchange, routing_keys[0] as routing_key,
            sum(messages) as messages, sum(bytes) as bytes
        from flows where event = 'publish' group by 1, 2, 3, 4
    ), totals as (
        select date, vhost, exchange, sum(messages) as total, count(*) as keys
        from counted group by 1, 2, 3
    ), shares as (
        select counted.*, messages / total as share, keys
        from counted join totals using (date, vhost, exchange)
    ), places as (
        select * from (
            select date, vhost, exchange, routing_key, row_number() over (
                partition by date, vhost, exchange order by messages desc, routing_key) as place
            from counted
        ) where place <= {PLACES_MAX}
    )
    select date, vhost, exchange, routing_key, messages, bytes, share,
        cast(place as bigint) as place,
        case
            when keys > 2 and share >= {HOT_SHARE} and share >= least({HOT_TIMES} / keys, {HALF})
                then 'hot'
            when keys > 2 and share <= {COLD_PART} / keys then 'cold' else 'warm' end as temperature
    from shares left join places using (date, vhost, exchange, routing_key)
"""

_EDGE = "named_struct('source_kind', '{}', 'source', {}, 'target_kind', '{}', 'target', {})"
_TO_EXCHANGE = f"array({_EDGE.format('user', 'user', 'exchange', 'exchange')})"
_TO_QUEUES = f"transform(queues, q -> {_EDGE.format('exchange', 'exchange', 'queue', 'q')})"
_CONSUMER = "concat(coalesce(consumer_tag, 'basic.get'), ' on ', coalesce(connection, ''))"
_TO_CONSUMER = f"array({_EDGE.format('queue', 'queue', 'consumer', _CONSUMER)})"
_DEAD = f"array({_EDGE.format('queue', 'queue', 'exchange', 'exchange')})"

TOPOLOGY = f"""
    with edges as (
        select *, explode(case
            when event = 'publish' then concat({_TO_EXCHANGE}, {_TO_QUEUES})
            when event = 'deliver' then {_TO_CONSUMER}
            else concat({_DEAD}, {_TO_QUEUES}) end) as edge
        from flows where event in ('publish', 'deliver', 'dead_letter')
    ), spans as (
        select to_date(minute) as date, (max(last_us) - min(first_us)) / 1e6 as seconds
        from flows group by 1
    )
    select date, vhost, edge.source_kind, edge.source, edge.target_kind, edge.target,
        if(event = 'dead_letter', reason, null) as dead_letters,
        sum(messages) as messages, sum(bytes) as bytes,
        min(first_us) as first_us, max(last_us) as last_us,
        sum(messages) / greatest(1, max(seconds)) as rate
    from edges join spans on date = to_date(minute) group by 1, 2, 3, 4, 5, 6, 7
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
            sum(if(event = 'publish', messages, 0)) as published,
            sum(if(event = 'deliver', messages, 0)) as delivered,
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
    "routing_keys": ROUTING_KEYS, "topology": TOPOLOGY, "connection_churn": CHURN,
    "connections": CONNECTIONS, "summary": SUMMARY,
}  # fmt: skip


def flow_tables(session: SparkSession) -> dict[str, DataFrame]:
    """Return the tables, made from the view `flows`."""
    return {name: session.sql(query) for name, query in QUERIES.items()}
