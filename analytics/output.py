"""Tables on disk: written as tables.py describes them, and read back, even if they are empty."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.tables import PARTITION, TABLES, Table

BY_NAME = {table.name: table for table in TABLES}


def write_table(rows: DataFrame, table: Table, out: str, since: str = "") -> None:
    """Write a table below `out`, in place of what is there.

    since: a date; if given, what is there of earlier ones is left alone.
    """
    columns = [F.col(column.name).cast(column.type) for column in table.columns]
    date = F.coalesce(F.col(PARTITION), F.lit("1970-01-01").cast("date")).alias(PARTITION)
    # Rows of a date go to one task, or to several if they are many, so that files are few and even.
    even = rows.select(*columns, date).hint("rebalance", PARTITION)
    if since:
        even = even.where(F.col(PARTITION) >= F.lit(since).cast("date"))
    mode = "dynamic" if since else "static"
    writer = even.write.mode("overwrite").option("partitionOverwriteMode", mode)
    writer.partitionBy(PARTITION).parquet(f"{out}/{table.name}")


def read_table(session: SparkSession, out: str, name: str) -> DataFrame:
    """A table that the job has written below `out`; it has no rows if it is empty."""
    columns = [f"`{column.name}` {column.type}" for column in BY_NAME[name].columns]
    schema = ", ".join([*columns, f"{PARTITION} date"])
    return session.read.schema(schema).parquet(f"{out}/{name}")
