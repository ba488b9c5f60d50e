"""Finds minutes that differ strongly from the same weekday and hour, and says how in words.

Input is the finished tables, which are small. The baseline is the median of a measure over all
minutes of the same weekday and hour; the score is the distance from it in robust standard
deviations (1.48 times the median absolute deviation). The deviation is at least 1/20 of the median,
so that under a steady load small changes do not count. Minutes without traffic count as 0. The
first and the last minute of the trace are incomplete and are left out.
"""

from leveret.analytics.tables.engine import Engine
from leveret.analytics.tables.percentiles import percentile

MINUTES_MIN, SCORE_MIN = 20, 6.0
"""Minutes that a baseline needs, and the least score of an anomaly."""

_SERIES = """
    with named as (
        select minute, vhost, kind, name, published, delivered from traffic
        where kind in ('exchange', 'queue')
    ), ends as (
        select vhost, kind, name,
            greatest(min(minute), (select min(minute) from named) + interval 1 minute) as first,
            (select max(minute) from named) - interval 1 minute as last
        from named group by vhost, kind, name
    ), all_minutes as (
        select vhost, kind, name, explode(sequence(first, last, interval 1 minute)) as minute
        from ends where first <= last
    )
    select minute, vhost, kind, name, 'published' as measure,
        cast(coalesce(published, 0) as double) as value
    from all_minutes left join named using (vhost, kind, name, minute)
    union all
    select minute, vhost, kind, name, 'delivered', cast(coalesce(delivered, 0) as double)
    from all_minutes left join named using (vhost, kind, name, minute)
    union all
    select minute, vhost, 'queue', queue, 'wait_p99_us', cast(wait_p99_us as double) from latency
    union all
    select minute, vhost, 'queue', queue, 'ack_p99_us', cast(ack_p99_us as double) from latency
    union all
    select minute, vhost, 'queue', queue, 'ready', cast(ready as double) from depth
"""

_KEY = "vhost, kind, name, measure, weekday(minute), hour(minute)"

_WORDS = """
    concat(kind, ' ', if(name = '', '(default)', name), ': ', case measure
            when 'published' then 'messages published a minute'
            when 'delivered' then 'messages delivered a minute'
            when 'wait_p99_us' then 'the wait for a consumer (99th percentile)'
            when 'ack_p99_us' then 'the time to acknowledge (99th percentile)'
            else 'messages waiting' end,
        if(value > usual, ' rose to ', ' fell to '),
        if(measure like '%_us', concat(format_number(value / 1000, 1), ' ms'),
            format_number(value, 0)),
        ' at ', date_format(minute, 'yyyy-MM-dd HH:mm'), '; usual on ',
        date_format(minute, 'EEEE'), 's from ', hour(minute), ' to ', hour(minute) + 1, ' is ',
        if(measure like '%_us', concat(format_number(usual / 1000, 1), ' ms'),
            format_number(usual, 0)))
"""

ANOMALIES = f"""
    with series as (select * from ({_SERIES}) as measured where value is not null), medians as (
        select *, {percentile("value", 0.5)} over (partition by {_KEY}) as usual,
            count(*) over (partition by {_KEY}) as minutes
        from series
    ), deviations as (
        select *, {percentile("abs(value - usual)", 0.5)} over (partition by {_KEY}) as deviation
        from medians
    ), scored as (
        select *, (value - usual) / greatest(1.4826e0 * deviation, usual / 20,
            if(measure like '%_us', 1000, 1)) as score
        from deviations
    )
    select to_date(minute) as date, minute, vhost, kind, name, measure, value, usual, score,
        minutes, {_WORDS} as reason
    from scored where minutes >= {MINUTES_MIN} and abs(score) >= {SCORE_MIN}
"""


def open_series(engine: Engine, where: str) -> None:
    """Open the finished tables below `where` from which anomalies are made."""
    for name in ("traffic", "latency", "depth"):
        engine.open_table(where, name)
