"""The tables that the job writes: their names, columns, types and meaning, in one place.

Each is a directory of Parquet files below the output directory, partitioned by `date` (of UTC, of
the row's minute or of its event). docs/analytics.md has this list, made by `describe_tables`.

`minute` is a timestamp (UTC) at which the minute begins. Moments (`..._us`) are microseconds since
1970, as in the log, and durations are microseconds, too. Where a trace is sampled (one message in
N), counts of messages and bytes, depths and rates are multiplied by N, so that they are estimates
of what really happened; rows that stand for one message or event are not.
"""

from typing import NamedTuple

STRING, LONG, DOUBLE, TIMESTAMP, STRINGS = (
    "string",
    "bigint",
    "double",
    "timestamp",
    "array<string>",
)
HOPS = "array<struct<queue:string,reason:string,exchange:string,time_us:bigint,message:bigint>>"

PARTITION = "date"
"""The column that every table is partitioned by."""


class Column(NamedTuple):
    """A column. type: as Spark's DDL has it."""

    name: str
    type: str
    meaning: str


class Table(NamedTuple):
    """A table. columns: without `date`."""

    name: str
    meaning: str
    columns: tuple[Column, ...]


MINUTE = Column("minute", TIMESTAMP, "when the minute begins")
VHOST = Column("vhost", STRING, "the virtual host")
NODE = Column("node", STRING, "the node that saw it")
QUEUE = Column("queue", STRING, "the queue")
EXCHANGE = Column("exchange", STRING, "the exchange; empty for the default exchange")
MESSAGE = Column("message", LONG, "the node's number of the message")
MESSAGE_ID = Column("message_id", STRING, "the message-id property; null if there is none")

TRAFFIC = Table(
    "traffic",
    "Messages by minute, for each exchange, queue, user, connection and routing key",
    (
        MINUTE,
        VHOST,
        Column("kind", STRING, "exchange, queue, user, connection or routing_key"),
        Column("name", STRING, "its name"),
        Column("published", LONG, "messages published; for a queue: messages that came in"),
        Column("delivered", LONG, "messages delivered, redeliveries among them"),
        Column("acknowledged", LONG, "messages acknowledged; 0 for exchange and routing_key"),
        Column("redelivered", LONG, "deliveries marked as redelivered"),
        Column("returned", LONG, "messages returned to their publisher"),
        Column("bytes_in", LONG, "body bytes published"),
        Column("bytes_out", LONG, "body bytes delivered"),
    ),
)

LATENCY = Table(
    "latency",
    "How long messages waited for a consumer, and consumers took to acknowledge. A message counts"
    " in the minute in which it was first delivered, or acknowledged",
    (
        MINUTE,
        VHOST,
        QUEUE,
        Column("waits", LONG, "first deliveries of messages whose publish is in the trace"),
        Column("wait_p50_us", LONG, "publish to first delivery, median"),
        Column("wait_p90_us", LONG, "the same, 90th percentile"),
        Column("wait_p95_us", LONG, "the same, 95th percentile"),
        Column("wait_p99_us", LONG, "the same, 99th percentile"),
        Column("wait_max_us", LONG, "the same, longest"),
        Column("acks", LONG, "messages acknowledged"),
        Column("ack_p50_us", LONG, "last delivery to acknowledgement, median"),
        Column("ack_p90_us", LONG, "the same, 90th percentile"),
        Column("ack_p95_us", LONG, "the same, 95th percentile"),
        Column("ack_p99_us", LONG, "the same, 99th percentile"),
        Column("ack_max_us", LONG, "the same, longest"),
    ),
)

LATENCY_HISTOGRAM = Table(
    "latency_histogram",
    "The same, as counts in buckets: for heat maps, and for adding up over minutes",
    (
        MINUTE,
        VHOST,
        QUEUE,
        Column("measure", STRING, "wait (publish to first delivery) or ack"),
        Column("up_to_us", LONG, "the bucket's upper bound, a power of two; above half of it"),
        Column("messages", LONG, "messages in the bucket"),
    ),
)

DEPTH = Table(
    "depth",
    "Queue depth, rebuilt from events. A row for each minute in which anything happened to the"
    " queue; until the next row nothing changed. Messages that were in the queue before the trace"
    " began are known as far as they came out",
    (
        MINUTE,
        VHOST,
        QUEUE,
        Column("ready", LONG, "messages that wait, at the end of the minute"),
        Column("unacked", LONG, "messages delivered and not acknowledged, at the same time"),
        Column("ready_max", LONG, "the most that waited at the end of a second of the minute"),
        Column("unacked_max", LONG, "the most that were unacknowledged, likewise"),
        Column("came", LONG, "messages that came in during the minute"),
        Column("left", LONG, "messages that left for good: acknowledged, dropped, expired"),
    ),
)

FAN_OUT = Table(
    "fan_out",
    "How many queues the messages of an exchange are routed to",
    (
        VHOST,
        EXCHANGE,
        Column("queues", LONG, "the number of queues"),
        Column("messages", LONG, "messages that were routed to so many"),
    ),
)

OUTCOMES = Table(
    "outcomes",
    "What became of the messages that came into each queue on this date",
    (
        VHOST,
        QUEUE,
        Column("fate", STRING, "as in fates, or acknowledged (no-ack deliveries are)"),
        Column("messages", LONG, "messages"),
    ),
)

FATES = Table(
    "fates",
    "Each message that did not end acknowledged, in each queue that it was in",
    (
        VHOST,
        NODE,
        MESSAGE,
        QUEUE,
        Column("fate", STRING, "never_delivered, never_acknowledged, rejected, expired,"
               " dead_lettered, dropped (by max-length, a purge or the queue's end)"),
        Column("reason", STRING, "of dead_lettered and dropped; else null"),
        Column("exchange", STRING, "where it was published to; null if not in the trace"),
        Column("routing_keys", STRINGS, "with what; null if not in the trace"),
        MESSAGE_ID,
        Column("correlation_id", STRING, "its correlation-id; null if there is none"),
        Column("connection", STRING, "who published it; null for a dead letter"),
        Column("came_us", LONG, "when it came into the queue; null if before the trace"),
        Column("delivered_us", LONG, "when it was last delivered; null if never"),
        Column("ended_us", LONG, "when it expired, was rejected, ...; null if it did not end"),
        Column("deliveries", LONG, "how often it was delivered"),
    ),
)  # fmt: skip

REDELIVERIES = Table(
    "redeliveries",
    "Redeliveries by queue and minute; minutes without any have no row",
    (
        MINUTE,
        VHOST,
        QUEUE,
        Column("delivered", LONG, "all deliveries of the minute"),
        Column("redelivered", LONG, "those marked as redelivered"),
        Column("rejected", LONG, "rejects that asked for a requeue"),
        Column("requeued", LONG, "given back because their channel ended, or by basic.recover"),
    ),
)

POISON = Table(
    "poison",
    "Messages that were delivered from one queue more than N times (--poison-above)",
    (
        VHOST,
        NODE,
        MESSAGE,
        QUEUE,
        Column("deliveries", LONG, "how often"),
        Column("first_us", LONG, "the first delivery"),
        Column("last_us", LONG, "the last delivery"),
        Column("fate", STRING, "as in outcomes"),
        Column("exchange", STRING, "where it was published to; null if not in the trace"),
        Column("routing_keys", STRINGS, "with what; null if not in the trace"),
        MESSAGE_ID,
        Column("correlation_id", STRING, "its correlation-id; null if there is none"),
    ),
)

DEAD_LETTERS = Table(
    "dead_letters",
    "Each time that a message was dead-lettered",
    (
        VHOST,
        NODE,
        Column("time_us", LONG, "when"),
        Column("first_message", LONG, "the number of the message as it was published"),
        Column("hop", LONG, "1 for the first time that it was dead-lettered, and so on"),
        MESSAGE,
        QUEUE,
        Column("reason", STRING, "expired, rejected or maxlen"),
        Column("exchange", STRING, "the dead-letter exchange"),
        Column("routing_keys", STRINGS, "with what"),
        Column("new_message", LONG, "the number of the dead letter"),
        Column("queues", STRINGS, "where it was routed to"),
    ),
)

DEAD_LETTER_PATHS = Table(
    "dead_letter_paths",
    "The whole way of each dead-lettered message, from queue to queue; in the date of its last hop",
    (
        VHOST,
        NODE,
        Column("first_message", LONG, "the number of the message as it was published"),
        Column("last_message", LONG, "the number of the dead letter at the end of the path"),
        Column("hops", LONG, "how often it was dead-lettered"),
        Column("path", HOPS, "each queue that it died in, and why, and the exchange it went to"),
        Column("queues", STRINGS, "the queues that it ended in; empty if it was lost"),
        Column("words", STRING, "the path as a sentence"),
    ),
)

UNROUTABLE = Table(
    "unroutable",
    "Messages that were routed to no queue",
    (
        MINUTE,
        VHOST,
        EXCHANGE,
        Column("routing_key", STRING, "the routing key"),
        Column("messages", LONG, "published to nowhere"),
        Column("returned", LONG, "returned to their publisher, which had asked for it"),
        Column("user", STRING, "a user who published some"),
        Column("connection", STRING, "a connection that published some"),
    ),
)

ROUTING_KEYS = Table(
    "routing_keys",
    "How the messages of each exchange are spread over routing keys",
    (
        VHOST,
        EXCHANGE,
        Column("routing_key", STRING, "the routing key"),
        Column("messages", LONG, "messages published with it"),
        Column("bytes", LONG, "their bodies"),
        Column("share", DOUBLE, "its part of the exchange's messages, 0 to 1"),
        Column("place", LONG, "1 for the key with the most messages; null beyond 1,000"),
        Column("temperature", STRING, "of three keys or more, hot: 10 times an even share (or half"
               " of all) and 5% at least; cold: a hundredth of an even share at most; else warm"),
    ),
)  # fmt: skip

CONSUMERS = Table(
    "consumers",
    "Consumers, ranked within their queue; basic.get is a consumer without a tag",
    (
        VHOST,
        QUEUE,
        Column("connection", STRING, "its connection"),
        Column("channel", LONG, "its channel"),
        Column("consumer_tag", STRING, "its tag; null for basic.get"),
        Column("user", STRING, "who it is"),
        Column("delivered", LONG, "messages delivered to it, also as no-ack"),
        Column("acknowledged", LONG, "of these, acknowledged; not known from before the trace"),
        Column("unacknowledged", LONG, "of these, neither acknowledged nor given back"),
        Column("ack_p50_us", LONG, "delivery to acknowledgement, median"),
        Column("ack_p99_us", LONG, "the same, 99th percentile"),
        Column("unacked_us", LONG, "the sum of the time that messages were unacknowledged"),
        Column("rate", DOUBLE, "acknowledgements a second, from first delivery to last event"),
        Column("first_us", LONG, "its first delivery"),
        Column("last_delivery_us", LONG, "its last delivery"),
        Column("last_ack_us", LONG, "its last acknowledgement; null if there is none"),
        Column("place_by_speed", LONG, "1 for the queue's quickest median"),
        Column("place_by_unacked", LONG, "1 for the queue's longest unacked_us"),
    ),
)

SIZES = Table(
    "sizes",
    "How large messages are",
    (
        VHOST,
        EXCHANGE,
        Column("up_to_bytes", LONG, "the bucket's upper bound, 0 or a power of two"),
        Column("messages", LONG, "messages published"),
        Column("bytes", LONG, "their bodies"),
    ),
)

CHURN = Table(
    "connection_churn",
    "Connections that came and went, by minute",
    (
        MINUTE,
        VHOST,
        Column("opened", LONG, "connections opened"),
        Column("closed", LONG, "connections closed"),
        Column("open", LONG, "open at its end, of those that opened or closed in the trace"),
    ),
)

CONNECTIONS = Table(
    "connections",
    "Each connection that did anything on this date",
    (
        VHOST,
        Column("connection", STRING, "its name"),
        Column("user", STRING, "who is logged in"),
        Column("opened_us", LONG, "null if before the trace, or on another date"),
        Column("closed_us", LONG, "null if after the trace, or on another date"),
        Column("lived_us", LONG, "null if it is not known"),
        Column("published", LONG, "messages published"),
        Column("delivered", LONG, "messages delivered to it"),
        Column("acknowledged", LONG, "messages acknowledged"),
        Column("channels", LONG, "its highest channel number that did anything"),
    ),
)

DUPLICATES = Table(
    "duplicates",
    "Message-ids that were published more than once in a vhost; in the date of the first",
    (
        VHOST,
        Column("message_id", STRING, "the message-id"),
        Column("messages", LONG, "how often it was published"),
        Column("first_us", LONG, "the first time"),
        Column("last_us", LONG, "the last time"),
        Column("exchanges", STRINGS, "where to"),
        Column("connections", STRINGS, "by whom; at most 10"),
    ),
)

TOPOLOGY = Table(
    "topology",
    "What really flowed: from user to exchange to queue to consumer, and on as dead letters",
    (
        VHOST,
        Column("source_kind", STRING, "user, exchange or queue"),
        Column("source", STRING, "its name"),
        Column("target_kind", STRING, "exchange, queue or consumer"),
        Column("target", STRING, "its name; consumers: tag (or basic.get) and connection"),
        Column("dead_letters", STRING, "the reason, if these are dead letters; else null"),
        Column("messages", LONG, "messages that went this way"),
        Column("bytes", LONG, "their bodies; null for dead letters"),
        Column("first_us", LONG, "the first"),
        Column("last_us", LONG, "the last"),
        Column("rate", DOUBLE, "messages a second, over the whole trace on this date"),
    ),
)

ANOMALIES = Table(
    "anomalies",
    "Minutes that are far off what is usual on the same weekday at the same hour",
    (
        MINUTE,
        VHOST,
        Column("kind", STRING, "exchange or queue"),
        Column("name", STRING, "its name"),
        Column("measure", STRING, "published, delivered, wait_p99_us, ack_p99_us or ready"),
        Column("value", DOUBLE, "what it was in this minute"),
        Column("usual", DOUBLE, "the median of the same weekday and hour"),
        Column("score", DOUBLE, "how far off, in robust standard deviations; negative: below"),
        Column("minutes", LONG, "how many minutes the baseline is made of"),
        Column("reason", STRING, "the same in words"),
    ),
)

GAPS = Table(
    "gaps",
    "Where the log is incomplete, because the disk was too slow",
    (
        VHOST,
        NODE,
        Column("time_us", LONG, "the beginning"),
        Column("until_us", LONG, "the end"),
        Column("lost", LONG, "how many records were not written"),
    ),
)

REJECTED = Table(
    "rejected",
    "Lines and files that could not be used; in the date of their directory, else of 1970",
    (
        Column("file", STRING, "the file"),
        Column("line", LONG, "the line, from 1; null if it is about the file as a whole"),
        Column("reason", STRING, "what is wrong"),
        Column("text", STRING, "the line, at most 1,000 characters of it"),
    ),
)

SUMMARY = Table(
    "summary",
    "What the job has read, by vhost and event",
    (
        VHOST,
        NODE,
        Column("event", STRING, "the event"),
        Column("events", LONG, "records of it, not multiplied by sample"),
        Column("sample", LONG, "one message in so many is in the log"),
        Column("first_us", LONG, "the first"),
        Column("last_us", LONG, "the last"),
    ),
)

TABLES = (
    TRAFFIC, LATENCY, LATENCY_HISTOGRAM, DEPTH, FAN_OUT, OUTCOMES, FATES, REDELIVERIES, POISON,
    DEAD_LETTERS, DEAD_LETTER_PATHS, UNROUTABLE, ROUTING_KEYS, CONSUMERS, SIZES, CHURN, CONNECTIONS,
    DUPLICATES, TOPOLOGY, ANOMALIES, GAPS, REJECTED, SUMMARY,
)  # fmt: skip


def describe_tables() -> str:
    """All tables in Markdown."""
    return "\n".join(_described(table) for table in TABLES)


def _described(table: Table) -> str:
    rows = [f"| `{column.name}` | {column.type} | {column.meaning} |" for column in table.columns]
    head = [f"### {table.name}", "", f"{table.meaning}.", "", "| column | type | meaning |"]
    return "\n".join([*head, "|---|---|---|", *rows, ""])
