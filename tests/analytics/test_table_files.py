"""The files of tables, as any program reads them: types, keys, tables without rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pytest

from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.output import schema_of
from leveret.analytics.job.spark_engine import SparkEngine
from leveret.analytics.tables.columns import PARTITION
from leveret.analytics.tables.description import KEYS
from leveret.analytics.tables.tables import BY_NAME, TABLES
from leveret.analytics.tables.versions import MissingTablesError
from tests.analytics.tables import read_rows, tables_of

ARROW = {
    "string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"), "array<string>": pa.list_(pa.string()),
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_file_has_the_described_columns(known_tables, table):
    files = [*(tables_of(known_tables) / table.name).glob("date=*/*.parquet")]
    for file in files:
        found = pa.parquet.read_schema(file)
        assert found.names == [column.name for column in table.columns]
        for column in table.columns:
            if column.type in ARROW:
                assert found.field(column.name).type.equals(ARROW[column.type]), column


def test_a_key_identifies_a_row(known_tables):
    for name, key in KEYS.items():
        rows = [tuple(row[column] for column in key) for row in read_rows(known_tables, name)]
        assert not key or len(set(rows)) == len(rows), name


def test_tables_without_rows_have_their_columns(known_tables):
    where = tables_of(known_tables)
    empty = [table for table in TABLES if not read_rows(known_tables, table.name)]
    assert empty
    for table in empty:
        found = pa.dataset.dataset(where / table.name, partitioning="hive").to_table()
        assert found.num_rows == 0
        assert found.column_names == [*(column.name for column in table.columns), PARTITION]


@pytest.mark.parametrize("name", ["gaps", "latency", "dead_letter_paths"])
def test_both_engines_write_a_table_without_rows_that_spark_reads(spark, tmp_path, name):
    table = BY_NAME[name]
    query = ", ".join(f"cast(null as {kind}) as `{column}`" for column, kind in columns_of(table))
    query = f"select {query}, cast(null as date) as {PARTITION} where 1 = 0"
    near, far = tmp_path / "near", tmp_path / "far"
    near.mkdir()
    SparkEngine(spark).write_table(query, table, str(far))
    with DuckDBEngine() as engine:
        engine.put("nothing", pa.table({"nothing": pa.array([], pa.int64())}))
        columns = ", ".join(f"null as `{column}`" for column, _ in columns_of(table))
        engine.write_table(
            f"select {columns}, cast(null as date) as {PARTITION} from nothing", table, str(near)
        )
    for where in (near, far):
        read = spark.read.parquet(f"{where}/{name}")
        assert read.count() == 0
        expected = spark.createDataFrame([], f"{schema_of(table)}, {PARTITION} date")
        assert read.dtypes == expected.dtypes


def columns_of(table):
    return [(column.name, column.type) for column in table.columns]


def test_a_directory_without_files_is_not_a_table(tmp_path):
    (Path(tmp_path) / "gaps").mkdir()
    with DuckDBEngine() as engine, pytest.raises(MissingTablesError, match="gaps has no files"):
        engine.open_table(str(tmp_path), "gaps")
