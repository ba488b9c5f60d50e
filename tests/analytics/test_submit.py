"""The job with spark-submit: driver and executors are separate processes, as on a cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

import leveret.analytics.analyze
from leveret.analytics.job.java import find_java
from leveret.analytics.traces.trace_files import Window
from tests.analytics.logs import SECOND_US, START_US, event, write_log
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import everything

QUICKLY = [
    word
    for setting in (
        "spark.ui.enabled=false", "spark.sql.codegen.wholeStage=false",
        "spark.sql.codegen.factoryMode=NO_CODEGEN",
        "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1",
    )
    for word in ("--conf", setting)
]  # fmt: skip
"""Compiling queries takes longer than running them on so little data."""
ROOT = Path(leveret.analytics.analyze.__file__).absolute().parents[2]


def write_logs(directory):
    """Write messages in two files: published in one, delivered in the other."""
    times = [START_US + number * SECOND_US for number in range(1, 21)]
    published = [event("publish", at, message=at, queues=["q"]) for at in times]
    delivered = [event("deliver", at + 7, message=at, no_ack=True) for at in times[:15]]
    write_log(directory, published, name="1")
    write_log(directory, [*delivered, {"event": "sneeze"}], name="2")


def submit(directory, out, monkeypatch):
    """Run the job on a small cluster that Spark starts on this machine."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_ENV_LOADED"):
        monkeypatch.delenv(name, raising=False)
    find_java()
    return subprocess.run(
        [
            Path(pyspark.__file__).parent / "bin" / "spark-submit",
            "--master", "local-cluster[2,1,1024]", *QUICKLY,
            leveret.analytics.analyze.__file__, directory, "--out", out, "--vhost", "/",
        ],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip


def test_the_tables_of_a_cluster_are_those_of_one_machine(tmp_path, monkeypatch):
    trace, submitted, here = (str(tmp_path / name) for name in ("trace", "submitted", "here"))
    write_logs(tmp_path / "trace")
    answer = submit(trace, submitted, monkeypatch)
    assert answer.returncode == 0, answer.stderr
    assert "38 records of 2 files" in answer.stdout
    assert "1 rejected" in answer.stdout
    analyze_quickly(trace, here, window=Window(vhost="/"))
    assert everything(submitted) == everything(here)
