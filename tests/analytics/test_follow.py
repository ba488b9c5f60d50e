"""Following logs: after a restart the result equals that of the batch job; old data is released."""

import os
import signal
import threading
import time
from datetime import UTC, date, datetime, timedelta

import pytest

from leveret.analytics.job.follow import STATE, follow
from leveret.analytics.job.job import JobOptions
from leveret.analytics.traces.trace_files import TraceWindow
from tests.analytics.counts import write_counts
from tests.analytics.known_trace import write_known_trace
from tests.analytics.logs import MINUTE_US, START_US, event, header, write_log
from tests.analytics.tables import everything, read_rows, without_directories
from tests.patience import PATIENCE_SECONDS

WRITES_TABLES = "leveret.analytics.job.follow.write_tables"
DAY_US = 24 * 60 * MINUTE_US
KEEP_DAYS = 7


def forget_that_a_batch_was_done(out, number):
    """Simulate that the job ended after writing the tables and before recording the batch."""
    commits = out / STATE / "checkpoint" / "commits"
    (commits / str(number)).unlink()
    (commits / f".{number}.crc").unlink(missing_ok=True)


@pytest.fixture
def only_counts(monkeypatch):
    monkeypatch.setattr(WRITES_TABLES, write_counts)


@pytest.mark.usefixtures("only_counts")
def test_a_restart_in_the_middle_changes_nothing(spark, known_tables, tmp_path):
    trace, out = tmp_path / "trace", tmp_path / "out"
    few = ("summary", "traffic", "rejected")
    options = JobOptions(str(trace), str(out), only=few)
    write_known_trace(trace, part=0)
    follow(spark, options, None, KEEP_DAYS)
    write_known_trace(trace, part=1)
    follow(spark, options, None, KEEP_DAYS)
    forget_that_a_batch_was_done(out, 1)
    follow(spark, options, None, KEEP_DAYS)
    followed = without_directories(everything(out, few))
    at_once = without_directories(everything(known_tables, few))
    for name, rows in at_once.items():
        assert followed[name] == rows, name
    assert followed["traffic"]
    assert len(followed["rejected"]) == 1


class Followed:
    """A trace directory of one vhost that is followed."""

    def __init__(self, spark, directory):
        self.spark, self.trace, self.out = spark, directory / "trace", directory / "out"
        window = TraceWindow(vhost="/")
        self.options = JobOptions(str(self.trace), str(self.out), window, only=("traffic",))

    def comes(self, *days, vhost="/", name="first"):
        """Add a message in a file of each of these days after the start, then follow."""
        for day in days:
            at_us = START_US + day * DAY_US
            message = event("publish", at_us, vhost, message=day + 1, queues=["q"])
            write_log(self.trace, [message], vhost, f"{day}-{name}", header(vhost=vhost), at_us)
        follow(self.spark, self.options, None, KEEP_DAYS)

    def days(self):
        """The number of messages of each day."""
        rows = [row for row in read_rows(self.out, "traffic") if row.kind == "queue"]
        start = datetime.fromtimestamp(START_US / 1e6, UTC).date()
        days = [(date.fromisoformat(row.date) - start) // timedelta(days=1) for row in rows]
        return dict(zip(days, (row.published for row in rows), strict=True))

    def batches(self):
        """The staged batches."""
        return {int(path.name[6:]) for path in (self.out / STATE / "records").glob("batch=*")}


@pytest.mark.usefixtures("only_counts")
def test_records_are_let_go_and_their_dates_are_final(spark, tmp_path):
    followed = Followed(spark, tmp_path)
    # Files without wanted records, in a batch of their own.
    followed.comes(0, vhost="other")
    assert followed.days() == {}
    followed.comes(0, 12)
    assert followed.days() == {0: 1, 12: 1}
    followed.comes(25)
    assert followed.days() == {0: 1, 12: 1, 25: 1}
    assert 1 not in followed.batches()
    # Too late: its date is final.
    followed.comes(12, name="late")
    assert followed.days() == {0: 1, 12: 1, 25: 1}


def interrupt_when(is_time):
    """Send one SIGINT when the condition becomes true."""

    def watch():
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_time() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@pytest.mark.usefixtures("only_counts")
def test_an_interrupt_ends_it_after_the_batch(spark, tmp_path):
    trace, out = tmp_path / "trace", tmp_path / "out"
    write_log(trace, [event("publish", START_US, message=1, queues=["q"])])
    options = JobOptions(str(trace), str(out), only=("summary",))
    thread = interrupt_when((out / STATE / "records").exists)
    with pytest.raises(KeyboardInterrupt):
        follow(spark, options, 0.5, KEEP_DAYS)
    thread.join()
    assert (out / STATE / "checkpoint" / "commits" / "0").exists()
    assert {row.event for row in read_rows(out, "summary")} == {"header", "publish"}
