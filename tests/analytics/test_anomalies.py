"""Anomalies in three weeks of two queues: minutes that differ from the same weekday and hour.

Mondays from 8 to 9 are quiet, and from 9 to 10 busy, so each hour has its own baseline.
"""

from datetime import timedelta
from typing import NamedTuple

import pyarrow as pa
import pytest

from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.tables.anomalies import ANOMALIES
from tests.analytics.logs import MINUTE_US, START_US

WEEK_US = 7 * 24 * 60 * MINUTE_US
QUIET, BUSY = 10, 400
QUICK_US, SLOW_US = 12_000, 4_000_000
RISE, FALL = 2 * 120 + 17, 120 + 75
"""Minutes since the start: 8:17 of the third Monday, and 9:15 of the second."""
SLOW = 120 + 33


class Anomaly(NamedTuple):
    name: str
    measure: str
    time_us: int
    value: float
    usual: float
    score: float
    minutes: int
    reason: str
    date: object


_TIME_US = f"{START_US} + (id - id % 120) / 120 * {WEEK_US} + (id % 120) * {MINUTE_US}"

MINUTES = f"""
    select id, timestamp_micros(cast({_TIME_US} as bigint)) as minute, '/' as vhost,
        if(id % 120 < 60, {QUIET}, {BUSY}) + id % 3 as usual
    from ids
"""
"""Two hours of three Mondays. id: the number of the minute."""

TRAFFIC = f"""
    select minute, vhost, 'queue' as kind, 'orders' as name, 0 as delivered,
        case id when {RISE} then {BUSY} when {FALL} then 0 else usual end as published
    from minutes
    union all
    select minute, vhost, 'queue', 'brief', 0, if(id = 355, 9000, 1) from minutes where id >= 350
    union all
    select minute + if(id = 0, -1, 1) * interval 10 minutes, vhost, 'exchange', 'ends', 0, 0
    from minutes where id in (0, 359)
"""
"""Regular traffic except for two minutes, and a queue that is too new for a baseline. The exchange
extends the trace, whose first and last minute are ignored.
"""

LATENCY = f"""
    select minute, vhost, 'orders' as queue, null as ack_p99_us,
        if(id = {SLOW}, {SLOW_US}, {QUICK_US}) + id % 7 as wait_p99_us
    from minutes
"""

DEPTH = "select minute, vhost, 'orders' as queue, 1000 + id % 2 as ready from minutes"
"""Always 1,000, plus or minus one: no anomalies."""


@pytest.fixture(scope="module")
def found():
    """The anomalies, in any order."""
    with DuckDBEngine() as engine:
        engine.put("ids", pa.table({"id": range(3 * 120)}))
        for name, query in (
            ("minutes", MINUTES), ("traffic", TRAFFIC), ("latency", LATENCY), ("depth", DEPTH),
        ):  # fmt: skip
            engine.view(name, query)
        columns = "name, measure, unix_micros(minute), value, usual, score, minutes, reason, date"
        rows = engine.rows(f"select {columns} from ({ANOMALIES}) as found")
    return [Anomaly(*row) for row in rows]


def test_those_minutes_are_found_and_no_others(found):
    places = {
        (row.name, row.measure, timedelta(microseconds=row.time_us - START_US)) for row in found
    }
    week, minute = timedelta(weeks=1), timedelta(minutes=1)
    assert places == {
        ("orders", "published", 2 * week + 17 * minute),
        ("orders", "published", week + 75 * minute),
        ("orders", "wait_p99_us", week + 33 * minute),
    }


def test_the_reason_is_told_in_words(found):
    assert sorted(row.reason for row in found) == [
        "queue orders: messages published a minute fell to 0 at 2026-01-12 09:15; usual on Mondays"
        " from 9 to 10 is 401",
        "queue orders: messages published a minute rose to 400 at 2026-01-19 08:17; usual on"
        " Mondays from 8 to 9 is 11",
        "queue orders: the wait for a consumer (99th percentile) rose to 4,000.0 ms at 2026-01-12"
        " 08:33; usual on Mondays from 8 to 9 is 12.0 ms",
    ]


def test_the_figures_behind_it(found):
    (rise,) = [row for row in found if row.value == BUSY]
    assert (rise.usual, rise.minutes, str(rise.date)) == (11, 180, "2026-01-19")
    assert rise.score > 100
    (fall,) = [row for row in found if row.value == 0]
    assert fall.score < -6
