"""Lives: what happened to each message in each queue that it was in, a row for each.

A message's number is the node's own, so a life's key is (place, message), where a place is a queue
of a node. Grouping by it joins publish, deliveries and settlement in one shuffle of numbers, in
which nothing is skewed, whatever one queue's part of the traffic: names are hashed to 64 bits (the
views `places` and `parties` give them back), and all that is kept of events are times and counts.

Which consumer had a message is told by the life if it was one all the time. Lives with several
deliveries are few, and their events are looked at in order of time: the view `spans` has a row for
each time that a consumer held a message.
"""

from pyspark.sql import SparkSession

from analytics.staging import stage

PLACE = "xxhash64(vhost, node, {})"
PARTY = "xxhash64(node, connection, channel, consumer_tag)"
REASONS = ("expired", "rejected", "maxlen", "delivery_limit", "queue_deleted")

_REASON = "case reason {} else 0Y end".format(
    " ".join(f"when '{reason}' then {code}Y" for code, reason in enumerate(REASONS, 1))
)

_PLACES = f"""
    select distinct {PLACE.format("queue")} as place, vhost, node, queue from (
        select vhost, node, queue from flows where queue is not null
        union all select vhost, node, explode(queues) from flows)
"""
_PARTIES = f"""
    select {PARTY} as party, max(vhost) as vhost, max(connection) as connection,
        max(channel) as channel, max(consumer_tag) as consumer_tag, max(user) as user
    from flows where event = 'deliver' group by 1
"""

CODES = ("come", "deliver", "ack", "reject", "requeue", "expire", "drop", "dead_letter")
"""What happens to a message in a queue. Steps have its place in here: numbers compare quickly."""

_COME, _DELIVER, _ACK, _REJECT, _REQUEUE, _EXPIRE, _DROP, _DEAD = (
    f"{code}Y" for code in range(len(CODES))
)
_CODE = "case event {} end".format(
    " ".join(f"when '{event}' then {code}Y" for code, event in enumerate(CODES))
)

_STEPS = f"""
    select {PLACE.format("queue")} as place, message, code, time_us, party, weight, more from (
        select vhost, node, explode(queues) as queue, message, {_COME} as code, time_us,
            cast(null as bigint) as party, weight, 0Y as more
        from events where event = 'publish' and message > 0
        union all
        select vhost, node, explode(queues), new_message, {_COME}, time_us, null, weight, 0Y
        from events where event = 'dead_letter' and new_message > 0
        union all
        select vhost, node, queue, message,
            if(event = 'reject' and requeue, {_REQUEUE}, {_CODE}), time_us,
            if(event = 'deliver', {PARTY}, null), weight,
            case when event = 'deliver' then if(no_ack, 1Y, 0Y) else {_REASON} end
        from events
        where event in ('deliver', 'ack', 'reject', 'requeue', 'expire', 'drop', 'dead_letter')
            and message > 0 and (event != 'dead_letter' or message != new_message)
    )
"""

_LIVES = f"""
    select place, message, max(weight) as weight,
        min(if(code = {_COME}, time_us, null)) as came,
        min(if(code = {_DELIVER}, time_us, null)) as first_delivered,
        max(if(code = {_DELIVER}, time_us, null)) as delivered,
        sum(if(code = {_DELIVER}, 1L, 0L)) as deliveries,
        max(if(code = {_DELIVER}, more, 0Y)) as no_ack,
        min(party) as party, max(party) as other_party,
        max(if(code = {_ACK}, time_us, null)) as acked,
        max(if(code = {_REJECT}, time_us, null)) as rejected,
        max(if(code = {_REQUEUE}, time_us, null)) as requeued,
        max(if(code = {_EXPIRE}, time_us, null)) as expired,
        max(if(code = {_DROP}, time_us, null)) as dropped,
        max(if(code = {_DROP}, more, 0Y)) as drop_reason,
        max(if(code = {_DEAD}, time_us, null)) as dead,
        max(if(code = {_DEAD}, more, 0Y)) as dead_reason
    from steps group by place, message
"""

_PURGES = f"""
    select {PLACE.format("queue")} as place,
        sort_array(collect_list(named_struct('time_us', time_us, 'reason', reason))) as purges
    from events where event = 'drop' and count is not null group by 1
"""

_LAST_SEEN = "coalesce(greatest(came, delivered, requeued), 0)"

_FATES = f"""
    select *, case
        when acked is not null then 'acknowledged'
        when dead is not null then 'dead_lettered'
        when expired is not null then 'expired'
        when dropped is not null then 'dropped'
        when rejected is not null then 'rejected'
        when no_ack = 1 then 'acknowledged'
        when purge is not null then 'dropped'
        when deliveries > 0 then 'never_acknowledged'
        else 'never_delivered' end as fate
    from (
        select lives.*, try_element_at(filter(purges, purge -> purge.time_us >= {_LAST_SEEN} and (
            purge.reason = 'queue_deleted' or deliveries = 0 or requeued >= delivered)), 1) as purge
        from lives left join purges using (place)
    )
"""

_SPANS = f"""
    with single as (
        select place, party, weight, delivered, coalesce(acked, rejected, requeued) as ended,
            acked is not null as is_acked
        from lives where deliveries = 1 and no_ack = 0
    ), several as (
        select place, message from lives where deliveries > 1
    ), ordered as (
        select place, party, weight, code, time_us as delivered,
            lead(time_us) over life as ended, lead(code) over life as ended_by, more
        from steps left semi join several using (place, message)
        where code in ({_DELIVER}, {_ACK}, {_REJECT}, {_REQUEUE})
        window life as (partition by place, message order by time_us,
            if(code = {_DELIVER}, if(more = 1, 2, 1), 0))
    )
    select * from single
    union all
    select place, party, weight, delivered, if(ended_by = {_DELIVER}, null, ended),
        coalesce(ended_by = {_ACK}, false)
    from ordered where code = {_DELIVER} and more = 0
"""


def stage_lives(session: SparkSession, path: str) -> None:
    """Group events into lives, and make the views `lives`, `fates`, `spans` and what they need."""
    for name, query in (("places", _PLACES), ("parties", _PARTIES), ("steps", _STEPS)):
        session.sql(query).createOrReplaceTempView(name)
    stage(session.sql(_LIVES), path).createOrReplaceTempView("lives")
    for name, query in (("purges", _PURGES), ("life_fates", _FATES), ("spans", _SPANS)):
        session.sql(query).createOrReplaceTempView(name)
