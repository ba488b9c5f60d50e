"""spark-submit to a standalone cluster of Spark with a master and two workers.

It takes a minute of a processor, so `make test-interop` runs it and CI does not.
test_engines_agree.py compares the tables of all kinds of logs, with executors of their own, too.
"""

import os
import subprocess
import sys

import pytest

import leveret.analytics.analyze
from tests.analytics.conftest import FOR_FEW_ROWS, viewfs
from tests.analytics.known_trace import write_known_trace
from tests.analytics.running import analyze_quickly
from tests.analytics.standalone_cluster import HOST, PROGRAMS, standalone_cluster
from tests.analytics.tables import everything, without_directories
from tests.analytics.test_engines_agree import OF_A_SESSION, ROOT

SECONDS_MAX = 1_800
pytestmark = [pytest.mark.interop, pytest.mark.timeout(SECONDS_MAX)]


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), workers=2) as url:
        yield url


def submit(master, logs, out, *more, settings):
    """Run spark-submit, and return what it has said."""
    settings = {
        **FOR_FEW_ROWS, "spark.ui.enabled": "false", "spark.executor.memory": "512m",
        "spark.executor.cores": "1", "spark.driver.host": HOST, **settings,
    }  # fmt: skip
    settings["spark.executor.extraJavaOptions"] = settings["spark.driver.extraJavaOptions"]
    environment = {name: value for name, value in os.environ.items() if name not in OF_A_SESSION}
    return subprocess.run(
        [
            PROGRAMS / "spark-submit", "--master", master,
            *(word for one in settings.items() for word in ("--conf", "=".join(one))),
            leveret.analytics.analyze.__file__, logs, "--out", out, *more,
        ],
        env={
            **environment, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": HOST,
        },
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A directory with the logs and the tables that DuckDB makes of them."""
    directory = tmp_path_factory.mktemp("trace")
    write_known_trace(directory / "logs")
    analyze_quickly(directory / "logs", directory / "near")
    return directory


def compared(out):
    return without_directories(everything(out))


def test_tables_of_another_file_system_are_those_of_duckdb(master, trace):
    done = submit(
        master, "viewfs://far/far/logs", "viewfs://far/far/tables", settings=viewfs(trace)
    )
    assert done.returncode == 0, done.stderr
    assert compared(trace / "tables") == compared(trace / "near")


def test_local_paths_need_to_be_mounted_on_all_machines(master, trace):
    refused = submit(master, str(trace / "logs"), str(trace / "shared"), settings={})
    assert refused.returncode == 2
    # spark-submit writes both outputs of its program to its standard output.
    assert "--shared-paths" in refused.stdout
    done = submit(master, str(trace / "logs"), str(trace / "shared"), "--shared-paths", settings={})
    assert done.returncode == 0, done.stderr
    assert compared(trace / "shared") == compared(trace / "near")
