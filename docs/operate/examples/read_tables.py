"""Reads the tables of `leveret analyze` with pandas, DuckDB and PySpark, without Leveret.

    python read_tables.py DIR

DIR is the --out of `leveret analyze`. Each cell (`# %%`) needs the first one only, so the cells of
programs that are not installed can be left out. Columns, units and keys of all tables:
docs/reference/analytics-tables.md.
"""

# %% The tables of one run
import sys
from pathlib import Path

# `current` is a link that the next run changes. Followed once, all tables are of the same run.
TABLES = (Path(sys.argv[1]) / "current").resolve()

# %% pandas: what became of the messages of each queue
import pandas

outcomes = pandas.read_parquet(TABLES / "outcomes")
by_queue = outcomes.pivot_table(
    index=["vhost", "queue"], columns="fate", values="messages", aggfunc="sum", fill_value=0
)
print(by_queue.to_string(), end="\n\n")

# %% pandas: a table without rows has its columns, too
gaps = pandas.read_parquet(TABLES / "gaps", columns=["node", "time_us", "until_us", "lost"])
gaps["since"] = pandas.to_datetime(gaps["time_us"], unit="us", utc=True)
print(f"Gaps in the logs: {len(gaps)}", end="\n\n")

# %% DuckDB: the worst minutes of each queue
import duckdb

# Instants are shown in UTC as times without a zone: other zones need DuckDB's extension `icu`.
worst = duckdb.execute(
    """
    select * from (
        select distinct on (vhost, queue) vhost, queue, wait_p99_us / 1e6 as seconds,
            make_timestamp(epoch_us(minute)) as minute
        from read_parquet($files, hive_partitioning = true)
        where wait_p99_us is not null
        order by vhost, queue, wait_p99_us desc, minute
    )
    order by seconds desc, vhost, queue
    """,
    {"files": f"{TABLES}/latency/*/*.parquet"},
)
for vhost, queue, seconds, minute in worst.fetchall():
    print(f"{queue} in {vhost}: 99 of 100 waited up to {seconds:.3f} s at {minute:%H:%M}")
print()

# %% PySpark: how many messages each consumer still holds, and since when
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("tables of Leveret").getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")
consumers = spark.read.parquet(f"{TABLES}/consumers")
# A consumer has a row for each date.
holding = (
    consumers.where(F.col("unacknowledged") > 0)
    .groupBy("vhost", "queue", "connection", "consumer_tag")
    .agg(
        F.sum("unacknowledged").alias("messages"),
        F.timestamp_micros(F.min("oldest_us")).alias("since"),
    )
    .orderBy(F.desc("messages"), "queue")
)
holding.show(truncate=False)

# %% PySpark: which messages these are, by the key of two tables
fates = spark.read.parquet(f"{TABLES}/fates").where("fate = 'never_acknowledged'")
# `connection` of fates is that of the publisher.
consumer = F.col("consumer_connection").alias("connection"), "consumer_tag"
held = fates.select("vhost", "queue", *consumer, "message", "message_id", "deliveries").join(
    holding, ["vhost", "queue", "connection", "consumer_tag"]
)
held.select("queue", "message", "message_id", "deliveries", "consumer_tag").show(truncate=False)
