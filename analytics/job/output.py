"""Writes and reads tables with Spark."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.analytics.job.files import escaped
from leveret.analytics.tables.columns import NO_DATE, NO_ROWS, PARTITION, Table
from leveret.analytics.tables.engine import FinalRows
from leveret.analytics.tables.tables import BY_NAME


def write_table(rows: DataFrame, table: Table, where: str, kept: FinalRows | None = None) -> None:
    """Write a table below `where`; one without rows as a file that has the columns.

    kept: earlier rows to take over.
    """
    columns = [F.col(column.name).cast(column.type) for column in table.columns]
    date = F.coalesce(F.col(PARTITION), F.lit(NO_DATE).cast("date")).alias(PARTITION)
    dated = rows.select(*columns, date)
    if kept is not None:
        since = F.lit(kept.since).cast("date")
        earlier = read_table(rows.sparkSession, kept.where, table.name)
        dated = dated.where(F.col(PARTITION) >= since).unionByName(
            earlier.where(F.col(PARTITION) < since)
        )
    # Rows of a date go to one task, or to several if there are many: few files of even size.
    writer = dated.hint("rebalance", PARTITION).write.mode("overwrite")
    path = f"{where}/{table.name}"
    writer.partitionBy(PARTITION).parquet(path)
    if not read_table(rows.sparkSession, where, table.name).inputFiles():
        nothing = rows.sparkSession.createDataFrame([], schema_of(table))
        nothing.coalesce(1).write.mode("overwrite").parquet(f"{path}/{NO_ROWS}")


def schema_of(table: Table) -> str:
    """Return the columns that are in the files of a table."""
    return ", ".join(f"`{column.name}` {column.type}" for column in table.columns)


def read_table(session: SparkSession, where: str, name: str) -> DataFrame:
    """Read a table that the job has written below `where`."""
    schema = f"{schema_of(BY_NAME[name])}, {PARTITION} date"
    return session.read.schema(schema).parquet(escaped(f"{where}/{name}"))
