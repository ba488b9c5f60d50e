"""Routing keys. Publishers may use a new one for each message, so tables name only some.

On each date the `NAMED_MAX` most frequent keys of an exchange are named; all others are one row
whose key is null. So neither the tables nor the view `flows` grow with the number of keys.
"""

NAMED_MAX = 1_000
HOT_TIMES = 10
HOT_SHARE, HALF, COLD_PART = "5e-2", "5e-1", "1e-2"
"""With exponents, since they are doubles in every engine; 0.05 is a decimal in some."""

KEY_COUNTS = """
    select to_date(minute) as date, vhost, exchange, full_key as routing_key,
        sum(records) as records, sum(if(event = 'publish', messages, 0)) as messages,
        sum(if(event = 'publish', bytes, 0)) as bytes
    from flows_by_key where full_key is not null group by 1, 2, 3, 4
"""
"""The view `key_counts`: a row for each routing key of an exchange on a date."""

NAMED_KEYS = f"""
    select date as on_date, vhost as in_vhost, exchange as of_exchange, routing_key as named_key
    from (
        select date, vhost, exchange, routing_key, row_number() over (
            partition by date, vhost, exchange order by records desc, routing_key) as place
        from key_counts
    ) as places where place <= {NAMED_MAX}
"""
"""The view `named_keys`."""

ROUTING_KEYS = f"""
    with published as (
        select date, vhost, exchange, routing_key, messages, bytes from key_counts
        where messages > 0
    ), totals as (
        select date, vhost, exchange, sum(messages) as total, sum(bytes) as total_bytes,
            count(*) as keys
        from published group by 1, 2, 3
    ), places as (
        select * from (
            select published.*, row_number() over (
                partition by date, vhost, exchange order by messages desc, routing_key) as place
            from published
        ) as ordered where place <= {NAMED_MAX}
    ), named as (
        select date, vhost, exchange, sum(messages) as messages, sum(bytes) as bytes
        from places group by 1, 2, 3
    ), shown as (
        select date, vhost, exchange, routing_key, messages, bytes, place from places
        union all
        select date, vhost, exchange, null, total - messages, total_bytes - bytes, null
        from named join totals using (date, vhost, exchange) where total > messages
    )
    select date, vhost, exchange, routing_key, messages, bytes, share,
        cast(place as bigint) as place,
        case when place is null then null
            when keys > 2 and share >= {HOT_SHARE} and share >= least({HOT_TIMES} / keys, {HALF})
                then 'hot'
            when keys > 2 and share <= {COLD_PART} / keys then 'cold' else 'warm' end as temperature
    from (
        select shown.*, total, keys, messages / total as share
        from shown join totals using (date, vhost, exchange)
    ) as shares
"""

VIEWS = {"key_counts": KEY_COUNTS, "named_keys": NAMED_KEYS}
QUERIES = {"routing_keys": ROUTING_KEYS}
"""The table, made from the view `key_counts`."""
