"""Writes and reads tables with Spark; reading works for an empty table, too."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.analytics.tables.tables import BY_NAME, PARTITION, Table


def write_table(rows: DataFrame, table: Table, out: str, since: str = "") -> None:
    """Write a table below `out`, replacing an existing one.

    since: a date, YYYY-MM-DD; if given, earlier dates on disk are left unchanged.
    """
    columns = [F.col(column.name).cast(column.type) for column in table.columns]
    date = F.coalesce(F.col(PARTITION), F.lit("1970-01-01").cast("date")).alias(PARTITION)
    # Rows of a date go to one task, or to several if there are many: few files of even size.
    even = rows.select(*columns, date).hint("rebalance", PARTITION)
    if since:
        even = even.where(F.col(PARTITION) >= F.lit(since).cast("date"))
    mode = "dynamic" if since else "static"
    writer = even.write.mode("overwrite").option("partitionOverwriteMode", mode)
    writer.partitionBy(PARTITION).parquet(f"{out}/{table.name}")


def read_table(session: SparkSession, out: str, name: str) -> DataFrame:
    """Read a table that the job has written below `out`; it may have no rows."""
    columns = [f"`{column.name}` {column.type}" for column in BY_NAME[name].columns]
    schema = ", ".join([*columns, f"{PARTITION} date"])
    return session.read.schema(schema).parquet(f"{out}/{name}")
