"""What consumers hold and how long they work, in steps of ten seconds.

A consumer is busy while it holds a message. A pause is a time in which it is busy and settles
nothing: it begins when it settles a message, or when it gets one and holds no other, and ends when
it settles the next. Its busy time divided by the messages that it settles is the time for a
message; a higher prefetch limit does not increase it.

Events of a consumer are put in order within a step, so that a busy one is spread over all workers;
steps pass on what the consumer holds, and the time of its last event and last mark. A mark is where
a pause can begin.
"""

from leveret.analytics.tables.engine import Engine
from leveret.analytics.tables.percentiles import percentile
from leveret.analytics.tables.queue_histories import REJECTED, SENT_BACK

_STEP_US, _MINUTE_US = 10_000_000, 60_000_000
KINDS_MAX = 50
"""Kinds of messages of a queue and date that are in the table: those held longest in all."""


def hold_events(more: str = "") -> str:
    """Return the query of the view `hold_events`: what consumers get and settle.

    more: other columns of the view `holds` that it has, each after a comma.
    """
    return f"""
        select *, time_us - time_us % {_STEP_US} as step_us from (
            select queue_key, consumer_key, kind_key, delivered as time_us, weight as held,
                0 as settled, cast(null as bigint) as took, 0 as rejected, 0 as sent_back{more}
            from holds
            union all
            select queue_key, consumer_key, kind_key, ended, -weight, weight,
                ended - delivered, if(outcome = {REJECTED}, weight, 0),
                if(outcome > {SENT_BACK}, weight, 0){more}
            from holds where ended is not null
        ) as events
    """


_STEP = "queue_key, consumer_key, step_us"

HOLD_STEPS = f"""
    select {_STEP}, sum(held) as held, max(time_us) as last_us
    from hold_events group by {_STEP}
"""
"""The view `hold_steps`."""

MARKED_EVENTS = f"""
    with carried as (
        select {_STEP}, (sum(held) over so_far) - held as held_before,
            lag(last_us) over so_far as before_us
        from hold_steps
        window so_far as (partition by queue_key, consumer_key order by step_us)
    ), ordered as (
        select *, held_before + (sum(held) over so_far) as held_after,
            coalesce(lag(time_us) over in_order, before_us, time_us) as last_us
        from hold_events join carried using ({_STEP})
        window in_order as (partition by {_STEP} order by time_us, held),
            so_far as (partition by {_STEP} order by time_us, held
                rows between unbounded preceding and current row)
    )
    select *, held_after - held as held_then,
        if(settled > 0 or held_after - held <= 0, time_us, null) as mark_us
    from ordered
"""

MARK_STEPS = f"select {_STEP}, max(mark_us) as mark_us from marked_events group by {_STEP}"
"""The view `mark_steps`."""

CONSUMER_STEPS = f"""
    with earlier as (
        select {_STEP}, max(mark_us) over (partition by queue_key, consumer_key
            order by step_us rows between unbounded preceding and 1 preceding) as earlier_us
        from mark_steps
    ), paused as (
        select *, if(settled > 0, time_us - greatest(coalesce(max(mark_us) over
                (partition by {_STEP} order by time_us, held
                rows between unbounded preceding and 1 preceding), 0),
                coalesce(earlier_us, 0)), null) as pause,
            time_us - time_us % {_STEP_US} as at_us
        from marked_events join earlier using ({_STEP})
    ), ranked as (
        select *, max(pause) over (partition by queue_key, consumer_key, at_us) as longest
        from paused
    )
    select queue_key, consumer_key, at_us, sum(if(held > 0, held, 0)) as delivered,
        sum(settled) as settled, sum(rejected) as rejected, sum(sent_back) as sent_back,
        sum(if(held_after > 0, sent_back, 0)) as out_of_order, sum(held) as held,
        max(greatest(held_after, held_then)) as held_max,
        sum(if(held_then > 0, time_us - last_us, 0)) as busy_us,
        {percentile("took", 0.5)} as hold_p50_us, max(took) as hold_max_us,
        max(pause) as pause_us, max(if(pause = longest, time_us, null)) as pause_end_us,
        max(mark_us) as mark_us
    from ranked group by 1, 2, 3
"""
"""The view `consumer_steps`."""

CONSUMER_ACTIVITY = """
    select to_date(timestamp_micros(at_us)) as date, at_us, vhost, queue, connection, channel,
        consumer_tag, delivered, settled, rejected, sent_back, out_of_order,
        sum(held) over (partition by queue_key, consumer_key order by at_us) as held, held_max,
        busy_us, hold_p50_us, hold_max_us, pause_us, pause_end_us, mark_us
    from consumer_steps
        join (select queue_key, queue, vhost from queue_keys) as queues using (queue_key)
        join (
            select consumer_key, connection, channel, consumer_tag from consumer_keys
        ) as clients using (consumer_key)
"""

KIND_STEPS = f"""
    select {_STEP}, kind_key, sum(settled) as messages, sum(took * settled) as held_us,
        min(took) as least_us
    from hold_events where settled > 0 group by {_STEP}, kind_key
"""
"""The view `kind_steps`: how long each consumer held messages of each kind."""

_KIND = "vhost, queue, exchange, routing_key, up_to_bytes"

HELD_KINDS = f"""
    with minutes as (
        select queue_key, kind_key, step_us - step_us % {_MINUTE_US} as at_us,
            sum(messages) as messages, sum(held_us) as held_us, min(least_us) as least_us
        from kind_steps group by 1, 2, 3
    ), named as (
        select to_date(timestamp_micros(at_us)) as date, at_us, {_KIND},
            sum(messages) as messages, sum(held_us) as held_us, min(least_us) as least_us
        from minutes join queue_keys using (queue_key) join kind_keys using (kind_key)
        group by at_us, {_KIND}
    ), placed as (
        select date, {_KIND}, row_number() over (partition by date, vhost, queue
            order by sum(held_us) desc, exchange, routing_key, up_to_bytes) as place
        from named group by date, {_KIND}
    )
    select named.* from named join placed using (date, {_KIND}) where place <= {KINDS_MAX}
"""

QUERIES = {"consumer_activity": CONSUMER_ACTIVITY, "held_kinds": HELD_KINDS}
"""The tables, made from the views `consumer_steps`, `kind_steps` and `kind_keys`, and those of
queue_histories.py.
"""


def stage_activity(engine: Engine) -> None:
    """Keep what consumers get and settle, in order, as the view `marked_events`."""
    engine.view("hold_events", hold_events())
    engine.view("hold_steps", HOLD_STEPS)
    stage_marks(engine)
    engine.view("consumer_steps", CONSUMER_STEPS)
    engine.view("kind_steps", KIND_STEPS)


def stage_marks(engine: Engine) -> None:
    """Put the events of the views `hold_events` and `hold_steps` in order."""
    engine.stage("marked_events", MARKED_EVENTS)
    engine.view("mark_steps", MARK_STEPS)
