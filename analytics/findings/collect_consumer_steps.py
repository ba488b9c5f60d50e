"""Collects what consumers do with messages, step by step, in queues in which it may matter.

These are queues in which messages wait, and queues in which a consumer takes much longer than it
usually does. Of each queue the consumers that settle most are read, and how long messages are held
by their kind.
"""

from leveret.analytics.findings.episodes import PEAK_MIN
from leveret.analytics.findings.evidence import ConsumerSteps, Evidence, HeldKind
from leveret.analytics.findings.finding import Queue
from leveret.analytics.findings.paces import SLOW_STEPS_MIN, SLOW_TIMES
from leveret.analytics.tables.engine import Engine
from leveret.analytics.tables.percentiles import percentile

CONSUMERS_MAX, ROWS_MAX = 30, 1_000_000
"""Consumers of a queue, and rows of all, that are read."""

STEP = "cast((at_us - begins_us - (at_us - begins_us) % step_us) / step_us as int)"
"""The step of a row with the time `at_us`, of the view `spans`."""
_CONSUMER = "vhost, queue, connection, channel, tag"
_WORKED = """
    select *, coalesce(consumer_tag, '') as tag,
        if(settled > 0, cast(busy_us / settled as bigint), null) as took
    from consumer_activity semi join suspects using (vhost, queue)
"""
_UNUSUAL = f"""
    select vhost, queue from queue_activity group by 1, 2 having max(ready_max) >= {PEAK_MIN}
    union
    select vhost, queue from worked join (
        select {_CONSUMER}, {percentile("took", 0.25)} as usual from worked
        where settled > 0 group by {_CONSUMER}
    ) as quartiles using ({_CONSUMER})
    where took >= {SLOW_TIMES} * usual group by 1, 2 having count(*) >= {SLOW_STEPS_MIN}
"""
_STEPS = f"""
    with placed as (
        select {_CONSUMER}, row_number() over (partition by vhost, queue
            order by settled desc, connection, channel, tag) as place
        from (
            select {_CONSUMER}, sum(settled) as settled from worked
                semi join unusual using (vhost, queue)
            group by {_CONSUMER}
        ) as sums where settled > 0
    )
    select {_CONSUMER}, {STEP} as step, sum(settled), sum(busy_us)
    from worked join placed using ({_CONSUMER}) join spans using (vhost)
    where place <= {CONSUMERS_MAX}
    group by {_CONSUMER}, 6 order by 1, 2, 3, 4, 5, 6 limit {ROWS_MAX}
"""
_KINDS = f"""
    select vhost, queue, routing_key, up_to_bytes, {STEP} as step, sum(messages), min(least_us)
    from held_kinds join spans using (vhost) semi join unusual using (vhost, queue)
        semi join suspects using (vhost, queue)
    group by vhost, queue, routing_key, up_to_bytes, 5 order by 1, 2, 3, 4, 5 limit {ROWS_MAX}
"""


def collect_consumer_steps(engine: Engine, found: Evidence) -> None:
    """Add the steps of consumers. The views `suspects` and `spans` exist."""
    engine.view("worked", _WORKED)
    engine.view("unusual", _UNUSUAL)
    consumers: dict[tuple[Queue, str, int, str], ConsumerSteps] = {}
    for vhost, name, connection, channel, tag, step, settled, busy_us in engine.rows(_STEPS):
        key = (Queue(vhost, name), connection, channel, tag)
        one = consumers.get(key)
        if one is None:
            one = consumers[key] = ConsumerSteps(key[0], connection, tag)
            found.consumer_steps.setdefault(key[0], []).append(one)
        one.settled[step], one.busy_us[step] = settled, busy_us
    kinds: dict[tuple[Queue, str, int], HeldKind] = {}
    for vhost, name, routing_key, up_to_bytes, step, messages, least_us in engine.rows(_KINDS):
        of_kind = (Queue(vhost, name), routing_key, up_to_bytes)
        kind = kinds.get(of_kind)
        if kind is None:
            kind = kinds[of_kind] = HeldKind(routing_key, up_to_bytes)
            found.held_kinds.setdefault(of_kind[0], []).append(kind)
        kind.held[step] = messages, least_us
