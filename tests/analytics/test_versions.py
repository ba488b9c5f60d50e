"""A run is published at once or not at all, whatever ends it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.analytics.analyze import main
from leveret.analytics.job import distant_versions
from leveret.analytics.report_command import main as report
from leveret.analytics.tables import versions
from leveret.analytics.tables.versions import MissingTablesError
from tests.analytics.logs import START_US, event, write_log
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import everything, read_rows

ROOT = Path(__file__).parents[2]
KILLED = """
import os, signal, sys
from leveret.analytics.analyze import main
from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.tables import versions

step, trace, out = sys.argv[1:]
done = DuckDBEngine.write_table

def write_table(engine, query, table, *more):
    if table.name == step:
        os.kill(os.getpid(), signal.SIGKILL)
    done(engine, query, table, *more)

DuckDBEngine.write_table = write_table
if step == "publish":
    versions.publish = lambda where: os.kill(os.getpid(), signal.SIGKILL)
main([trace, "--out", out])
"""


def log_of(directory, vhost):
    write_log(directory, [event("publish", START_US, vhost, message=1, queues=["q"])], vhost)
    return str(directory)


def vhosts(out):
    return {row.vhost for row in read_rows(out, "traffic")}


def run_until_killed(step, trace, out):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", KILLED, step, trace, out]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("step", ["anomalies", "publish"])
def test_a_run_that_is_killed_leaves_the_tables_of_the_one_before(tmp_path, step):
    old, new, out = log_of(tmp_path / "1", "v1"), log_of(tmp_path / "2", "v2"), tmp_path / "out"
    analyze_quickly(old, out)
    before, page = everything(out), (out / "report.html").read_bytes()
    run_until_killed(step, new, str(out))
    assert everything(out) == before
    assert (out / "report.html").read_bytes() == page
    assert report([str(out), "--html", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_bytes() == page
    assert main([new, "--out", str(out)]) == 0
    assert vhosts(out) == {"v2"}
    assert not list(out.glob("_work"))


def test_a_first_run_that_is_killed_has_no_tables(tmp_path, capsys):
    out = str(tmp_path / "out")
    run_until_killed("depth", log_of(tmp_path / "1", "v1"), out)
    assert report([out]) == 1
    assert "no tables in" in capsys.readouterr().err


def test_a_reader_goes_on_with_the_tables_that_it_has_opened(tmp_path):
    out = str(tmp_path / "out")
    analyze_quickly(log_of(tmp_path / "1", "v1"), out)
    opened = versions.published(out)
    analyze_quickly(log_of(tmp_path / "2", "v2"), out)
    assert vhosts(out) == {"v2"}
    assert versions.published(out) != opened
    assert list(Path(opened).glob("traffic/*/*.parquet"))


def test_two_versions_are_kept(tmp_path):
    out = tmp_path / "out"
    for number in range(1, 5):
        analyze_quickly(log_of(tmp_path / f"{number}", f"v{number}"), out, only=("traffic",))
        assert vhosts(out) == {f"v{number}"}
    assert {path.name for path in out.iterdir()} == {"current", "tables-1", "tables-2"}


def test_a_second_run_at_the_same_time_is_refused(tmp_path, capsys):
    trace, out = log_of(tmp_path / "1", "v1"), str(tmp_path / "out")
    with versions.only_writer(out):
        assert main([trace, "--out", out]) == 1
    assert f"another run is writing tables to {out}" in capsys.readouterr().err
    assert main([trace, "--out", out]) == 0


def test_on_other_file_systems_the_last_complete_run_is_read(far):
    out, session = f"{far.url}/out", far.session
    with pytest.raises(MissingTablesError, match="no tables in"):
        distant_versions.published(session, out)
    places = []
    for _ in range(3):
        where = distant_versions.begin(session, out)
        if places:
            assert distant_versions.published(session, out) == places[-1] != where
        distant_versions.publish(session, out, where)
        assert distant_versions.published(session, out) == where
        places.append(where)
    # A run that was killed.
    distant_versions.begin(session, out)
    assert distant_versions.published(session, out) == places[-1]
