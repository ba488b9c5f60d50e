"""Which engine makes the tables, what is said if it cannot, and what is imported for it."""

import importlib.util
import subprocess
import sys

import pytest

from leveret.analytics import analyze, report_command
from leveret.analytics.job import engines
from leveret.analytics.job.engines import Choice, choose
from leveret.analytics.traces import log_size
from leveret.analytics.traces.local_files import list_local_files
from leveret.analytics.traces.trace_files import EVERYTHING
from tests.analytics.logs import START_US, event, header, lines, write_log
from tests.patience import PATIENCE_SECONDS

MESSAGES = 100


@pytest.fixture
def trace(tmp_path):
    """A directory with a log of 101 records: a header and publishes."""
    published = [event("publish", START_US + n, message=n) for n in range(1, MESSAGES + 1)]
    write_log(tmp_path / "trace", published)
    return tmp_path / "trace"


@pytest.fixture
def missing(monkeypatch):
    """Makes a package look as if it were not installed."""
    found = importlib.util.find_spec

    def hide(package):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: None if name == package else found(name)
        )

    return hide


def chosen(trace, asked="auto", out="tables", wants_spark=""):
    return choose(asked, str(trace), out, EVERYTHING, wants_spark)


def test_a_log_of_a_usual_size_is_for_duckdb(trace):
    assert chosen(trace) == Choice("duckdb", MESSAGES + 1, 1)


def test_a_larger_log_is_for_spark_unless_duckdb_is_asked_for(trace, monkeypatch):
    monkeypatch.setattr(engines, "EVENTS_MAX", MESSAGES)
    assert chosen(trace).engine == "spark"
    assert chosen(trace, "duckdb").engine == "duckdb"


@pytest.mark.parametrize(
    ("asked", "out", "wants_spark"),
    [("spark", "tables", ""), ("auto", "tables", "--master"), ("auto", "s3a://b/tables", "")],
)
def test_spark_is_used_if_it_is_asked_for_or_needed(trace, asked, out, wants_spark):
    assert chosen(trace, asked, out, wants_spark).engine == "spark"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["logs", "--out", "tables", "--master", "local"], "--master"),
        (["hdfs://logs", "--out", "tables"], "hdfs://logs"),
        (["logs", "--out", "s3a://tables"], "s3a://tables"),
    ],
)
def test_what_duckdb_cannot_do_is_refused(arguments, what, capsys):
    assert analyze.main([*arguments, "--engine", "duckdb"]) == 2
    assert capsys.readouterr().err == (
        f"leveret analyze: {what} needs Spark: leave out --engine duckdb\n"
    )


def test_a_missing_duckdb_is_named_with_what_to_install(trace, missing, tmp_path, capsys):
    missing("duckdb")
    assert analyze.main([str(trace), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "needs the package duckdb, which is not installed" in said
    assert "pip install '.[analytics]'" in said
    assert "--engine spark" in said
    assert report_command.main([str(tmp_path)]) == 2
    assert "needs the package duckdb" in capsys.readouterr().err


@pytest.mark.parametrize("events_max", [MESSAGES, 10**9])
def test_a_missing_spark_is_named_if_it_is_needed(
    trace, missing, tmp_path, monkeypatch, capsys, events_max
):
    missing("pyspark")
    monkeypatch.setattr(engines, "EVENTS_MAX", events_max)
    status = analyze.main([str(trace), "--out", str(tmp_path / "out")])
    said = capsys.readouterr().err
    if events_max > MESSAGES:
        assert status == 0
        return
    assert status == 2
    assert said.count("\n") == 1
    assert "a log of about 101 events" in said
    assert "needs the package pyspark, which is not installed" in said
    assert "pip install '.[spark]'" in said


def test_neither_help_nor_a_small_log_imports_pyspark(trace, tmp_path):
    code = (
        "import sys; from leveret.analytics.analyze import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as ended: asked = ended.code\n"
        f"status = main({[str(trace), '--out', str(tmp_path / 'out')]!r})\n"
        "print([asked, status, *{'pyspark', 'py4j'} & set(sys.modules)])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert answer.stdout.splitlines()[-1] == "[0, 0]", answer


def test_a_missing_pyarrow_is_named_with_what_to_install():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from leveret.mgmt.cli.subcommands import run_subcommand\n"
        "sys.exit(run_subcommand('analyze', ['--help']))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1), answer
    assert "leveret analyze needs PyArrow and DuckDB" in answer.stderr
    assert "pip install '.[analytics]'" in answer.stderr


# The number of events


def test_events_of_small_files_are_counted(trace):
    write_log(trace, [event("publish", START_US, message=1)], name="2")
    assert log_size.estimated_size(list_local_files(str(trace), EVERYTHING)) == (MESSAGES + 3, 0)


def test_events_of_a_large_file_are_estimated_by_its_beginning(trace, monkeypatch):
    monkeypatch.setattr(log_size, "SAMPLE_BYTES", 4096)
    path = trace / "large.jsonl"
    path.write_text(lines([header(), *[event("publish", START_US, message=1)] * 5_000]))
    estimated = log_size.estimated_size(list_local_files(str(path), EVERYTHING)).events
    assert estimated == pytest.approx(5_001, rel=0.1)


def test_no_files_and_no_logs_have_no_events(tmp_path):
    assert log_size.estimated_size([]) == (0, 0)
    (tmp_path / "empty").touch()
    (tmp_path / "noise").write_bytes(b"noise")
    assert log_size.estimated_size(list_local_files(str(tmp_path), EVERYTHING)) == (0, 0)
