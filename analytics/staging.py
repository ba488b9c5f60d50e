"""The records once more, as Parquet: parsed once, with the columns that the tables are made of.

Parsing takes most of the time, so it is done once, and all tables are made from the result, which
is in a directory of its own below the output and is deleted in the end. From the records come
`flows` (what happened in a minute between the same parties, counted), of which many tables are
made.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.reading import Reading

STAGED_COMPRESSION = "snappy"
"""What is deleted soon is to be written quickly. Not lz4_raw: Parquet for Java does not read all
of it back (its issue 3478)."""

_KEPT = (
    "event", "time_us", "node", "vhost", "connection", "channel", "user", "message", "new_message",
    "exchange", "routing_keys", "queues", "queue", "consumer_tag", "redelivered", "no_ack",
    "requeue", "reason", "body_size", "count", "until_us", "lost", "wrong", "text", "file", "line",
    "weight",
)  # fmt: skip
_OF_PUBLISH = "if(event = 'publish', properties.{0}, null) as {0}"

_FLOWS = """
    select date_trunc('minute', timestamp_micros(time_us)) as minute, vhost, node, event, exchange,
        queue, queues, routing_keys, user, connection, channel, consumer_tag, reason, redelivered,
        requeue, count(*) as records, sum(coalesce(count, weight)) as messages,
        sum(weight * body_size) as bytes, min(time_us) as first_us, max(time_us) as last_us,
        max(weight) as sample
    from events group by all
"""


def stage_records(session: SparkSession, reading: Reading, path: str) -> DataFrame:
    """Write all records to a directory, and read them back. They are read with Fields.IDS."""
    sampled = [(file.path, file.sample) for file in reading.files if file.sample > 1]
    weights = session.createDataFrame(sampled, "file string, weight bigint")
    records = (
        reading.records.join(F.broadcast(weights), "file", "left")
        if sampled
        else (reading.records.withColumn("weight", F.lit(1)))
    )
    weight = F.coalesce("weight", F.lit(1)).cast("bigint")
    properties = [_OF_PUBLISH.format(name) for name in ("message_id", "correlation_id")]
    kept = records.withColumn("weight", weight).selectExpr(*_KEPT, *properties)
    kept.write.mode("overwrite").option("compression", STAGED_COMPRESSION).parquet(path)
    return session.read.parquet(path)


def stage_flows(session: SparkSession, path: str) -> None:
    """Count what is in the view `events`, and make the view `flows` of it."""
    session.sql(_FLOWS).write.mode("overwrite").parquet(path)
    session.read.parquet(path).createOrReplaceTempView("flows")
