"""DuckDB and Spark make the same tables and the same report, row by row, of all kinds of logs, and
find the same in them.

Spark runs the job as on a cluster, with driver and executors in processes of their own. It reads
the logs from another file system than the local disk, and writes the tables there.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

import leveret.analytics.analyze
from leveret.analytics.findings.collect_evidence import collect_evidence
from leveret.analytics.findings.findings import every_finding
from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.java import find_java
from leveret.analytics.job.spark_engine import SparkEngine
from leveret.analytics.report.report_file import write_report
from leveret.analytics.tables.percentiles import percentile, percentiles
from leveret.analytics.tables.tables import TABLES
from tests.analytics.conftest import FOR_FEW_ROWS, viewfs
from tests.analytics.incidents import simulated_log
from tests.analytics.incidents.suite import ALL
from tests.analytics.known_trace import write_known_trace
from tests.analytics.logs import MINUTE_US, SECOND_US, START_US, event, header, write_log
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import everything, without_directories
from tests.analytics.test_against_reference import random_log
from tests.analytics.test_damaged_logs import write_damaged_logs
from tests.analytics.test_incidents import found_in

INCIDENTS = {
    "stall_of_one_of_four_slow_ones", "a_message_that_is_too_large", "poison_that_is_thrown_away",
    "deleted_with_its_messages", "purged_with_400", "stall_with_little_traffic",
    "a_consumer_that_the_size_will_overtake",
    "low_priorities_starve", "replies_come_when_the_requester_has_gone", "a_wrong_content_type",
}  # fmt: skip
"""Each has a virtual host of its name."""
pytestmark = pytest.mark.timeout(3600)
ROOT = Path(leveret.analytics.analyze.__file__).absolute().parents[2]


def submit(logs, out, mounted):
    """Run the job with spark-submit on a small cluster that Spark starts on this machine."""
    settings = {**FOR_FEW_ROWS, **mounted, "spark.ui.enabled": "false"}
    settings["spark.executor.extraJavaOptions"] = settings["spark.driver.extraJavaOptions"]
    find_java()
    environment = {name: value for name, value in os.environ.items() if name not in OF_A_SESSION}
    done = subprocess.run(
        [
            Path(pyspark.__file__).parent / "bin" / "spark-submit",
            "--master", "local-cluster[1,2,1024]",
            *(word for one in settings.items() for word in ("--conf", "=".join(one))),
            leveret.analytics.analyze.__file__, logs, "--out", out,
        ],
        env={
            **environment, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True, text=True, timeout=3000, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


OF_A_SESSION = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_ENV_LOADED")
"""What a session of this process may have left in the environment."""


def purged_queues():
    """Queues that are purged, or deleted, while messages are ready and unacknowledged."""
    found = []
    for number, reason in enumerate(("purge", "queue_deleted"), 1):
        at, queue = START_US + number * MINUTE_US, f"of {reason}"
        for message in range(number * 1_000, number * 1_000 + 5):
            found.append(event("publish", at, "purges", message=message, queues=[queue]))
        for message in range(number * 1_000, number * 1_000 + 2):
            found.append(event("deliver", at + 1, "purges", message=message, queue=queue))
        found.append(event("requeue", at + 2, "purges", message=number * 1_000, queue=queue))
        for later in (1, 2):
            found.append(
                event("drop", at + later * SECOND_US, "purges", queue=queue, reason=reason, count=3)
            )
    return found


def many_waits():
    """Waits of every length, so that each count of values has its percentiles."""
    found = []
    for minute in range(1, 40):
        for number in range(minute):
            at, message = START_US + minute * MINUTE_US + number, minute * 1_000 + number
            fields = {"message": message, "properties": {"message_id": f"{message % 7}"}}
            found.append(event("publish", at, "waits", queues=["q"], **fields))
            done = at + 1 + (number * 7_919) % 104_729
            found.append(event("deliver", done, "waits", message=message))
            found.append(event("ack", done + number * number, "waits", message=message))
    return found


def write_two_files(directory):
    """Write messages that are published in one file and delivered in another."""
    times = [START_US + number * SECOND_US for number in range(1, 21)]
    published = [event("publish", at, "two", message=at, queues=["q"]) for at in times]
    delivered = [event("deliver", at + 7, "two", message=at, no_ack=True) for at in times[:15]]
    write_log(directory, published, "two", name="1")
    write_log(directory, [*delivered, {"event": "sneeze"}], "two", name="2")


def write_logs(directory):
    write_known_trace(directory)
    write_damaged_logs(directory)
    for number in range(3):
        vhost = f"random {number}"
        write_log(directory, random_log(vhost, vhost, 80), vhost, name="[1] {2}")
    write_two_files(directory)
    write_log(directory, purged_queues(), "purges")
    write_log(directory, many_waits(), "waits", head=header(vhost="waits", sample=10))
    for incident in ALL:
        if incident.name in INCIDENTS:
            simulated_log.write(directory, incident.records())


@pytest.fixture(scope="module")
def made(far, distant, tmp_path_factory):
    """What Spark has said, what DuckDB has read, and the directories of their tables."""
    url, directory, _ = far
    write_logs(directory / "logs")
    here = tmp_path_factory.mktemp("here")
    said = submit(f"{url}/logs", f"{url}/tables", viewfs(distant))
    return (said, directory / "tables"), (analyze_quickly(directory / "logs", here), here)


def test_percentiles_of_many_values_are_the_same(spark):
    """More values than Spark's percentiles are exact for by default, which is 10,000."""
    values = pa.table({"took": [number * 7_919 % 104_729 for number in range(12_001)]})
    query = f"select {percentiles('took', 0.5, 0.9, 0.95, 0.99)}, {percentile('took', 0.75)}"
    answers = []
    for engine in (SparkEngine(spark), DuckDBEngine()):
        engine.put("waits", values)
        [(several, one)] = engine.rows(f"{query} from waits")
        answers.append(([*several], one))
    assert answers[0] == answers[1]


def test_they_read_the_same(made):
    (said, _), (near, _) = made
    assert f"{near.events:,} records of {near.files:,} files in" in said
    assert f"; {near.rejected:,} rejected" in said
    assert near.rejected > 10


@pytest.mark.parametrize("name", [table.name for table in TABLES])
def test_a_table_has_the_same_rows(made, name):
    distant, near = (without_directories(everything(out, [name]))[name] for _, out in made)
    assert near, "the logs have no row for this table"
    assert distant == near


def test_the_reports_are_the_same(far, made, tmp_path):
    (_, _), (_, here) = made
    near, distant = (here / "report.html").read_text(), tmp_path / "report.html"
    engine = SparkEngine(far.session)
    write_report(engine, engine.published(f"{far.url}/tables"), str(distant))
    distant = distant.read_text()
    assert _without_directories(distant) == _without_directories(near)


def test_they_find_the_same(far, made):
    (_, _), (_, here) = made
    engine = SparkEngine(far.session)
    where = engine.published(f"{far.url}/tables")
    for table in TABLES:
        engine.open_table(where, table.name)
    distant, found = every_finding(collect_evidence(engine)), found_in(here)
    assert [*map(_located, distant)] == [*map(_located, found)]
    assert {one.vhost for one in found} >= INCIDENTS


def _located(finding):
    return _without_directories(repr(finding))


def _without_directories(page):
    return re.sub(r"(viewfs:/)?/[^ )<]*/logs/", "", page)


def test_nothing_else_is_left_beside_the_tables(made):
    names = {table.name for table in TABLES}
    (_, distant), (_, near) = made
    assert {path.name for path in near.iterdir()} == {"current", "report.html", "tables-1"}
    assert {path.name for path in (near / "current").iterdir()} == {"report.html", *names}
    assert {path.name for path in distant.iterdir()} == {"_work", "tables-1"}
    assert {path.name for path in (distant / "tables-1").iterdir()} == {"published", *names}
    # Spark does not delete files there.
    left = [pq.read_metadata(path) for path in (distant / "_work").rglob("*.parquet")]
    assert [one.num_rows for one in left] == [0] * len(left)
