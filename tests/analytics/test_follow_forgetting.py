"""A follow forgets messages that left their queues long ago, and its tables stay those of a
batch.
"""

import random
from datetime import UTC, datetime, timedelta

import pytest

from leveret.analytics.job import follow_quickly
from leveret.analytics.job.follow_quickly import Following
from leveret.analytics.job.follow_state import KeptState
from leveret.analytics.job.job import JobOptions
from leveret.analytics.tables.plausible import DAY_US
from tests.analytics.logs import SECOND_US, START_US, event
from tests.analytics.tables import read_rows
from tests.analytics.test_against_reference import random_log
from tests.analytics.test_follow_quickly import RunningLog, same_as_a_batch

pytestmark = pytest.mark.usefixtures("without_reports")
KEEP_DAYS = 2
OF_MESSAGES = ("steps", "ids", "measured", "hold_events")


@pytest.fixture
def trace(tmp_path):
    return tmp_path / "trace"


@pytest.fixture
def options(trace, tmp_path):
    return JobOptions(str(trace), str(tmp_path / "out"))


@pytest.fixture
def following(options):
    return Following(options, keep_days=KEEP_DAYS)


def of_day(day, message, *, acknowledged_on=None):
    """The records of a message, which is acknowledged on the day of its publish or later."""
    at_us = START_US + day * DAY_US
    acked_us = START_US + (day if acknowledged_on is None else acknowledged_on) * DAY_US
    named = {"properties": {"message_id": f"id {message}"}}
    return [
        event("publish", at_us, message=message, queues=["q"], **named),
        event("deliver", at_us + SECOND_US, message=message, queue="q"),
        event("ack", acked_us + 3 * SECOND_US, message=message, queue="q"),
    ]


def kept(options, *tables):
    """How many rows the state has in tables, by table."""
    with KeptState(options).engine() as engine:
        return {one: engine.rows(f"select count(*) from state.{one}")[0][0] for one in tables}


def test_messages_of_earlier_days_are_forgotten(trace, options, following, tmp_path):
    log = RunningLog(trace)
    for days in (range(4), range(4, 10)):
        for day in days:
            log.write(of_day(day, day + 1))
        following.update()
    # Those of the last day, and of two before it.
    assert kept(options, *OF_MESSAGES) == {"steps": 9, "ids": 3, "measured": 6, "hold_events": 6}
    log.finish()
    following.update()
    same_as_a_batch(trace, tmp_path)


def test_a_message_that_is_still_unacknowledged_is_not_forgotten(trace, following, tmp_path):
    log = RunningLog(trace)
    published, delivered, acknowledged = of_day(0, 100, acknowledged_on=9)
    log.write([published, delivered])
    log.write(of_day(9, 1))
    following.update()
    log.write([acknowledged])
    log.finish()
    following.update()
    same_as_a_batch(trace, tmp_path)


def test_a_message_that_was_acknowledged_on_a_day_that_is_kept_has_all_its_steps(
    trace, options, following, tmp_path
):
    log = RunningLog(trace)
    first, *rest = of_day(0, 1, acknowledged_on=4)
    log.write([first, *rest])
    log.write(of_day(5, 2))
    following.update()
    assert kept(options, "steps") == {"steps": 6}
    log.write([event("deliver", START_US + 5 * DAY_US, message=1, queue="q", redelivered=True)])
    log.finish()
    following.update()
    same_as_a_batch(trace, tmp_path)


def rows_of_day(tmp_path, day):
    """Latency, and what consumers did, on a day."""
    on = str(datetime.fromtimestamp(START_US / 1e6, UTC).date() + timedelta(days=day))
    tables = (read_rows(tmp_path / "out", one) for one in ("latency", "consumer_activity"))
    return [row for rows in tables for row in rows if row.date == on]


def test_records_that_come_very_late_change_no_minute_of_a_day_that_is_forgotten(
    trace, following, tmp_path
):
    log = RunningLog(trace)
    log.write([*of_day(0, 1), *of_day(0, 2)])
    log.write(of_day(8, 3))
    following.update()
    before = rows_of_day(tmp_path, 0)
    assert before
    forgotten = [event("ack", START_US + 9 * SECOND_US, message=1, queue="q")]
    log.write([*forgotten, *of_day(0, 4), *of_day(8, 5)])
    following.update()
    assert rows_of_day(tmp_path, 0) == before


def test_a_follow_that_ends_while_it_forgets_forgets_later(
    trace, options, following, tmp_path, monkeypatch
):
    def interrupted(state):
        yield "delete from state.measured", {}
        raise KeyboardInterrupt

    log = RunningLog(trace)
    log.write(of_day(0, 1))
    log.write(of_day(8, 2))
    with monkeypatch.context() as changed:
        changed.setattr(follow_quickly, "forgotten", interrupted)
        with pytest.raises(KeyboardInterrupt):
            following.update()
    assert kept(options, "measured") == {"measured": 4}
    following = Following(options, keep_days=KEEP_DAYS)
    log.write(of_day(8, 3))
    following.update()
    assert kept(options, "measured") == {"measured": 4}
    log.finish()
    following.update()
    same_as_a_batch(trace, tmp_path)


def test_tables_of_many_days_are_those_of_a_batch(trace, options, tmp_path):
    choice = random.Random(1)
    records = random_log("days", "/", 400)
    last_us = max(record["time_us"] for record in records)
    for record in records:
        record["time_us"] = START_US + (record["time_us"] - START_US) * 9 * DAY_US // (
            last_us - START_US
        )
    log, following = RunningLog(trace), Following(options, keep_days=1)
    while records:
        count = choice.randint(20, 80)
        log.write(records[:count])
        del records[:count]
        if choice.random() < 0.3:
            following = Following(options, keep_days=1)
        if choice.random() < 0.3:
            following.update()
        else:
            following.trigger()
    log.finish()
    following.update()
    assert following.state.kept_since_us is not None
    same_as_a_batch(trace, tmp_path)
