"""The estimate of the time that the job still takes: a model, corrected while the job runs."""

import io

import pytest

from leveret.analytics.job.costs import COSTS
from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.estimate import TRUST_SECONDS, Cost, Estimate
from leveret.analytics.job.progress import JobProgress, shown_seconds
from leveret.analytics.tables.tables import TABLES
from leveret.analytics.traces import record_files
from leveret.analytics.traces.trace_files import EVERYTHING
from tests.analytics.logs import START_US, event, write_log

COST = {"read": Cost(1.0, 2.0), "sum": Cost(3.0, 4.0)}
READ, SUM = 1 + 2 * 2, 3 + 2 * 4
"""Seconds that the steps take for two million events, by the model."""


@pytest.fixture
def estimate():
    return Estimate(COST, 2_000_000)


def test_before_the_first_step_it_is_the_model(estimate):
    assert estimate.left() == READ + SUM


def test_the_number_of_events_can_be_corrected(estimate):
    estimate.events = 0
    assert estimate.left() == 1 + 3


def test_blocks_take_time_beside_their_events():
    """A quiet vhost has a block for each 30 events."""
    estimate = Estimate({"read": Cost(1.0, 2.0, 30.0)}, 3_000_000, 100_000)
    assert estimate.left() == 1 + 3 * 2 + 3


def test_a_machine_as_quick_as_that_of_the_model(estimate):
    estimate.done("read", READ)
    assert estimate.left() == pytest.approx(SUM)


def test_a_slower_machine_takes_longer_for_the_rest(estimate):
    estimate.done("read", 10 * READ)
    factor = (10 * READ + TRUST_SECONDS) / (READ + TRUST_SECONDS)
    assert estimate.left() == pytest.approx(factor * SUM)


def test_a_part_of_the_running_step_counts(estimate):
    estimate.done("read", READ)
    assert estimate.left("sum", 0.5, SUM / 2) == pytest.approx(SUM / 2)
    assert estimate.left("sum", 0.5, SUM) > SUM / 2


def test_nothing_is_left_at_the_end(estimate):
    estimate.done("read", 7.0)
    estimate.done("sum", 70.0)
    assert estimate.left() == 0


def test_a_single_short_step_says_little():
    estimate = Estimate({"start": Cost(0.01, 0.0), "work": Cost(10.0, 0.0)}, 0)
    estimate.done("start", 0.1)
    assert estimate.left() == pytest.approx(10.0, rel=0.1)


@pytest.mark.parametrize("engine", COSTS)
def test_the_model_has_every_step_of_the_job(engine):
    steps = {
        "reading",
        "flows",
        "queue histories",
        "queue levels",
        "consumer steps",
        "streams",
        "dead letters",
        "report",
    }
    assert set(COSTS[engine]) == steps | {table.name for table in TABLES}


def test_each_step_is_told_with_the_remaining_time():
    stream = io.StringIO()
    progress = JobProgress(
        lambda: (0, 0), {"read": Cost(60.0, 0.0), "sum": Cost(240.0, 0.0)}, 0, stream
    )
    with progress.step("read"):
        progress.events = 1_234
    with progress.step("sum"):
        pass
    first, last = stream.getvalue().splitlines()
    # The step took no time, so that the rest is quicker than the model: (0 + 2) / (60 + 2) of it.
    assert first == "[1/2] read: 0.0 s, 1,234 events, about 8 s left"
    assert last == "[2/2] sum: 0.0 s, 1,234 events"


def test_the_part_of_a_log_that_was_read_is_known(tmp_path, monkeypatch):
    published = [event("publish", START_US, message=1)] * 60_000
    path = write_log(tmp_path / "trace", published)
    parts = []
    with DuckDBEngine(str(tmp_path / "work")) as engine:
        write = record_files.write_batches

        def looking(batches, path):
            def looked():
                for batch in batches:
                    yield batch
                    parts.append(engine.parts())

            return write(looked(), path)

        monkeypatch.setattr(record_files, "write_batches", looking)
        engine.expect(60_001)
        assert engine.read(str(path), EVERYTHING).events == 60_001
        assert engine.parts() == (0, 0)
    done = [one for one, _ in parts]
    assert 0 < done[0] < done[-1] == 60_001
    assert {total for _, total in parts} == {60_001}


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (90.0, "90 s"), (91.0, "2 min")])
def test_durations_are_shown_in_seconds_or_minutes(seconds, text):
    assert shown_seconds(seconds) == text
