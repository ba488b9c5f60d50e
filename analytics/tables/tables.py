"""The tables that the job writes: their names, columns, types and meanings.

Each table is a directory of Parquet files below the output directory, partitioned by `date` (in
UTC, of the row's minute or event). docs/reference/analytics-tables.md is made of them
(description.py).

`minute` is the timestamp (UTC) at which the minute begins. Times (`..._us`) are microseconds since
1970, as in the log; durations are microseconds, too. If a trace is sampled (one message in N),
counts of messages and bytes, depths and rates are multiplied by N and so are estimates; rows that
stand for a single message or event are not.
"""

from leveret.analytics.tables.activity import (
    CONSUMER_ACTIVITY,
    HELD_KINDS,
    KINDS,
    PRIORITIES,
    PUBLISHERS,
    QUEUE_ACTIVITY,
    REPLIES,
    UNATTENDED,
)
from leveret.analytics.tables.columns import (
    DOUBLE,
    EXCHANGE,
    HOPS,
    LONG,
    MESSAGE,
    MESSAGE_ID,
    MINUTE,
    NODE,
    OF_KIND,
    ORIGIN,
    QUEUE,
    STRING,
    STRINGS,
    VHOST,
    Column,
    Table,
)
from leveret.analytics.tables.streams import (
    STREAM_ACTIVITY,
    STREAM_CONSUMERS,
    STREAM_OFFSETS,
)

TRAFFIC = Table(
    "traffic",
    "Messages by minute, for each exchange, queue, user, connection and routing key",
    (
        MINUTE,
        VHOST,
        Column("kind", STRING, "exchange, queue, user, connection or routing_key"),
        Column(
            "name",
            STRING,
            "its name; null: all routing keys but the 1,000 of each exchange on"
            " a date that most records have",
        ),
        Column("published", LONG, "messages published; for a queue: messages routed to it"),
        Column("delivered", LONG, "messages delivered, including redeliveries"),
        Column("acknowledged", LONG, "messages acknowledged; 0 for exchange and routing_key"),
        Column("redelivered", LONG, "deliveries marked as redelivered"),
        Column("returned", LONG, "messages returned to their publisher"),
        Column("bytes_in", LONG, "body bytes published"),
        Column("bytes_out", LONG, "body bytes delivered"),
    ),
)

LATENCY = Table(
    "latency",
    "How long messages waited for a consumer, and how long consumers took to acknowledge. A message"
    " counts in the minute of its first delivery or of its acknowledgement",
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
    "The same as counts in buckets, which can be added up, for example for heat maps",
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
    "Queue depth, reconstructed from events: a row for each minute in which an event of the queue"
    " happened; the depth is unchanged until the next row. Messages that were in the queue before"
    " the trace began are known only if they left it",
    (
        MINUTE,
        VHOST,
        QUEUE,
        Column("ready", LONG, "messages ready, at the end of the minute"),
        Column("unacked", LONG, "messages delivered but not acknowledged, at the same time"),
        Column("ready_max", LONG, "the most messages ready at the end of a second of the minute"),
        Column("unacked_max", LONG, "the most messages unacknowledged, likewise"),
        Column("came", LONG, "messages that entered during the minute"),
        Column("left", LONG, "messages that left finally: acknowledged, dropped, expired"),
    ),
)

FAN_OUT = Table(
    "fan_out",
    "To how many queues the messages of an exchange are routed; direct replies have none, and are"
    " left out",
    (
        VHOST,
        EXCHANGE,
        Column("queues", LONG, "the number of queues"),
        Column("messages", LONG, "messages routed to that number of queues"),
    ),
)

OUTCOMES = Table(
    "outcomes",
    "The fates of the messages that entered each queue on this date",
    (
        VHOST,
        QUEUE,
        Column("fate", STRING, "as in fates, or acknowledged (includes no-ack deliveries)"),
        Column("messages", LONG, "messages"),
    ),
)

FATES = Table(
    "fates",
    "Each message that was not acknowledged, in each queue that it entered",
    (
        VHOST,
        ORIGIN,
        MESSAGE,
        QUEUE,
        Column("fate", STRING, "never_delivered, never_acknowledged, rejected, expired,"
               " dead_lettered, dropped (by max-length, as a duplicate, by a purge or the deletion"
               " of the queue)"),
        Column("reason", STRING, "for dead_lettered and dropped; otherwise null"),
        Column("exchange", STRING, "the exchange it was published to; null if not in the trace"),
        Column("routing_keys", STRINGS, "its routing keys; null if not in the trace"),
        MESSAGE_ID,
        Column("correlation_id", STRING, "the correlation-id property; null if there is none"),
        Column("connection", STRING, "the publisher's connection; null for a dead letter"),
        Column("came_us", LONG, "when it entered the queue; null if before the trace"),
        Column("delivered_us", LONG, "when it was last delivered; null if never"),
        Column("ended_us", LONG, "when it expired, was rejected, ...; null if it is still queued"),
        Column("deliveries", LONG, "number of deliveries"),
        Column("user", STRING, "the publisher's user; null if not in the trace"),
        Column("body_size", LONG, "size of its body in bytes; null if not in the trace"),
        *OF_KIND,
        Column("consumer_tag", STRING, "the consumer that got it; null if there were several"),
        Column("consumer_connection", STRING, "its connection, likewise"),
    ),
)  # fmt: skip

REDELIVERIES = Table(
    "redeliveries",
    "Redeliveries by queue and minute; minutes without redeliveries have no row",
    (
        MINUTE,
        VHOST,
        QUEUE,
        Column("delivered", LONG, "all deliveries of the minute"),
        Column("redelivered", LONG, "deliveries marked as redelivered"),
        Column("rejected", LONG, "rejects with requeue"),
        Column("requeued", LONG, "messages requeued by the end of a channel or basic.recover"),
    ),
)

POISON = Table(
    "poison",
    "Messages that were delivered from one queue more than N times (--poison-above)",
    (
        VHOST,
        ORIGIN,
        MESSAGE,
        QUEUE,
        Column("deliveries", LONG, "number of deliveries"),
        Column("first_us", LONG, "time of the first delivery"),
        Column("last_us", LONG, "time of the last delivery"),
        Column("fate", STRING, "as in outcomes"),
        Column("exchange", STRING, "the exchange it was published to; null if not in the trace"),
        Column("routing_keys", STRINGS, "its routing keys; null if not in the trace"),
        MESSAGE_ID,
        Column("correlation_id", STRING, "the correlation-id property; null if there is none"),
        Column("connection", STRING, "the publisher's connection; null for a dead letter"),
        Column("user", STRING, "the publisher's user; null if not in the trace"),
        Column("body_size", LONG, "size of its body in bytes; null if not in the trace"),
        *OF_KIND,
    ),
)

DEAD_LETTERS = Table(
    "dead_letters",
    "Each dead-lettering of a message",
    (
        VHOST,
        NODE,
        Column("time_us", LONG, "time of the dead-lettering"),
        Column("first_message", LONG, "number of the message as it was published"),
        Column("hop", LONG, "1 for the first dead-lettering of the message, and so on"),
        MESSAGE,
        QUEUE,
        Column("reason", STRING, "expired, rejected or maxlen"),
        Column("exchange", STRING, "the dead-letter exchange"),
        Column("routing_keys", STRINGS, "the dead letter's routing keys"),
        Column("new_message", LONG, "number of the dead letter"),
        Column("queues", STRINGS, "queues to which it was routed"),
    ),
)

DEAD_LETTER_PATHS = Table(
    "dead_letter_paths",
    "The whole path of each dead-lettered message, from queue to queue; date of its last hop",
    (
        VHOST,
        NODE,
        Column("first_message", LONG, "number of the message as it was published"),
        Column("last_message", LONG, "number of the dead letter at the end of the path"),
        Column("hops", LONG, "number of dead-letterings"),
        Column("path", HOPS, "each queue that dead-lettered it, the reason, and the exchange"),
        Column("queues", STRINGS, "the queues at the end; empty if it was lost"),
        Column("words", STRING, "the path as a sentence"),
    ),
)

UNROUTABLE = Table(
    "unroutable",
    "Messages that were routed to no queue, without replies (table replies), and without those"
    " that an exchange has refused as duplicates",
    (
        MINUTE,
        VHOST,
        EXCHANGE,
        Column("routing_key", STRING, "the routing key; null: as in traffic"),
        Column("messages", LONG, "messages published"),
        Column("returned", LONG, "messages returned to their publisher (mandatory flag)"),
        Column("user", STRING, "one of the users who published them"),
        Column("connection", STRING, "one of the connections that published them"),
    ),
)

ROUTING_KEYS = Table(
    "routing_keys",
    "How the messages of each exchange are distributed over routing keys",
    (
        VHOST,
        EXCHANGE,
        Column("routing_key", STRING, "the routing key; null: all beyond the first 1,000"),
        Column("messages", LONG, "messages published with it"),
        Column("bytes", LONG, "size of their bodies"),
        Column("share", DOUBLE, "share of the exchange's messages, 0 to 1"),
        Column("place", LONG, "rank by messages, from 1; null for the row of all others"),
        Column("temperature", STRING, "hot: 10 times an even share (or half of all), and 5%;"
               " cold: at most a hundredth of an even share; else, or below three keys, warm; null"
               " for the row of all others"),
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
        Column("user", STRING, "its user"),
        Column("delivered", LONG, "messages delivered to it, including no-ack"),
        Column("no_ack", LONG, "of these, without acknowledgement"),
        Column("acknowledged", LONG, "of these, acknowledged; unknown from before the trace"),
        Column("unacknowledged", LONG, "of these, neither acknowledged nor requeued"),
        Column("ack_p50_us", LONG, "delivery to acknowledgement, median"),
        Column("ack_p99_us", LONG, "the same, 99th percentile"),
        Column("unacked_us", LONG, "the sum of the time that messages were unacknowledged"),
        Column("rate", DOUBLE, "acknowledgements per second, from first delivery to last event"),
        Column("first_us", LONG, "time of its first delivery"),
        Column("last_delivery_us", LONG, "time of its last delivery"),
        Column("last_ack_us", LONG, "time of its last acknowledgement; null if there is none"),
        Column("oldest_us", LONG, "when it got the oldest message that it still holds"),
        Column("place_by_speed", LONG, "rank in the queue; 1: shortest median"),
        Column("place_by_unacked", LONG, "rank in the queue; 1: longest unacked_us"),
    ),
)

SIZES = Table(
    "sizes",
    "Message sizes",
    (
        VHOST,
        EXCHANGE,
        Column("up_to_bytes", LONG, "the bucket's upper bound, 0 or a power of two"),
        Column("messages", LONG, "messages published"),
        Column("bytes", LONG, "size of their bodies"),
    ),
)

CHURN = Table(
    "connection_churn",
    "Connections opened and closed, by minute",
    (
        MINUTE,
        VHOST,
        Column("opened", LONG, "connections opened"),
        Column("closed", LONG, "connections closed"),
        Column("open", LONG, "open at the end, of those that opened or closed in the trace"),
    ),
)

CONNECTIONS = Table(
    "connections",
    "Each connection with an event on this date",
    (
        VHOST,
        Column("connection", STRING, "its name"),
        Column("user", STRING, "its user"),
        Column(
            "opened_us", LONG, "time it was opened; null if before the trace or on another date"
        ),
        Column("closed_us", LONG, "time it was closed; null if after the trace or on another date"),
        Column("lived_us", LONG, "its duration; null if unknown"),
        Column("published", LONG, "messages published"),
        Column("delivered", LONG, "messages delivered to it"),
        Column("acknowledged", LONG, "messages acknowledged"),
        Column("channels", LONG, "its highest channel number with an event"),
    ),
)

DUPLICATES = Table(
    "duplicates",
    "Message-ids that came to a queue more than once, on the date of the first",
    (
        VHOST,
        QUEUE,
        Column("message_id", STRING, "the message-id"),
        Column("messages", LONG, "how often it came to the queue"),
        Column("first_us", LONG, "time of the first publish"),
        Column("last_us", LONG, "time of the last publish"),
        Column("exchanges", STRINGS, "the exchanges it was published to"),
        Column("connections", STRINGS, "the publishing connections; at most 10"),
        Column("last_connection", STRING, "the connection that published it last"),
    ),
)

TOPOLOGY = Table(
    "topology",
    "The message flow: from user to exchange to queue to consumer, and on as dead letters",
    (
        VHOST,
        Column("source_kind", STRING, "user, exchange or queue"),
        Column("source", STRING, "its name"),
        Column("target_kind", STRING, "exchange, queue or consumer"),
        Column("target", STRING, "its name; for consumers: tag (or basic.get) and connection"),
        Column("dead_letters", STRING, "the reason, for dead letters; otherwise null"),
        Column("messages", LONG, "messages from source to target"),
        Column("bytes", LONG, "size of their bodies; null for dead letters"),
        Column("first_us", LONG, "time of the first message"),
        Column("last_us", LONG, "time of the last message"),
        Column("rate", DOUBLE, "messages per second, over the whole trace on this date"),
    ),
)

ANOMALIES = Table(
    "anomalies",
    "Minutes that differ strongly from the same weekday and hour",
    (
        MINUTE,
        VHOST,
        Column("kind", STRING, "exchange or queue"),
        Column("name", STRING, "its name"),
        Column("measure", STRING, "published, delivered, wait_p99_us, ack_p99_us or ready"),
        Column("value", DOUBLE, "the value in this minute"),
        Column("usual", DOUBLE, "the median of the same weekday and hour"),
        Column("score", DOUBLE, "distance in robust standard deviations; negative: below"),
        Column("minutes", LONG, "number of minutes in the baseline"),
        Column("reason", STRING, "the same as a sentence"),
    ),
)

GAPS = Table(
    "gaps",
    "Times for which the log is incomplete, because the disk was too slow",
    (
        VHOST,
        NODE,
        Column("time_us", LONG, "start of the gap"),
        Column("until_us", LONG, "end of the gap"),
        Column("lost", LONG, "number of records that were not written"),
    ),
)

REJECTED = Table(
    "rejected",
    "Lines and files that were rejected, on the date of their directory, otherwise of 1970",
    (
        Column("file", STRING, "the file; of a later part of a large one, also its first byte"),
        Column("line", LONG, "the line of the file or part, from 1; null if it concerns all"),
        Column("reason", STRING, "why it was rejected"),
        Column("text", STRING, "the line, at most 1,000 characters of it"),
    ),
)

TRUST = Table(
    "trust",
    "How far to trust the tables: what is missing, damaged, given twice or of a wrong time. A row"
    " for each fault, or one that says that there is none; on the date 1970-01-01",
    (
        Column("kind", STRING, "missing files, damage, gaps, copied files, copied records,"
               " implausible times, clock or nothing found"),
        Column("times", LONG, "how many there are: files, lines and places, gaps or records"),
        Column("lost_records", LONG, "records that the tables do not have because of it, about"),
        Column("lost_bytes", LONG, "bytes of files that were skipped; null if it is not known"),
        Column("sentence", STRING, "the same as a sentence, which the report shows"),
    ),
)  # fmt: skip

SUMMARY = Table(
    "summary",
    "The records that the job has read, by vhost and event",
    (
        VHOST,
        NODE,
        Column("event", STRING, "the event"),
        Column("events", LONG, "number of records, not multiplied by sample"),
        Column("sample", LONG, "the log contains one message in this number"),
        Column("first_us", LONG, "time of the first record"),
        Column("last_us", LONG, "time of the last record"),
    ),
)

TABLES = (
    TRAFFIC, LATENCY, LATENCY_HISTOGRAM, DEPTH, QUEUE_ACTIVITY, UNATTENDED, FAN_OUT, OUTCOMES,
    FATES, REDELIVERIES, POISON, DEAD_LETTERS, DEAD_LETTER_PATHS, UNROUTABLE, ROUTING_KEYS,
    CONSUMERS, CONSUMER_ACTIVITY, HELD_KINDS, PUBLISHERS, PRIORITIES, REPLIES, KINDS,
    STREAM_ACTIVITY, STREAM_CONSUMERS, STREAM_OFFSETS, SIZES, CHURN, CONNECTIONS, DUPLICATES,
    TOPOLOGY, ANOMALIES, GAPS, REJECTED, TRUST, SUMMARY,
)  # fmt: skip

BY_NAME = {table.name: table for table in TABLES}
