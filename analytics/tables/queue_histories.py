"""Queue histories: what happened to each message in each queue it entered, one row each.

Message numbers are unique within a cluster, whose nodes each log what happens there: the publish on
one, the deliveries on another, the expiry on that of the queue. So the key is (queue_key, message),
where queue_key identifies a queue. Grouping by this key joins publish, deliveries and settlement in
one shuffle of numbers that is not skewed, even if one queue has most of the traffic. Names are
hashed to 64 bits (the views `queue_keys` and `consumer_keys` map them back); only times and counts
of the events are kept.

If one consumer received a message each time, the row names it. Messages with several deliveries are
few, and their events are read in order of time: the view `holds` has a row for each period in which
a consumer held a message.
"""

from leveret.analytics.tables.buckets import UP_TO

QUEUE_KEY = "xxhash64(vhost, {})"
CONSUMER_KEY = "xxhash64(node, connection, channel, consumer_tag)"
KIND_KEY = f"xxhash64(exchange, get(routing_keys, 0), {UP_TO.format('body_size')})"
"""Of a message that is delivered. Messages of a kind may take consumers as long as each other."""
REASONS = (
    "expired", "rejected", "maxlen", "delivery_limit", "queue_deleted", "discarded", "duplicate",
)  # fmt: skip

_REASON = "case reason {} else 0 end".format(
    " ".join(f"when '{reason}' then {code}" for code, reason in enumerate(REASONS, 1))
)

QUEUE_KEYS = f"""
    select distinct {QUEUE_KEY.format("queue")} as queue_key, vhost, queue from (
        select vhost, queue from flows where queue is not null
        union all select vhost, explode(queues) from flows) as named
"""
CONSUMER_KEYS = f"""
    select {CONSUMER_KEY} as consumer_key, max(vhost) as vhost, max(connection) as connection,
        max(channel) as channel, max(consumer_tag) as consumer_tag, max(user) as user
    from flows where event = 'deliver' group by 1
"""

DELIVERED_KINDS = f"""
    select {KIND_KEY} as kind_key, coalesce(exchange, '') as exchange,
        coalesce(get(routing_keys, 0), '') as routing_key,
        coalesce({UP_TO.format("body_size")}, 0) as up_to_bytes, sum(weight) as messages
    from events where event = 'deliver'
    group by {KIND_KEY}, coalesce(exchange, ''), coalesce(get(routing_keys, 0), ''),
        coalesce({UP_TO.format("body_size")}, 0)
"""
"""The view `delivered_kinds`."""
KIND_KEYS = """
    select kind_key, max(exchange) as exchange, max(routing_key) as routing_key,
        max(up_to_bytes) as up_to_bytes
    from delivered_kinds group by kind_key
"""
"""The view `kind_keys`."""

CODES = ("come", "deliver", "ack", "reject", "requeue", "expire", "drop", "dead_letter")
"""Events of a message in a queue. Queries use the index, since numbers compare faster."""

COME, _DELIVER, _ACK, _REJECT, _REQUEUE, _EXPIRE, _DROP, _DEAD = (
    f"{code}" for code in range(len(CODES))
)
REJECTED, SENT_BACK = 3, 8
"""Outcomes of a period in which a consumer held a message are the codes of what ended it; one that
was requeued by a reject, and not by the end of a channel, is `SENT_BACK` more.
"""
_CODE = "case event {} end".format(
    " ".join(f"when '{event}' then {code}" for code, event in enumerate(CODES))
)

STEPS = f"""
    select {QUEUE_KEY.format("queue")} as queue_key, message, code, time_us, consumer_key,
        kind_key, weight, more
    from (
        select vhost, node, explode(queues) as queue, message, {COME} as code, time_us,
            cast(null as bigint) as consumer_key, cast(null as bigint) as kind_key, weight,
            0 as more
        from events where event = 'publish' and message > 0
        union all
        select vhost, node, explode(queues), new_message, {COME}, time_us, null, null, weight, 0
        from events where event = 'dead_letter' and new_message > 0
        union all
        select vhost, node, queue, message,
            if(event = 'reject' and requeue, {_REQUEUE}, {_CODE}), time_us,
            if(event = 'deliver', {CONSUMER_KEY}, null),
            if(event = 'deliver', {KIND_KEY}, null), weight,
            case when event = 'deliver' then if(no_ack, 1, 0)
                when event = 'reject' and requeue then 1 else {_REASON} end
        from events
        where event in ('deliver', 'ack', 'reject', 'requeue', 'expire', 'drop', 'dead_letter')
            and message > 0 and (event != 'dead_letter' or message != new_message)
    )
"""

HISTORIES = f"""
    select queue_key, message, max(weight) as weight,
        min(if(code = {COME}, time_us, null)) as came,
        min(if(code = {_DELIVER}, time_us, null)) as first_delivered,
        max(if(code = {_DELIVER}, time_us, null)) as delivered,
        count_if(code = {_DELIVER}) as deliveries,
        max(if(code = {_DELIVER}, more, 0)) as no_ack,
        min(consumer_key) as consumer_key, max(consumer_key) as other_consumer_key,
        max(kind_key) as kind_key,
        max(if(code = {_ACK}, time_us, null)) as acked,
        max(if(code = {_REJECT}, time_us, null)) as rejected,
        max(if(code = {_REQUEUE}, time_us, null)) as requeued,
        max(if(code = {_REQUEUE}, more, 0)) as sent_back,
        max(if(code = {_EXPIRE}, time_us, null)) as expired,
        max(if(code = {_DROP}, time_us, null)) as dropped,
        max(if(code = {_DROP}, more, 0)) as drop_reason,
        max(if(code = {_DEAD}, time_us, null)) as dead,
        max(if(code = {_DEAD}, more, 0)) as dead_reason
    from steps group by queue_key, message
"""

PURGES = f"""
    select {QUEUE_KEY.format("queue")} as queue_key, time_us, reason
    from events where event = 'drop' and count is not null
"""

_PURGED = """
    select queue_key, message, min(time_us) as purged, min_by(reason, time_us) as purge_reason
    from histories join purges using (queue_key)
    where coalesce(acked, dead, expired, dropped, rejected) is null and no_ack = 0
        and time_us >= coalesce(greatest(came, delivered, requeued), 0)
        and (reason = 'queue_deleted' or deliveries = 0 or requeued >= delivered)
    group by queue_key, message
"""
"""The first purge that took a message which nothing else ended: purges name no messages."""

_FATES = """
    select *, case
        when acked is not null then 'acknowledged'
        when dead is not null then 'dead_lettered'
        when expired is not null then 'expired'
        when dropped is not null then 'dropped'
        when rejected is not null then 'rejected'
        when no_ack = 1 then 'acknowledged'
        when purged is not null then 'dropped'
        when deliveries > 0 then 'never_acknowledged'
        else 'never_delivered' end as fate
    from histories left join purged using (queue_key, message)
"""

_SEVERAL = "select queue_key, message from histories where deliveries > 1"

_HOLDS = f"""
    with single as (
        select queue_key, message, consumer_key, kind_key, weight, delivered,
            coalesce(acked, rejected, requeued) as ended,
            case when acked is not null then {_ACK} when rejected is not null then {_REJECT}
                when requeued is not null then {_REQUEUE} + sent_back * {SENT_BACK} end as outcome
        from histories where deliveries = 1 and no_ack = 0
    ), ordered as (
        select queue_key, message, consumer_key, kind_key, weight, code, time_us as delivered,
            lead(time_us) over history as ended, lead(code) over history as ended_by,
            lead(more) over history as ended_more, more
        from steps semi join several using (queue_key, message)
        where code in ({_DELIVER}, {_ACK}, {_REJECT}, {_REQUEUE})
        window history as (partition by queue_key, message order by time_us,
            if(code = {_DELIVER}, if(more = 1, 2, 1), 0), code)
    )
    select *, coalesce(outcome = {_ACK}, false) as is_acked from single
    union all
    select queue_key, message, consumer_key, kind_key, weight, delivered,
        if(ended_by = {_DELIVER}, null, ended),
        case when ended_by = {_REQUEUE} then {_REQUEUE} + ended_more * {SENT_BACK}
            when ended_by != {_DELIVER} then ended_by end,
        coalesce(ended_by = {_ACK}, false)
    from ordered where code = {_DELIVER} and more = 0
"""


FATES_VIEWS = {"purged": _PURGED, "fates_by_key": _FATES}
"""Made from the views `histories` and `purges`."""
HOLDS_VIEWS = {"several": _SEVERAL, "holds": _HOLDS}
"""Made from the views `histories` and `steps`."""
KEPT_VIEWS = ("purged", "several", "holds")
"""The views whose rows a batch keeps. All but `holds` have few rows, and an engine that knows this
joins them without sorting all histories or steps; three tables are made from `holds`."""
