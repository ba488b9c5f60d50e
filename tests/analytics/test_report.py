"""`leveret report` from a small set of known tables. Needs PySpark."""

import pytest
from pyspark.errors import AnalysisException

from leveret.analytics.collect import collect_views
from leveret.analytics.report import write_report
from leveret.analytics.report_page import page
from leveret.analytics.tables import TABLES

# Starting Spark takes long on a busy machine.
pytestmark = pytest.mark.timeout(240)

MINUTE_US = 60_000_000
START_US = 1_772_373_600_000_000
MINUTES = 60
STALL = 30


@pytest.fixture(scope="module")
def session(spark):
    """A session with views of its own."""
    return spark.newSession()


@pytest.fixture(scope="module")
def collected(session):
    """Aggregates of the tables of an hour. Tables that are not defined here are empty."""
    minutes = session.range(MINUTES).selectExpr("id", _minute("id"), "'/' vhost", "'orders' queue")
    minutes.createOrReplaceTempView("minutes")
    wait = f"if(id >= {STALL}, 4000000, 12000)"
    last = START_US + MINUTES * MINUTE_US - 1
    queries = {
        "summary": f"select '/' vhost, 'n' node, 'publish' event, 600 events, 1 sample,"
                   f" {START_US} first_us, {last} last_us",
        "traffic": "select minute, vhost, explode(array('queue', 'exchange')) kind, queue name,"
                   " 10 published, 10 delivered, 9 acknowledged from minutes",
        "latency": f"select minute, vhost, queue, {wait} wait_p99_us, 5000 ack_p99_us from minutes",
        "latency_histogram": "select minute, vhost, queue, 'wait' measure, 16384 up_to_us,"
                             " 10 messages from minutes",
        "depth": "select minute, vhost, queue, id ready, 0 unacked, id ready_max, 1 unacked_max"
                 " from minutes",
        "consumers": f"select '/' vhost, 'orders' queue, 'c' connection, 'ctag-7' consumer_tag,"
                     f" 300 delivered, 290 acknowledged, 10 unacknowledged, {START_US} first_us,"
                     f" {last} last_delivery_us, {START_US + STALL * MINUTE_US} last_ack_us",
        "dead_letters": "select '/' vhost, 'orders' queue, 'rejected' reason, 'dlx' exchange,"
                        f" cast(array() as array<string>) queues, {START_US} time_us",
    }  # fmt: skip
    for table in TABLES:
        rows = session.sql(queries.get(table.name, "select 1 nothing where false"))
        _filled(rows, table).createOrReplaceTempView(table.name)
    return collect_views(session)


def _minute(number):
    return f"timestamp_micros({START_US} + {number} * {MINUTE_US}) minute"


def _filled(rows, table):
    """Add missing columns of the table as null."""
    missing = [one for one in table.columns if one.name not in rows.columns]
    nulls = [f"cast(null as {one.type}) `{one.name}`" for one in missing]
    return rows.selectExpr("*", *nulls)


def test_what_is_collected(collected):
    data = collected
    assert (data.step_minutes, data.steps, data.queues_total) == (1, MINUTES, 1)
    assert data.published == dict.fromkeys(range(MINUTES), 10)
    [orders] = data.queues
    assert orders.wait_p99_us == {step: 4_000_000 if step >= STALL else 12_000
                                  for step in range(MINUTES)}  # fmt: skip
    assert (orders.ready[7], orders.ready_at_end) == (7, MINUTES - 1)
    assert data.heat[None] == {(column, 16384): 10 for column in range(MINUTES)}
    assert data.deaths[0].lost == 1


def test_the_report_says_what_happened(collected):
    text = page(collected)
    assert "queue orders: p99 wait rose from 12 ms to 4 s at 14:30, when consumer ctag-7" in text
    assert "1 dead letter routed to no queue" in text


def test_a_directory_without_tables_is_told(session, tmp_path):
    with pytest.raises(AnalysisException):
        write_report(session, str(tmp_path / "none"), str(tmp_path / "report.html"))
