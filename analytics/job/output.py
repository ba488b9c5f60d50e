"""Writes and reads tables with Spark; reading works for an empty table, too."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.analytics.job.files import escaped
from leveret.analytics.tables.columns import PARTITION, Table
from leveret.analytics.tables.engine import FinalRows
from leveret.analytics.tables.tables import BY_NAME


def write_table(rows: DataFrame, table: Table, where: str, kept: FinalRows | None = None) -> None:
    """Write a table below `where`. kept: earlier rows to take over."""
    columns = [F.col(column.name).cast(column.type) for column in table.columns]
    date = F.coalesce(F.col(PARTITION), F.lit("1970-01-01").cast("date")).alias(PARTITION)
    dated = rows.select(*columns, date)
    if kept is not None:
        since = F.lit(kept.since).cast("date")
        earlier = read_table(rows.sparkSession, kept.where, table.name)
        dated = dated.where(F.col(PARTITION) >= since).unionByName(
            earlier.where(F.col(PARTITION) < since)
        )
    # Rows of a date go to one task, or to several if there are many: few files of even size.
    writer = dated.hint("rebalance", PARTITION).write.mode("overwrite")
    writer.partitionBy(PARTITION).parquet(f"{where}/{table.name}")


def read_table(session: SparkSession, where: str, name: str) -> DataFrame:
    """Read a table that the job has written below `where`; it may have no rows."""
    columns = [f"`{column.name}` {column.type}" for column in BY_NAME[name].columns]
    schema = ", ".join([*columns, f"{PARTITION} date"])
    return session.read.schema(schema).parquet(escaped(f"{where}/{name}"))
