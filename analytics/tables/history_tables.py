"""Tables made from queue histories: latency, outcomes, fates, poison and consumers."""

from leveret.analytics.tables.buckets import UP_TO
from leveret.analytics.tables.percentiles import percentiles
from leveret.analytics.tables.queue_histories import CONSUMER_KEY, QUEUE_KEY, REASONS

_NAMES = ("p50", "p90", "p95", "p99")

MEASURED = """
    select queue_key, message, weight, 'wait' as measure, first_delivered as end_us,
        greatest(0, first_delivered - came) as took
    from histories where came is not null and first_delivered is not null
    union all
    select queue_key, message, weight, 'ack', acked, acked - delivered
    from histories where acked is not null and delivered is not null
"""
"""The view `measured`: how long messages waited, and how long they took to acknowledge."""

_MEASURED = """
    select vhost, queue, weight, measure, end_us, took
    from measured join queue_keys using (queue_key)
"""


def _latency() -> str:
    columns = [
        f"max(if(measure = '{measure}', get(places, {index}), null)) as {measure}_{name}_us"
        for measure in ("wait", "ack")
        for index, name in enumerate(_NAMES)
    ]
    return f"""
        with measured as ({_MEASURED}), grouped as (
            select date_trunc('minute', timestamp_micros(end_us)) as minute, vhost, queue, measure,
                {percentiles("took", 0.5, 0.9, 0.95, 0.99)} as places, max(took) as longest,
                sum(weight) as messages
            from measured group by 1, 2, 3, 4
        )
        select to_date(minute) as date, minute, vhost, queue,
            sum(if(measure = 'wait', messages, 0)) as waits, {", ".join(columns[:4])},
            max(if(measure = 'wait', longest, null)) as wait_max_us,
            sum(if(measure = 'ack', messages, 0)) as acks, {", ".join(columns[4:])},
            max(if(measure = 'ack', longest, null)) as ack_max_us
        from grouped group by minute, vhost, queue
    """


LATENCY_HISTOGRAM = f"""
    with measured as ({_MEASURED})
    select to_date(timestamp_micros(end_us)) as date,
        date_trunc('minute', timestamp_micros(end_us)) as minute, vhost, queue, measure,
        {UP_TO.format("took")} as up_to_us, sum(weight) as messages
    from measured group by 1, 2, 3, 4, 5, 6
"""

SEEN = "coalesce(came, first_delivered, acked, rejected, requeued, dead, expired, dropped)"
_REASON = "case {{}} {} end".format(
    " ".join(f"when {code} then '{reason}'" for code, reason in enumerate(REASONS, 1))
)

FATE_COUNTS = f"""
    select to_date(timestamp_micros({SEEN})) as date, queue_key, fate, sum(weight) as messages
    from fates_by_key group by 1, 2, 3
"""
"""The view `fate_counts`."""

OUTCOMES = """
    select date, vhost, queue, fate, messages from fate_counts join queue_keys using (queue_key)
"""

DETAILS = """
    select vhost, node, message, exchange, routing_keys, connection, message_id, correlation_id,
        user, body_size, content_type, app_id, type
    from events where event = 'publish' and message > 0
"""
"""The view `details`: the known publishes of messages."""

_NOTED = """
    select noted.*, coalesce(letter_node, details.node) as node,
        coalesce(letter_exchange, details.exchange) as exchange,
        coalesce(letter_keys, details.routing_keys) as routing_keys,
        details.message_id, details.correlation_id,
        if(letter_exchange is null, details.connection, null) as connection,
        details.user, details.body_size, details.content_type, details.app_id, details.type
    from (
        select noted.*, letter_node, letter_exchange, letter_keys,
            coalesce(first_message, noted.message) as published_message
        from ({}) as noted left join (
            select vhost as in_vhost, node as letter_node, new_message,
                exchange as letter_exchange, routing_keys as letter_keys, first_message
            from hops
        ) as letters on in_vhost = vhost and new_message = noted.message
    ) as noted left join details
        on details.vhost = noted.vhost and details.message = published_message
"""

_FATES = """
    select fates_by_key.*, vhost, queue from fates_by_key join queue_keys using (queue_key)
    where fate != 'acknowledged'
"""

FATES = f"""
    select to_date(timestamp_micros({SEEN})) as date, vhost, node, message, queue, fate,
        case fate when 'dead_lettered' then {_REASON.format("dead_reason")}
            when 'dropped' then coalesce({_REASON.format("drop_reason")}, purge_reason)
            end as reason,
        exchange, routing_keys, message_id, correlation_id, connection, came as came_us,
        delivered as delivered_us,
        coalesce(dead, expired, dropped, rejected, purged) as ended_us,
        deliveries, user, body_size, content_type, app_id, type, consumer_tag, consumer_connection
    from ({_NOTED.format(_FATES)}) as fates left join (
        select consumer_key, consumer_tag, connection as consumer_connection from consumer_keys
    ) as clients on clients.consumer_key = fates.consumer_key
        and fates.consumer_key = fates.other_consumer_key
"""

_POISON = """
    select fates_by_key.*, vhost, queue from fates_by_key join queue_keys using (queue_key)
    where deliveries > (select poison_above from limits)
"""

POISON = f"""
    select to_date(timestamp_micros(first_delivered)) as date, vhost, node, message, queue,
        deliveries, first_delivered as first_us, delivered as last_us, fate, exchange,
        routing_keys, message_id, correlation_id, connection, user, body_size, content_type,
        app_id, type
    from ({_NOTED.format(_POISON)}) as poison
"""

_CONSUMER = "connection, channel, consumer_tag"

HELD = f"""
    with ends as (select max(last_us) as last_us from flows)
    select queue_key, consumer_key, to_date(timestamp_micros(delivered)) as date,
        sum(if(is_acked, weight, 0)) as acknowledged,
        sum(if(ended is null, weight, 0)) as unacknowledged,
        {percentiles("if(is_acked, ended - delivered, null)", 0.5, 0.99)} as took,
        sum(weight * (coalesce(ended, last_us) - delivered)) as unacked_us,
        max(if(is_acked, ended, null)) as last_ack_us,
        min(if(ended is null, delivered, null)) as oldest_us
    from holds cross join ends group by 1, 2, 3
"""
"""The view `held`: the messages that each consumer got on a date, and how long it held them."""

CONSUMERS = f"""
    with delivered as (
        select {QUEUE_KEY.format("queue")} as queue_key, {CONSUMER_KEY} as consumer_key,
            to_date(minute) as date,
            sum(messages) as delivered, sum(if(no_ack, messages, 0)) as no_ack,
            min(first_us) as first_us, max(last_us) as last_delivery_us
        from flows where event = 'deliver' group by 1, 2, 3
    )
    select date, vhost, queue, connection, channel, consumer_tag, user, delivered, no_ack,
        coalesce(acknowledged, 0) as acknowledged, coalesce(unacknowledged, 0) as unacknowledged,
        get(took, 0) as ack_p50_us, get(took, 1) as ack_p99_us,
        coalesce(unacked_us, 0) as unacked_us,
        coalesce(acknowledged, 0) / greatest(1e-6,
            (greatest(last_delivery_us, last_ack_us) - first_us) / 1e6) as rate,
        first_us, last_delivery_us, last_ack_us, oldest_us,
        cast(row_number() over (partition by date, vhost, queue
            order by get(took, 0) nulls last, {_CONSUMER}) as bigint) as place_by_speed,
        cast(row_number() over (partition by date, vhost, queue
            order by coalesce(unacked_us, 0) desc, {_CONSUMER}) as bigint) as place_by_unacked
    from delivered left join held using (queue_key, consumer_key, date)
        join (select queue_key, queue, vhost from queue_keys) as queues using (queue_key)
        join (
            select consumer_key, connection, channel, consumer_tag, user from consumer_keys
        ) as clients using (consumer_key)
"""

VIEWS = {
    "measured": MEASURED, "fate_counts": FATE_COUNTS, "details": DETAILS, "held": HELD,
}  # fmt: skip
"""Made from the views of queue_histories.py, `events` and `flows`."""

QUERIES = {
    "latency": _latency(), "latency_histogram": LATENCY_HISTOGRAM, "outcomes": OUTCOMES,
    "fates": FATES, "poison": POISON, "consumers": CONSUMERS,
}  # fmt: skip
"""The tables, made from these, the views of queue_histories.py, `flows`, `hops` and `limits`."""
