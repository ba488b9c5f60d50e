"""One Spark session for the few tests of Spark in a process, since starting one takes seconds."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from leveret.analytics.job.session import start_session
from tests.analytics.known_trace import write_known_trace
from tests.analytics.running import analyze_quickly

FOR_SHORT_RUNS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    " -XX:-UseCodeCacheFlushing"
)
FOR_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": FOR_SHORT_RUNS,
    "spark.sql.shuffle.partitions": "4",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}
"""Compiling queries takes longer than running them on so little data, and so does writing 200 parts
of it. Of the 48 MB that Java has for compiled code at this level, a run of all tables needs more,
and goes on without a compiler when they are full. Nobody reads the files that mark a directory as
complete: for each file that Spark makes it starts the program chmod twice, in 0.1 s of a processor,
and one of its two ways to write checkpoints starts readlink besides.
"""


@pytest.fixture
def without_reports(monkeypatch):
    """The job makes tables only: a report takes a third of its time with so few records."""
    monkeypatch.setattr("leveret.analytics.job.job.write_report", lambda *_: None)


@pytest.fixture(scope="session")
def distant(tmp_path_factory):
    """The directory of a file system that is accessible through Hadoop only: viewfs://far/far."""
    return tmp_path_factory.mktemp("distant")


def viewfs(directory: Path) -> dict[str, str]:
    """Settings of Spark with which viewfs://far/far is the directory."""
    return {"spark.hadoop.fs.viewfs.mounttable.far.link./far": f"file://{directory}"}


@pytest.fixture(scope="session")
def spark(distant):
    session = start_session("local[2]", settings={**FOR_FEW_ROWS, **viewfs(distant)})
    yield session
    session.stop()


class Far(NamedTuple):
    """A URL that is accessible through Hadoop only, and maps to a directory."""

    url: str
    directory: Path
    session: Any


@pytest.fixture(scope="module")
def far(spark, distant, request):
    directory = distant / request.module.__name__
    directory.mkdir()
    return Far(f"viewfs://far/far/{directory.name}", directory, spark)


@pytest.fixture(scope="session")
def known_tables(tmp_path_factory):
    """The directory of the tables of known_trace.py."""
    directory = tmp_path_factory.mktemp("known")
    write_known_trace(directory / "trace")
    analyze_quickly(directory / "trace", directory / "out")
    return str(directory / "out")
