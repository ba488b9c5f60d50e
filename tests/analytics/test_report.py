"""`leveret report` from a small set of known tables."""

import pyarrow as pa
import pytest

from leveret.analytics.collect import collect_views
from leveret.analytics.duckdb_dialect import TYPES
from leveret.analytics.duckdb_engine import DuckDBEngine
from leveret.analytics.report import main
from leveret.analytics.report_page import page
from leveret.analytics.tables import TABLES

MINUTE_US = 60_000_000
START_US = 1_772_373_600_000_000
MINUTES = 60
STALL = 30


@pytest.fixture(scope="module")
def collected():
    """Aggregates of the tables of an hour. Tables that are not defined here are empty."""
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
                        f" cast(array() as varchar[]) queues, {START_US} time_us",
    }  # fmt: skip
    with DuckDBEngine() as engine:
        engine.put("ids", pa.table({"id": range(MINUTES)}))
        minute = f"timestamp_micros({START_US} + id * {MINUTE_US}) minute"
        engine.view("minutes", f"select id, {minute}, '/' vhost, 'orders' queue from ids")
        for table in TABLES:
            query = queries.get(table.name, "select 1 nothing where false")
            engine.view(table.name, _filled(engine, query, table))
        return collect_views(engine)


def _filled(engine, query, table):
    """A query for the same rows with the missing columns of the table as null."""
    known = {name for name, *_ in engine.rows(f"describe {query}")}
    nulls = [
        f", cast(null as {TYPES[one.type].removesuffix('tz')}) `{one.name}`"
        for one in table.columns
        if one.name not in known
    ]
    return f"select *{''.join(nulls)} from ({query}) as known"


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


def test_a_directory_without_tables_is_told(tmp_path, capsys):
    assert main([str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith(f"leveret report: no tables in {tmp_path}/none")
