"""Logs and tables on S3: `leveret analyze` and `leveret report` with s3a:// URLs, and the readers
of the tables that docs/operate/analytics.md shows.

It takes a minute of a processor, and a download, so `make test-interop` runs it and CI does not.
"""

import os
import subprocess
import sys

import duckdb
import pandas
import pyarrow.dataset
import pytest

from tests.analytics.conftest import FOR_FEW_ROWS
from tests.analytics.known_trace import write_known_trace
from tests.analytics.running import analyze_quickly
from tests.analytics.s3 import of_arrow, s3_server, spark_settings
from tests.analytics.tables import everything, read_rows, without_directories
from tests.analytics.test_engines_agree import OF_A_SESSION, ROOT

SECONDS_MAX = 1_800
pytestmark = [pytest.mark.interop, pytest.mark.timeout(SECONDS_MAX)]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A directory with the logs, and the tables that DuckDB makes of them."""
    directory = tmp_path_factory.mktemp("s3")
    write_known_trace(directory / "logs")
    analyze_quickly(directory / "logs", directory / "near")
    return directory


@pytest.fixture(scope="module")
def server(here):
    """The URL of a server that has the logs in the bucket `traces`."""
    with s3_server(here) as url:
        store = of_arrow(url)
        for bucket in ("traces", "tables"):
            store.create_dir(bucket)
        pyarrow.fs.copy_files(str(here / "logs"), "traces/shop", destination_filesystem=store)
        yield url


@pytest.fixture(scope="module")
def leveret(server, here):
    """Runs a command of Leveret, with Spark's settings in a file as an operator has them."""
    settings = {**FOR_FEW_ROWS, **spark_settings(server)}
    conf = here / "conf"
    conf.mkdir()
    lines = [f"{name} {value}" for name, value in settings.items()]
    (conf / "spark-defaults.conf").write_text("\n".join(lines))
    kept = {name: value for name, value in os.environ.items() if name not in OF_A_SESSION}

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "leveret.mgmt.cli.entry", *words],
            env={**kept, "PYTHONPATH": str(ROOT), "SPARK_CONF_DIR": str(conf),
                 "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def made(leveret, server, here):
    """The tables of an analysis on S3, copied to this machine."""
    done = leveret("analyze", "s3a://traces/shop", "--out", "s3a://tables/shop")
    assert done.returncode == 0, done.stderr
    assert "tables: s3a://tables/shop" in done.stdout
    pyarrow.fs.copy_files("tables/shop", str(here / "far"), source_filesystem=of_arrow(server))
    return here / "far"


def test_tables_on_s3_are_those_of_the_local_disk(made, here):
    distant, near = (without_directories(everything(out)) for out in (made, here / "near"))
    assert distant == near


def test_a_report_is_made_of_tables_on_s3(leveret, made, here):
    page = here / "report.html"
    done = leveret("report", "s3a://tables/shop", "--html", str(page))
    assert done.returncode == 0, done.stderr
    assert "Trace report" in page.read_text()


def test_pandas_and_duckdb_read_tables_on_s3(server, made):
    """As docs/operate/analytics.md shows it."""
    store = of_arrow(server)
    expected = sorted((row.queue, row.fate, row.messages) for row in read_rows(made, "outcomes"))
    outcomes = pandas.read_parquet("tables/shop/tables-1/outcomes", filesystem=store)
    found = outcomes[["queue", "fate", "messages"]].itertuples(index=False, name=None)
    assert sorted(found) == expected
    files = pyarrow.dataset.dataset(
        "tables/shop/tables-1/outcomes", filesystem=store, partitioning="hive"
    )
    rows = duckdb.from_arrow(files).query("o", "select queue, fate, messages from o").fetchall()
    assert sorted(rows) == expected
