"""Anomalies in three weeks of two queues: minutes that differ from the same weekday and hour.

Mondays from 8 to 9 are quiet, and from 9 to 10 busy, so each hour has its own baseline.
"""

from datetime import timedelta

import pytest

from leveret.analytics.anomalies import anomaly_table
from leveret.analytics.output import BY_NAME, write_table
from tests.analytics.logs import MINUTE_US, START_US

pytestmark = pytest.mark.timeout(240)

WEEK_US = 7 * 24 * 60 * MINUTE_US
QUIET, BUSY = 10, 400
QUICK_US, SLOW_US = 12_000, 4_000_000
RISE, FALL = 2 * 120 + 17, 120 + 75
"""Minutes since the start: 8:17 of the third Monday, and 9:15 of the second."""
SLOW = 120 + 33


def minutes(session):
    """Two hours of three Mondays. at: the number of the minute."""
    week, minute = "id div 120", "id % 120"
    time_us = f"{START_US} + ({week}) * {WEEK_US} + ({minute}) * {MINUTE_US}"
    return session.range(3 * 120).selectExpr(
        "id as at", f"timestamp_micros({time_us}) as minute",
        f"to_date(timestamp_micros({time_us})) as date", "'/' as vhost",
        f"if({minute} < 60, {QUIET}, {BUSY}) + id % 3 as usual",
    )  # fmt: skip


def traffic(rows):
    """Regular traffic except for two minutes, and a queue that is too new for a baseline."""
    published = f"case at when {RISE} then {BUSY} when {FALL} then 0 else usual end"
    known = rows.selectExpr("*", "'queue' as kind", "'orders' as name", f"{published} as published")
    brief = rows.where("at >= 350").selectExpr(
        "*", "'queue' as kind", "'brief' as name", "if(at = 355, 9000, 1) as published"
    )
    # Extends the trace, whose first and last minute are ignored.
    ends = rows.where("at in (0, 359)").selectExpr(
        "minute + if(at = 0, -1, 1) * interval 10 minutes as minute", "date", "vhost",
        "'exchange' as kind", "'ends' as name", "0 as published",
    )  # fmt: skip
    both = known.unionByName(brief).unionByName(ends, allowMissingColumns=True)
    return both.selectExpr("*", "0 as delivered")


def latency(rows):
    wait = f"if(at = {SLOW}, {SLOW_US}, {QUICK_US}) + at % 7 as wait_p99_us"
    return rows.selectExpr("*", "'orders' as queue", wait)


def depth(rows):
    """Always 1,000, plus or minus one: no anomalies."""
    return rows.selectExpr("*", "'orders' as queue", "1000 + at % 2 as ready")


def write(rows, name, out):
    """Write a table, with null in missing columns."""
    known = set(rows.columns)
    nulls = [
        f"cast(null as {column.type}) as `{column.name}`"
        for column in BY_NAME[name].columns
        if column.name not in known
    ]
    write_table(rows.selectExpr("*", *nulls), BY_NAME[name], out)


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory):
    """The anomalies, by (measure, minute)."""
    session, out = spark.newSession(), str(tmp_path_factory.mktemp("weeks"))
    rows = minutes(session)
    write(traffic(rows), "traffic", out)
    write(latency(rows), "latency", out)
    write(depth(rows), "depth", out)
    at = f"(unix_micros(minute) - {START_US}) as since_us"
    return anomaly_table(session, out).selectExpr("*", at).collect()


def test_those_minutes_are_found_and_no_others(found):
    places = {(row.name, row.measure, timedelta(microseconds=row.since_us)) for row in found}
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
