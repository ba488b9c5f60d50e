"""What a node analyses beside its work: the program tells its steps, findings and faults."""

import errno
import json
import resource

import duckdb
import pytest

from leveret.analytics import background
from leveret.analytics.background import ANALYSIS, FAILED, FINDINGS, BackgroundTask
from leveret.analytics.findings.finding import Finding, Severity
from tests.analytics.logs import MINUTE_US, START_US, event, write_log

MEMORY = 1 << 30


@pytest.fixture
def told(monkeypatch, capsys):
    """Runs the program in this process, which stays as it is; what it has told, by key."""
    monkeypatch.setattr(background, "be_modest", lambda memory_bytes: None)
    monkeypatch.setattr(background, "_end_with_node", lambda: None)

    def run(task):
        code = background.main([json.dumps(task._asdict())])
        found = {}
        for line in capsys.readouterr().out.splitlines():
            for key, value in json.loads(line).items():
                found.setdefault(key, []).append(value)
        return code, found

    return run


def test_an_analysis_tells_its_steps_and_its_numbers(told, tmp_path, without_reports):
    published = [event("publish", START_US, message=1, queues=["q"])]
    write_log(tmp_path / "logs", published)
    task = BackgroundTask(ANALYSIS, str(tmp_path / "logs"), str(tmp_path / "out"), MEMORY)
    code, found = told(task)
    assert (code, found["done"]) == (0, [{"events": 2, "rejected": 0, "files": 1}])
    # Steps that run are told, too, if they take long.
    steps = [one for one in found["progress"] if one["took"] is not None]
    assert [one["number"] for one in steps] == [*range(1, steps[0]["steps"] + 1)]
    assert (steps[0]["name"], steps[-1]["left"]) == ("reading", 0)
    assert (tmp_path / "out" / "current").exists()


def test_logs_that_are_not_there_are_told(told, tmp_path):
    write_log(tmp_path / "logs", [event("publish", START_US, message=1)])
    for vhost, directory in (("other", "logs"), (None, "nowhere")):
        task = BackgroundTask(
            ANALYSIS, str(tmp_path / directory), str(tmp_path / "out"), MEMORY, vhost=vhost
        )
        code, found = told(task)
        assert (code, [*found]) == (FAILED, ["failed"])


@pytest.mark.parametrize("fault", [MemoryError(), duckdb.OutOfMemoryException("of DuckDB")])
def test_too_little_memory_is_told(told, tmp_path, monkeypatch, fault):
    def fail(task):
        raise fault

    monkeypatch.setattr(background, "_analyze", fail)
    task = BackgroundTask(ANALYSIS, str(tmp_path), str(tmp_path / "out"), MEMORY)
    code, found = told(task)
    assert code == FAILED
    assert found["failed"] == ["it needs more than 1024 MB of memory: choose a shorter time"]


def test_a_full_disk_is_told(told, tmp_path, monkeypatch):
    def fail(task):
        raise OSError(errno.ENOSPC, "No space left on device", "/data/_work")

    monkeypatch.setattr(background, "_analyze", fail)
    task = BackgroundTask(ANALYSIS, str(tmp_path), str(tmp_path / "out"), MEMORY)
    code, found = told(task)
    assert code == FAILED
    assert found["failed"][0].startswith("the disk of /data/_work is full: free some space")


def test_findings_are_those_of_the_last_hour(monkeypatch, tmp_path, capsys):
    """The one of a queue that has had no consumer for hours, and not what is over."""
    at = START_US
    records = [
        event("publish", at + number * MINUTE_US, message=number + 1, queues=["unread"])
        for number in range(30)
    ]
    write_log(tmp_path / "logs", records)
    task = BackgroundTask(FINDINGS, str(tmp_path / "logs"), str(tmp_path / "out"), MEMORY)
    monkeypatch.setattr(background, "_now_us", lambda: at + 31 * MINUTE_US)
    options = background.JobOptions(task.directory, task.out)
    following = background.Following(options)
    assert following.update()
    background._tell_findings(task, following.state.events)
    [found] = [json.loads(line)["findings"] for line in capsys.readouterr().out.splitlines()]
    assert (found["until_us"], found["events"]) == (at + 31 * MINUTE_US, 31)
    assert [(one["kind"], one["about"]) for one in found["findings"]] == [
        ("no_consumer", ["unread"])
    ]
    for until_us, is_recent in ((at, True), (None, True), (at - 1, False)):
        over = Finding("churn", Severity.NOTE, "/", (), "", until_us=until_us)
        assert background._is_since(over, at) is is_recent


def test_before_anything_was_read_there_are_no_findings(tmp_path, capsys):
    task = BackgroundTask(FINDINGS, str(tmp_path), str(tmp_path / "out"), MEMORY)
    background._tell_findings(task, 0)
    assert json.loads(capsys.readouterr().out)["findings"]["findings"] == []


def test_memory_has_a_limit_and_the_node_comes_first(monkeypatch):
    done = {}
    monkeypatch.setattr(background.os, "nice", lambda by: done.update(niceness=by))
    monkeypatch.setattr(
        background.os, "sched_setaffinity", lambda _, processors: done.update(processors=processors)
    )
    monkeypatch.setattr(
        background.resource, "setrlimit", lambda kind, limits: done.update({kind: limits})
    )
    background.be_modest(MEMORY)
    limit = MEMORY + background.PROGRAM_BYTES
    assert (done["niceness"], len(done["processors"])) == (19, 1)
    assert done[resource.RLIMIT_DATA] == (limit, limit)
