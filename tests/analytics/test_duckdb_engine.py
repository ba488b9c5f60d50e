"""Reading and writing with DuckDB: unusual names, faults, and what is left in the directory."""

import time
from pathlib import Path

import pyarrow as pa
import pytest

from leveret.analytics.analyze import main
from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.report_command import main as report
from leveret.analytics.tables.tables import SUMMARY
from leveret.analytics.tables.versions import MissingTablesError
from leveret.analytics.traces import record_files
from leveret.analytics.traces.log_parts import LogPart
from leveret.analytics.traces.record_files import RecordFiles
from leveret.analytics.traces.trace_files import EVERYTHING
from tests.analytics.logs import START_US, event, write_log
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import read_rows
from tests.patience import PATIENCE_SECONDS


@pytest.mark.parametrize("name", ["a 'quoted' one", "[1]*{2}?", "day=1", "ü ☃"])
def test_directories_can_have_any_name(tmp_path, name):
    directory = tmp_path / name
    write_log(directory / "trace", [event("publish", START_US, message=1, queues=["q"])])
    reading = analyze_quickly(directory / "trace", directory / "out")
    assert (reading.events, reading.files) == (2, 1)
    assert {row.event for row in read_rows(directory / "out", "summary")} == {"header", "publish"}
    assert report([str(directory / "out"), "--html", str(directory / "again.html")]) == 0
    assert (directory / "again.html").read_bytes() == (directory / "out/report.html").read_bytes()


def test_a_directory_without_logs_has_empty_tables(tmp_path, capsys):
    (tmp_path / "trace").mkdir()
    assert main([str(tmp_path / "trace"), "--out", str(tmp_path / "out")]) == 1
    assert "0 records of 0 files" in capsys.readouterr().out
    assert read_rows(tmp_path / "out", "traffic") == []
    assert (tmp_path / "out/report.html").exists()


def test_a_directory_that_does_not_exist_is_told(tmp_path, capsys):
    assert main([str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == f"leveret analyze: {tmp_path}/none does not exist\n"


def test_tables_that_cannot_be_written_are_told_in_a_line(tmp_path, capsys):
    (tmp_path / "trace").mkdir()
    (tmp_path / "file").touch()
    assert main([str(tmp_path / "trace"), "--out", str(tmp_path / "file")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err.splitlines()[-1]


def test_tables_of_an_earlier_run_are_replaced(tmp_path):
    for number in (1, 2):
        write_log(tmp_path / f"{number}", [event("publish", START_US, f"v{number}", message=1)])
        analyze_quickly(tmp_path / f"{number}", tmp_path / "out", only=("summary",))
    assert {row.vhost for row in read_rows(tmp_path / "out", "summary")} >= {"v2"}
    assert not {row.vhost for row in read_rows(tmp_path / "out", "summary")} & {"v1"}


def test_what_an_interrupted_run_left_is_removed(tmp_path):
    work = tmp_path / "work"
    (work / "records").mkdir(parents=True)
    (work / "records" / "part-00000.parquet").write_bytes(b"not Parquet")
    with DuckDBEngine(str(work)) as engine:
        engine.stage("kept", "select 1 as one")
        assert engine.rows("select one from kept") == [(1,)]
    assert not work.exists()


def test_more_than_the_memory_is_kept_on_disk(tmp_path):
    rows = 1_000_000
    with DuckDBEngine(str(tmp_path / "work"), memory_bytes=32_000_000) as engine:
        engine.put("ids", pa.table({"id": range(rows)}))
        # Hashes cannot be compressed: eight columns of 8 MB.
        columns = [f"xxhash64(id, {number}) as h{number}" for number in range(8)]
        engine.stage("hashes", f"select id, {', '.join(columns)} from ids")
        assert engine.rows("select count(*), sum(id) from hashes where h7 > 0") == [
            (rows, rows * (rows - 1) // 2)
        ]
        assert list((tmp_path / "work" / "spilled").iterdir())


def test_tables_that_are_missing_are_named(tmp_path):
    with DuckDBEngine() as engine, pytest.raises(MissingTablesError, match="summary"):
        engine.open_table(str(tmp_path), SUMMARY.name)


def test_a_fault_ends_the_reading_of_all_files(tmp_path, monkeypatch):
    def read(part, window):
        if part.path == "full":
            raise OSError("no space left")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            yield pa.RecordBatch.from_pylist([], record_files.ARROW_COLUMNS)
        pytest.fail("it was not stopped")

    monkeypatch.setattr(record_files, "read_log", read)
    parts = [LogPart(name, 0, 1, 1) for name in ("long", "full")]
    monkeypatch.setattr(record_files, "available_processors", lambda: 2)
    with pytest.raises(OSError, match="no space left"):
        RecordFiles(parts, EVERYTHING, Path(tmp_path / "records")).write()
