"""A process beside the node: what it tells, how it ends, and that there is one at a time."""

import asyncio
import sys

import pytest

from leveret.mgmt.analysis import background_job
from leveret.mgmt.analysis.background_job import BackgroundJob, JobRunsError, JobState
from leveret.mgmt.analysis.trace_analyses import (
    LINK_SECONDS,
    LINKS_MAX,
    UNREAD_SECONDS_MAX,
    AnalysedWindow,
    TraceAnalyses,
)
from tests.patience import LOOK_SECONDS, PATIENCE_SECONDS

TELLS = 'import json, sys; print(json.dumps({"progress": json.loads(sys.argv[1])}), flush=True)'
WAITS = f"{TELLS}; sys.stdin.read()"


@pytest.fixture
def run(monkeypatch):
    """Have jobs run this program."""
    return lambda program: monkeypatch.setattr(
        background_job, "COMMAND", (sys.executable, "-Sc", program)
    )


async def until(condition):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(LOOK_SECONDS)


async def ended(job):
    await until(lambda: job.state is not JobState.RUNNING)
    return job.state, job.reason


async def test_what_it_tells_is_kept(run):
    run(TELLS)
    job = BackgroundJob("analysis", "the analysis")
    assert (job.state, job.told) == (JobState.NONE, {})
    await job.start({"kind": "analysis"})
    assert await ended(job) == (JobState.DONE, "")
    assert job.told == {"progress": {"kind": "analysis"}}
    assert job.started_s <= job.ended_s


@pytest.mark.parametrize(("program", "reason"), [
    ('print(\'{"failed": "no logs"}\'); exit(1)', "no logs"),
    ("import sys; sys.exit('no DuckDB')", "its process has ended with exit code 1: no DuckDB"),
    ("import os; os.abort()", "its process has ended with signal 6 (Aborted)"),
    ("import os; os.kill(os.getpid(), 9)",
     "its process was killed (SIGKILL), by an operator or since the machine had too little memory:"
     " see the log of the system"),
    ("print('not JSON', flush=True); input()", "it has told something that this node cannot read"),
    (f"print('1' * {background_job.LINE_BYTES_MAX + 1}, flush=True); input()",
     "it has told something that this node cannot read"),
])  # fmt: skip
async def test_why_it_has_failed_is_known(run, tmp_path, program, reason):
    run(program)
    job = BackgroundJob("analysis", "the analysis", tmp_path / "work")
    (tmp_path / "work").mkdir()
    await job.start({})
    assert await ended(job) == (JobState.FAILED, reason)
    assert not (tmp_path / "work").exists()


async def test_one_runs_at_a_time_and_is_cancelled(run):
    run(WAITS)
    job = BackgroundJob("analysis", "the analysis")
    await job.start({"number": 1})
    with pytest.raises(JobRunsError, match="the analysis is running"):
        await job.start({"number": 2})
    await until(lambda: job.told)
    await job.cancel()
    assert (job.state, job.reason, job.told) == (
        JobState.CANCELLED,
        "",
        {"progress": {"number": 1}},
    )
    await job.cancel()
    run(TELLS)
    await job.start({"number": 3})
    assert await ended(job) == (JobState.DONE, "")


async def test_a_program_that_cannot_be_started_changes_nothing(monkeypatch):
    monkeypatch.setattr(background_job, "COMMAND", ("/nowhere/python",))
    job = BackgroundJob("analysis", "the analysis")
    with pytest.raises(OSError, match="nowhere"):
        await job.start({})
    assert job.state is JobState.NONE


async def test_all_end_with_the_broker_and_leave_no_intermediate_data(run, tmp_path):
    run(WAITS)
    analyses = TraceAnalyses(tmp_path)
    for job in (analyses.analysis, analyses.findings):
        (analyses.directory_of(job) / "_work").mkdir(parents=True)
    window = AnalysedWindow(1, 2, "/")
    await analyses.analyse(tmp_path, analyses.directory_of(analyses.analysis), window)
    await analyses.follow(tmp_path, analyses.directory_of(analyses.findings))
    await until(lambda: analyses.analysis.told)
    task = analyses.analysis.told["progress"]
    assert (task["kind"], task["from_us"], task["to_us"], task["vhost"]) == ("analysis", 1, 2, "/")
    assert task["memory_bytes"] > 0
    await analyses.close()
    for job in (analyses.analysis, analyses.findings):
        assert job.state is JobState.CANCELLED
        assert list(analyses.directory_of(job).iterdir()) == []


async def test_findings_that_are_not_read_are_no_longer_made(run, tmp_path):
    run(WAITS)
    times = iter([0.0, UNREAD_SECONDS_MAX - LOOK_SECONDS, UNREAD_SECONDS_MAX])
    analyses = TraceAnalyses(tmp_path, lambda: next(times))
    await analyses.follow(tmp_path, tmp_path)
    assert await ended(analyses.findings) == (JobState.CANCELLED, "")
    await analyses.close()


def test_a_link_shows_the_report_once_and_soon():
    now = [0.0]
    analyses = TraceAnalyses(None, lambda: now[0])
    first, second = analyses.new_link(), analyses.new_link()
    assert [analyses.use_link(link) for link in (first, first, "other")] == [True, False, False]
    now[0] = LINK_SECONDS
    assert not analyses.use_link(second)
    links = [analyses.new_link() for _ in range(LINKS_MAX + 1)]
    assert [analyses.use_link(link) for link in links] == [False] + [True] * LINKS_MAX
