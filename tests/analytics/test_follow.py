"""Following logs, stopped and started again in the middle, gives what the batch job gives."""

import pytest

from analytics.follow import STATE, follow
from analytics.job import Options, analyze
from analytics.output import read_table
from tests.analytics.logs import SECOND_US, START_US, event, write_log

TABLES = ("traffic", "latency", "depth", "outcomes", "fates")


def records(first):
    """Ten messages, published in one file and delivered in the next."""
    found = []
    for number in range(first, first + 10):
        at = START_US + number * SECOND_US
        found.append(event("publish", at, message=number, queues=["q"]))
        if number > 10:
            found.append(event("deliver", at + 5, message=number - 10))
            found.append(event("ack", at + 9, message=number - 10))
    return found


def everything(spark, out):
    return {name: sorted(map(str, read_table(spark, out, name).collect())) for name in TABLES}


@pytest.mark.timeout(300)
def test_a_restart_in_the_middle_changes_nothing(spark, tmp_path):
    trace, followed, at_once = (str(tmp_path / name) for name in ("trace", "followed", "at_once"))
    options = Options(trace, followed, only=TABLES)
    write_log(tmp_path / "trace", records(1), name="1")
    follow(spark, options, None, keep_days=7)
    # As if it had ended after the batch was written and before that was noted.
    (tmp_path / "followed" / STATE / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "followed" / STATE / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    write_log(tmp_path / "trace", records(11), name="2")
    follow(spark, options, None, keep_days=7)
    analyze(spark, options._replace(out=at_once))
    assert everything(spark, followed) == everything(spark, at_once)
    assert len(everything(spark, followed)["fates"]) == 10
