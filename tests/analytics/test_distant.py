"""Logs and tables that are not on the local disk, but in another Hadoop file system.

Hadoop's viewfs stands for HDFS or S3: to the job it is a URL of another scheme, which is accessible
through Hadoop only and maps to a directory.
"""

import pytest

from leveret.analytics.job.follow import follow
from leveret.analytics.job.job import JobOptions
from leveret.analytics.job.spark_engine import SparkEngine
from leveret.analytics.traces.trace_files import TraceWindow
from tests.analytics.counts import write_counts
from tests.analytics.logs import SECOND_US, START_US, event, write_log
from tests.analytics.running import analyze_with_spark
from tests.analytics.tables import read_rows


def records(vhost="/"):
    found = []
    for number in range(1, 11):
        at = START_US + number * SECOND_US
        found.append(event("publish", at, vhost, message=number, queues=["q"], body_size=number))
        found.append(event("deliver", at + 5, vhost, message=number))
        found.append(event("ack", at + 9, vhost, message=number))
    return found


def test_a_window_and_following_are_the_same_there(spark, far, monkeypatch):
    monkeypatch.setattr("leveret.analytics.job.follow.write_tables", write_counts)
    url, directory, _ = far
    write_log(directory / "logs", records(), name="1")
    write_log(directory / "logs", records("other"), vhost="other")
    window = TraceWindow(START_US + 3 * SECOND_US, START_US + 5 * SECOND_US, "/")
    options = JobOptions(f"{url}/logs", f"{url}/tables", window, only=("summary",))
    follow(spark, options, None, keep_days=7)
    rows = read_rows(directory / "tables", "summary")
    assert sorted((row.vhost, row.event, row.events) for row in rows) == [
        ("/", "ack", 2), ("/", "deliver", 2), ("/", "publish", 2),
    ]  # fmt: skip


def test_nothing_is_staged_without_a_work_directory(spark):
    with SparkEngine(spark) as engine, pytest.raises(ValueError, match="levels needs a work dir"):
        engine.stage("levels", "select 1")


def test_a_file_system_that_spark_cannot_use_is_refused_with_the_reason(spark, tmp_path):
    """As s3a:// without hadoop-aws, or without a valid password."""
    write_log(tmp_path / "logs", records())
    reason = r"Spark cannot use nowhere://x.* \(.*nowhere"
    for logs, tables in (("nowhere://x/logs", tmp_path), (tmp_path / "logs", "nowhere://x/out")):
        with pytest.raises(OSError, match=reason):
            analyze_with_spark(spark, str(logs), str(tables))
    with pytest.raises(OSError, match=reason):
        SparkEngine(spark).published("nowhere://x/out")


def test_a_directory_that_is_not_there_is_refused(spark, far):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        analyze_with_spark(spark, f"{far[0]}/nowhere", f"{far[0]}/tables")
