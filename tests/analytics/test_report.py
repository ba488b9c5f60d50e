"""`leveret report` from a small set of known tables."""

import pyarrow as pa
import pytest

from leveret.analytics.findings.collect_evidence import collect_evidence
from leveret.analytics.findings.findings import findings
from leveret.analytics.job.duckdb_dialect import TYPES
from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.report.collect import collect_views
from leveret.analytics.report.report_page import page
from leveret.analytics.report_command import main
from leveret.analytics.tables.tables import TABLES

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
        "summary": f"select '/' as vhost, 'n' as node, 'publish' as event, 600 as events,"
                   f" 1 as sample, {START_US} as first_us, {last} as last_us",
        "traffic": "select minute, vhost, explode(array('queue', 'exchange')) as kind,"
                   " queue as name, 10 as published, 10 as delivered, 9 as acknowledged"
                   " from minutes",
        "queue_activity": f"select {START_US} + id * {MINUTE_US} as at_us, vhost, queue,"
                          " 10 as came, 10 as delivered, 9 as acknowledged, id as ready,"
                          " id as ready_max,"
                          f" 0 as unacked, 1 as unacked_max, {wait} as wait_max_us from minutes",
        "latency": f"select minute, vhost, queue, {wait} as wait_p99_us, 5000 as ack_p99_us"
                   " from minutes",
        "latency_histogram": "select minute, vhost, queue, 'wait' as measure, 16384 as up_to_us,"
                             " 10 as messages from minutes",
        "depth": "select minute, vhost, queue, id as ready, 0 as unacked, id as ready_max,"
                 " 1 as unacked_max from minutes",
        "consumers": "select '/' as vhost, 'orders' as queue, 'c' as connection,"
                     " 'ctag-7' as consumer_tag, 300 as delivered, 290 as acknowledged,"
                     f" 10 as unacknowledged, {START_US} as first_us, {last} as last_delivery_us,"
                     f" {START_US + STALL * MINUTE_US} as last_ack_us",
        "dead_letters": "select '/' as vhost, 'orders' as queue, 'rejected' as reason,"
                        " 'dlx' as exchange, cast(array() as varchar[]) as queues,"
                        f" {START_US} as time_us",
    }  # fmt: skip
    with DuckDBEngine() as engine:
        engine.put("ids", pa.table({"id": range(MINUTES)}))
        minute = f"timestamp_micros({START_US} + id * {MINUTE_US}) as minute"
        engine.view("minutes", f"select id, {minute}, '/' as vhost, 'orders' as queue from ids")
        for table in TABLES:
            query = queries.get(table.name, "select 1 as nothing where false")
            engine.view(table.name, _filled(engine, query, table))
        return collect_views(engine), findings(collect_evidence(engine))


def _filled(engine, query, table):
    """A query for the same rows with the missing columns of the table as null."""
    known = {name for name, *_ in engine.rows(f"describe {query}")}
    nulls = [
        f", cast(null as {TYPES[one.type].removesuffix('tz')}) as `{one.name}`"
        for one in table.columns
        if one.name not in known
    ]
    return f"select *{''.join(nulls)} from ({query}) as known"


def test_what_is_collected(collected):
    data, _ = collected
    assert (data.step_us, data.steps, data.queues_total) == (10_000_000, 6 * MINUTES, 1)
    assert (data.published, data.came) == (10 * MINUTES, {6 * one: 10 for one in range(MINUTES)})
    [orders] = data.queues
    assert orders.wait_max_us == {6 * one: 4_000_000 if one >= STALL else 12_000
                                  for one in range(MINUTES)}  # fmt: skip
    assert orders.worst_wait == (4_000_000, START_US + STALL * MINUTE_US)
    assert (orders.ready[6 * 7], orders.ready_at_end) == (7, MINUTES - 1)
    assert data.heat[None] == {(column, 16384): 10 for column in range(MINUTES)}


def test_the_report_says_what_happened(collected):
    text = page(*collected)
    assert "Queue orders receives 0.17 messages a second" in text
    assert "dead-lettered to exchange dlx, because consumers rejected them, and lost" in text


def test_a_directory_without_tables_is_told(tmp_path, capsys):
    assert main([str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith(f"leveret report: no tables in {tmp_path}/none")
