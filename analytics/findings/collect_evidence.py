"""Collects the figures for findings from the tables that the job has written.

The engine finds what may matter; only that is read: long pauses, times without a consumer, the
steps of the busiest and the deepest queues. So a trace of a year needs no more memory than one of
an hour.
"""

from typing import Any

import pyarrow as pa

from leveret.analytics.findings.collect_consumer_steps import STEP, collect_consumer_steps
from leveret.analytics.findings.collect_streams import collect_streams
from leveret.analytics.findings.collect_traits import collect_traits
from leveret.analytics.findings.evidence import (
    ACTIVITY_US,
    STEPS_MAX,
    Attendance,
    Circling,
    ConsumerPause,
    DeadLetterFlow,
    Duplicates,
    Evidence,
    Gap,
    HotKey,
    LateReplies,
    Loss,
    Poison,
    QueueSteps,
    SeenConsumer,
    SeenPublisher,
    ShortLived,
    TraceSpan,
    Unattended,
    Unread,
    Unroutable,
    Usual,
)
from leveret.analytics.findings.finding import Queue
from leveret.analytics.tables.engine import Engine, Row
from leveret.analytics.tables.percentiles import percentile, percentiles

QUEUES_MAX = 100
"""Queues of a virtual host whose steps are read: the deepest, and the busiest."""
ROWS_MAX, STEP_ROWS_MAX = 5_000, 2_000_000
PAUSE_MIN_US, PAUSE_TIMES = 15_000_000, 5
"""A pause counts if it is that long, and that many times as long as is usual in its queue."""
HOLD_MIN_US, HOLD_TIMES = 60_000_000, 10
"""The same for a single message that is held while others are settled."""
PUBLISHERS_MAX = 30
"""Connections that publish to a queue whose figures are read; the others are one."""
CIRCLES_MIN = 4
SHORT_LIVED_US = 10_000_000
OPEN_MIN = 50
"""Connections of a user that stay open, whose times are read."""

_SPANS = """
    select vhost, min(first_us), max(last_us), max(sample) from summary where vhost is not null
    group by 1 order by 1
"""

_SUSPECTS = f"""
    select vhost, queue from (
        select vhost, queue,
            row_number() over (partition by vhost order by deepest desc, queue) as by_depth,
            row_number() over (partition by vhost order by busiest desc, queue) as by_traffic
        from (
            select vhost, queue, max(ready_max) as deepest, sum(came + delivered) as busiest
            from queue_activity group by 1, 2
        ) as sums
    ) as places where by_depth <= {QUEUES_MAX} or by_traffic <= {QUEUES_MAX}
"""
_QUEUE_COLUMNS = (
    "ready", "ready_max", "came", "delivered", "redelivered", "sent_back", "expired", "dropped",
    "bytes", "size_max", "wait_max_us",
)  # fmt: skip
_QUEUE_STEPS = f"""
    select vhost, queue, {STEP} as step, max_by(ready, at_us), max(ready_max), sum(came),
        sum(delivered), sum(redelivered), sum(sent_back), sum(expired), sum(dropped),
        sum(bytes), max(size_max), max(wait_max_us)
    from queue_activity join spans using (vhost) semi join suspects using (vhost, queue)
    group by vhost, queue, 3 order by 1, 2, 3
"""
_WORK_COLUMNS = ("settled", "busy_us", "hold_p50_us", "held_max", "consumers")
_WORK_STEPS = f"""
    select vhost, queue, {STEP} as step, sum(settled), sum(busy_us),
        {percentile("hold_p50_us", 0.5)}, max(held_max),
        count(distinct concat(connection, ' ', channel, ' ', coalesce(consumer_tag, '')))
    from consumer_activity join spans using (vhost) semi join suspects using (vhost, queue)
    group by vhost, queue, 3 order by 1, 2, 3
"""

_PLACES = (0.5, 0.9, 0.98)
_PLACE = "case when steps >= 60 then 2 when steps > 10 then 1 else 0 end"
_USUAL = f"""
    select vhost, queue, get(pauses, {_PLACE}) as usual_pause, get(holds, {_PLACE}) as usual_hold
    from (
        select vhost, queue, count(*) as steps, {percentiles("pause_us", *_PLACES)} as pauses,
            {percentiles("hold_max_us", *_PLACES)} as holds
        from consumer_activity where settled > 0 group by 1, 2
    ) as percentiles
"""
_TOOK = "if(settled > 0, cast(busy_us / settled as bigint), null)"
_CONSUMER = "vhost, queue, connection, channel, consumer_tag"
_PAUSES = f"""
    select vhost, queue, connection, consumer_tag, pause_end_us - pause_us, pause_end_us, held_max,
        false
    from consumer_activity join usual using (vhost, queue)
    where pause_us >= greatest({PAUSE_MIN_US}, {PAUSE_TIMES} * usual_pause)
    union all
    select vhost, queue, connection, consumer_tag, pause_end_us - hold_max_us, pause_end_us, 1, true
    from consumer_activity join usual using (vhost, queue)
    where hold_max_us >= greatest({HOLD_MIN_US}, {HOLD_TIMES} * usual_hold)
        and pause_us < hold_max_us / 4
    order by 1, 2, 5, 6, 3, 4, 7, 8
"""
_CONSUMERS = f"""
    with totals as (
        select {_CONSUMER}, sum(delivered) as delivered, sum(acknowledged) as acknowledged,
            sum(unacknowledged) as unacknowledged, min(first_us) as first_us,
            max(greatest(last_delivery_us, coalesce(last_ack_us, 0))) as last_us,
            min(oldest_us) as oldest_us, max(user) as user, sum(no_ack) as no_ack
        from consumers group by {_CONSUMER}
    ), worked as (
        select vhost, queue, connection, channel, coalesce(consumer_tag, '') as tag,
            count(*) as steps, sum(settled) as settled, sum(busy_us) as busy_us,
            {percentile(_TOOK, 0.5)} as work,
            max(held_max) as held_max, max(hold_max_us) as hold_max_us, max(mark_us) as mark_us,
            sum(rejected) as rejected, sum(sent_back) as sent_back,
            sum(out_of_order) as out_of_order, min(if(sent_back > 0, at_us, null)) as back_first_us,
            max(if(sent_back > 0, at_us, null)) as back_last_us
        from consumer_activity group by 1, 2, 3, 4, 5
    ), since as (
        select totals.vhost, totals.queue, totals.connection, totals.channel,
            coalesce(totals.consumer_tag, '') as tag, sum(settled) as settled_since
        from totals join consumer_activity as later on totals.vhost = later.vhost
            and totals.queue = later.queue and totals.connection = later.connection
            and totals.channel = later.channel
            and coalesce(totals.consumer_tag, '') = coalesce(later.consumer_tag, '')
        where at_us > oldest_us group by 1, 2, 3, 4, 5
    )
    select vhost, queue, connection, channel, consumer_tag, delivered, acknowledged,
        unacknowledged, first_us, last_us, oldest_us, coalesce(steps, 0), coalesce(settled, 0),
        coalesce(busy_us, 0), work, coalesce(held_max, 0), hold_max_us, mark_us,
        coalesce(settled_since, 0), coalesce(rejected, 0), coalesce(sent_back, 0),
        coalesce(out_of_order, 0), back_first_us, back_last_us, coalesce(user, ''), no_ack
    from (select *, coalesce(consumer_tag, '') as tag from totals) as known
        left join worked using (vhost, queue, connection, channel, tag)
        left join since using (vhost, queue, connection, channel, tag)
    order by unacknowledged desc, delivered desc, 1, 2, 3, 4, 5
"""
_ATTENDANCE = """
    select vhost, queue, sum(if(consumer_tag is null, 0, delivered)),
        sum(if(consumer_tag is null, delivered, 0))
    from consumers group by 1, 2
"""
_UNATTENDED = """
    select vhost, queue, since_us, until_us, ready_max, ready_last, came from unattended
    order by coalesce(until_us, 9e18) - since_us desc, 1, 2, 3
"""
_USERS = "select vhost, queue, user, sum(messages) from publishers group by 1, 2, 3 order by 4 desc"
_ARRIVALS = f"""
    with busiest as (
        select vhost, queue, connection, 1 as is_busy from (
            select vhost, queue, connection, row_number() over (
                partition by vhost, queue order by sum(messages) desc, connection) as place
            from publishers group by 1, 2, 3
        ) as places where place <= {PUBLISHERS_MAX}
    ), named as (
        select at_us, vhost, queue, user, messages,
            if(is_busy is null, '', connection) as connection
        from publishers semi join suspects using (vhost, queue)
            left join busiest using (vhost, queue, connection)
    )
    select vhost, queue, user, connection, {STEP} as step, sum(messages)
    from named join spans using (vhost)
    group by vhost, queue, user, connection, 5 order by 1, 2, 3, 4, 5
"""
_SENT = f"""
    select vhost, user, {STEP} as step, sum(messages) from publishers join spans using (vhost)
    where user is not null group by vhost, user, 3 order by 1, 2, 3
"""
_PRIORITIES = f"""
    select vhost, queue, priority, {STEP} as step, sum(came), sum(delivered)
    from priorities join spans using (vhost) semi join suspects using (vhost, queue)
    group by vhost, queue, priority, 4 order by 1, 2, 3, 4
"""
_REPLIES = """
    select vhost, user, connection, sum(replies), sum(late), max(late_max_us),
        min(if(late > 0, at_us, null)), max(if(late > 0, at_us, null))
    from replies group by 1, 2, 3 order by 5 desc, 1, 2, 3
"""
_SHARES = """
    select vhost, source, target, sum(messages) from topology
    where source_kind = 'exchange' and target_kind = 'queue' and dead_letters is null
        and source != ''
    group by 1, 2, 3 order by 4 desc, 1, 2, 3
"""
_POISON = """
    select vhost, queue, fate, count(*), sum(deliveries), max(deliveries),
        max(if(place = 1, message, null)), max(if(place = 1, message_id, null)), min(first_us),
        max(last_us)
    from (
        select *, row_number() over (partition by vhost, queue, fate
            order by deliveries desc, message) as place
        from poison
    ) as placed group by 1, 2, 3 order by 5 desc, 1, 2, 3
"""
_LOSSES = """
    select vhost, queue, fate, reason, count(*), min(ended_us), max(ended_us) from fates
    where fate in ('expired', 'rejected', 'dropped') group by 1, 2, 3, 4 order by 5 desc, 1, 2, 3, 4
"""
_DEATHS = """
    select vhost, queue, reason, coalesce(exchange, ''), queues, count(*), min(time_us),
        max(time_us)
    from dead_letters group by 1, 2, 3, 4, 5 order by 6 desc, 1, 2, 3, 4
"""
_CIRCLING = f"""
    select vhost, queue, count(*), sum(visits), max(visits),
        max(if(place = 1, first_message, null)), min(first), max(last)
    from (
        select *, row_number() over (partition by vhost, queue
            order by visits desc, first_message) as place
        from (
            select vhost, first_message, queue, count(*) as visits, min(time_us) as first,
                max(time_us) as last
            from dead_letters group by 1, 2, 3
        ) as visited
    ) as placed where visits >= {CIRCLES_MIN} group by 1, 2 order by 4 desc, 1, 2
"""
_UNROUTABLE = """
    select vhost, exchange, coalesce(routing_key, '(others)'), sum(messages), sum(returned),
        min(user), min(connection), min(unix_micros(minute)), max(unix_micros(minute))
    from unroutable group by 1, 2, 3 order by 4 desc, 1, 2, 3
"""
_HOT_KEYS = """
    select vhost, exchange, routing_key, max(messages), max(share) from routing_keys
    where temperature = 'hot' and exchange != '' group by 1, 2, 3 order by 4 desc, 1, 2, 3
"""
_DUPLICATES = """
    with publishing as (
        select vhost, queue, connection as last_connection, max(user) as user from publishers
        group by 1, 2, 3
    ), named as (
        select * from duplicates left join publishing using (vhost, queue, last_connection)
    ), publishers_of_id as (
        select vhost, queue, message_id, messages, count(distinct user) as users
        from (
            select vhost, queue, message_id, messages, explode(connections) as last_connection
            from duplicates
        ) as each join publishing using (vhost, queue, last_connection)
        group by vhost, queue, message_id, messages
    ), once as (
        select vhost, queue, sum(if(users = messages, 1, 0)) as ids_once
        from publishers_of_id group by 1, 2
    ), users as (
        select vhost, queue, user, own, row_number() over (partition by vhost, queue
            order by own desc, user) as user_place
        from (select vhost, queue, user, count(*) as own from named group by 1, 2, 3) as sums
    ), placed as (
        select *, row_number() over (partition by vhost, queue
            order by messages desc, message_id) as place
        from duplicates
    ), sums as (
        select vhost, queue, count(*) as ids, max(if(place = 1, message_id, null)) as worst,
            max(messages) as messages, min(first_us) as first_us, max(last_us) as last_us
        from placed group by 1, 2
    )
    select vhost, queue, ids, worst, messages, first_us, last_us, user, own,
        coalesce(ids_once, 0)
    from sums join users using (vhost, queue) left join once using (vhost, queue)
    where user_place = 1 order by 3 desc, 1, 2
"""
_SHORT_LIVED = f"""
    select vhost, user, count(*), sum(published), {percentile("lived_us", 0.5)}, min(opened_us),
        max(closed_us)
    from connections where lived_us < {SHORT_LIVED_US} group by 1, 2 order by 3 desc, 1, 2
"""
_CLOSINGS = f"""
    select vhost, user, closed_us from connections
    where closed_us is not null and user is not null
        and coalesce(lived_us, {SHORT_LIVED_US}) >= {SHORT_LIVED_US}
    order by closed_us desc, 1, 2
"""
_OPENED = f"""
    with lives as (
        select vhost, connection, max(user) as user, max(opened_us) as opened_us,
            max(closed_us) as closed_us
        from connections group by 1, 2
    ), many as (
        select vhost, user from lives where opened_us is not null group by 1, 2
        having sum(if(closed_us is null, 1, 0)) >= {OPEN_MIN}
    )
    select vhost, user, opened_us, closed_us is not null from lives semi join many
        using (vhost, user)
    where opened_us is not null order by 1, 2, 3, 4
"""
OPENED_MAX = 100_000
_GAPS = """
    select vhost, count(*), sum(lost), min(time_us), max(until_us) from gaps group by 1 order by 1
"""
_UNREAD = "select reason, count(*), min(file) from rejected group by 1 order by 2 desc, 1"


def collect_evidence(engine: Engine) -> Evidence:
    """Return the figures of the tables, which exist as views."""
    found = Evidence()
    _collect_spans(engine, found)
    engine.view("suspects", _SUSPECTS)
    engine.view("usual", _USUAL)
    for query, columns in ((_QUEUE_STEPS, _QUEUE_COLUMNS), (_WORK_STEPS, _WORK_COLUMNS)):
        _collect_steps(engine, found, query, columns)
    _collect_consumers(engine, found)
    _collect_publishers(engine, found)
    _collect_messages(engine, found)
    collect_streams(engine, found)
    collect_traits(engine, found)
    collect_consumer_steps(engine, found)
    found.short_lived = [ShortLived(*row) for row in _rows(engine, _SHORT_LIVED)]
    for vhost, user, closed_us in _rows(engine, _CLOSINGS):
        found.closings.setdefault((vhost, user), []).append(closed_us)
    for vhost, user, opened_us, is_closed in _rows(engine, _OPENED, OPENED_MAX):
        found.opened.setdefault((vhost, user), []).append((opened_us, is_closed))
    found.gaps = [Gap(*row) for row in _rows(engine, _GAPS)]
    found.unread = [Unread(row[0] or "", *row[1:]) for row in _rows(engine, _UNREAD)]
    return found


def _rows(engine: Engine, query: str, limit: int = ROWS_MAX) -> list[Row]:
    return engine.rows(f"{query} limit :limit", {"limit": limit})


def _collect_spans(engine: Engine, found: Evidence) -> None:
    for vhost, first_us, last_us, sample in _rows(engine, _SPANS):
        begins_us = first_us - first_us % ACTIVITY_US
        tens = (last_us - begins_us) // ACTIVITY_US + 1
        step_us = ACTIVITY_US * -(-tens // STEPS_MAX)
        found.spans[vhost] = TraceSpan(begins_us, last_us, step_us, sample or 1)
    spans = found.spans
    engine.put("spans", pa.table({
        "vhost": pa.array(list(spans), pa.string()),
        "begins_us": pa.array([one.begins_us for one in spans.values()], pa.int64()),
        "step_us": pa.array([one.step_us for one in spans.values()], pa.int64()),
    }))  # fmt: skip


def _collect_steps(engine: Engine, found: Evidence, query: str, columns: tuple[str, ...]) -> None:
    for vhost, name, step, *values in _rows(engine, query, STEP_ROWS_MAX):
        queue = Queue(vhost, name)
        steps = found.queues.get(queue)
        if steps is None:
            steps = found.queues[queue] = QueueSteps(queue, found.spans[vhost])
        for column, value in zip(columns, values, strict=True):
            if value is not None:
                getattr(steps, column)[step] = value


def _collect_consumers(engine: Engine, found: Evidence) -> None:
    found.usual = {
        Queue(vhost, queue): Usual(pause or 0, hold or 0)
        for vhost, queue, pause, hold in engine.rows("select * from usual")
    }
    found.consumers = [SeenConsumer(*_of_queue(row)) for row in _rows(engine, _CONSUMERS)]
    found.pauses = [ConsumerPause(*_of_queue(row)) for row in _rows(engine, _PAUSES)]
    found.unattended = [Unattended(*_of_queue(row)) for row in _rows(engine, _UNATTENDED)]
    for vhost, queue, consumed, got in engine.rows(_ATTENDANCE):
        found.attendance[Queue(vhost, queue)] = Attendance(consumed, got)


def _collect_publishers(engine: Engine, found: Evidence) -> None:
    for vhost, queue, user, _ in _rows(engine, _USERS):
        found.users.setdefault(Queue(vhost, queue), []).append(user or "")
    for vhost, queue, user, connection, step, messages in _rows(engine, _ARRIVALS, STEP_ROWS_MAX):
        arrived = found.arrivals.setdefault(Queue(vhost, queue), {})
        arrived.setdefault(SeenPublisher(user or "", connection or ""), {})[step] = messages
    for vhost, user, step, messages in _rows(engine, _SENT, STEP_ROWS_MAX):
        found.sent.setdefault(vhost, {}).setdefault(user, {})[step] = messages
    for vhost, queue, priority, step, *counts in _rows(engine, _PRIORITIES, STEP_ROWS_MAX):
        by_priority = found.priorities.setdefault(Queue(vhost, queue), {})
        by_priority.setdefault(priority, {})[step] = (counts[0], counts[1])
    found.replies = [LateReplies(*row) for row in _rows(engine, _REPLIES)]
    for vhost, exchange, queue, messages in _rows(engine, _SHARES):
        found.shares.setdefault((vhost, exchange), {})[queue] = messages


def _collect_messages(engine: Engine, found: Evidence) -> None:
    found.poison = [Poison(*_of_queue(row)) for row in _rows(engine, _POISON)]
    found.losses = [Loss(*_of_queue(row)) for row in _rows(engine, _LOSSES)]
    found.circling = [Circling(*_of_queue(row)) for row in _rows(engine, _CIRCLING)]
    for vhost, queue, reason, exchange, targets, *more in _rows(engine, _DEATHS):
        found.deaths.append(
            DeadLetterFlow(Queue(vhost, queue), reason, exchange, tuple(targets or ()), *more)
        )
    found.unroutable = [Unroutable(*map(_known, row)) for row in _rows(engine, _UNROUTABLE)]
    found.hot_keys = [HotKey(*map(_known, row)) for row in _rows(engine, _HOT_KEYS)]
    found.duplicates = [Duplicates(*_of_queue(row)) for row in _rows(engine, _DUPLICATES)]


def _of_queue(row: Row) -> tuple[Any, ...]:
    return (Queue(row[0], row[1]), *row[2:])


def _known(value: Any) -> Any:
    return "" if value is None else value
