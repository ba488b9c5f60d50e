"""DuckDB and Spark find the same in the traces of some incidents, and make the same tables."""

import pytest

from leveret.analytics.findings.collect_evidence import collect_evidence
from leveret.analytics.findings.findings import every_finding
from leveret.analytics.job.spark_engine import SparkEngine
from tests.analytics.incidents import simulated_log
from tests.analytics.incidents.suite import ALL
from tests.analytics.running import analyze_quickly, analyze_with_spark
from tests.analytics.tables import everything
from tests.analytics.test_incidents import NEEDED, found_in, open_tables

NAMES = (
    "stall_of_one_of_four_slow_ones", "a_message_that_is_too_large", "poison_that_is_thrown_away",
    "deleted_with_its_messages", "purged_with_400", "stall_with_little_traffic",
)  # fmt: skip
ACTIVITY = ("queue_activity", "consumer_activity", "unattended", "publishers")


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    """The directories of the tables of both engines: Spark's and DuckDB's."""
    directory = tmp_path_factory.mktemp("some")
    for incident in ALL:
        if incident.name in NAMES:
            simulated_log.write(directory / "trace", incident.records())
    read = analyze_quickly(directory / "trace", directory / "duckdb", only=NEEDED)
    assert analyze_with_spark(spark, directory / "trace", directory / "spark", only=NEEDED) == read
    return directory / "spark", directory / "duckdb"


@pytest.mark.parametrize("name", ACTIVITY)
def test_the_tables_of_activity_are_the_same(made, name):
    of_spark, of_duckdb = (everything(out, [name])[name] for out in made)
    assert of_duckdb
    assert of_spark == of_duckdb


def test_both_find_the_same(spark, made):
    of_spark, of_duckdb = made
    found = found_in(of_duckdb)
    with SparkEngine(spark) as engine:
        open_tables(engine, of_spark)
        assert every_finding(collect_evidence(engine)) == found
    assert {one.vhost for one in found} == set(NAMES)
