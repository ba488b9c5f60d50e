"""The tables of steps of ten seconds, from which findings are made: columns and meanings."""

from leveret.analytics.tables.columns import LONG, QUEUE, STRING, VHOST, Column, Table

AT = Column("at_us", LONG, "start of the ten seconds")

QUEUE_ACTIVITY = Table(
    "queue_activity",
    "What happened to the messages of each queue, in steps of ten seconds that have an event of it",
    (
        AT,
        VHOST,
        QUEUE,
        Column("ready", LONG, "messages ready, at the end"),
        Column("unacked", LONG, "messages delivered but not acknowledged, at the end"),
        Column("ready_max", LONG, "the most messages ready at the end of a second"),
        Column("unacked_max", LONG, "the most messages unacknowledged, likewise"),
        Column("came", LONG, "messages that entered"),
        Column("delivered", LONG, "messages delivered"),
        Column("redelivered", LONG, "of these, marked as redelivered"),
        Column("acknowledged", LONG, "messages acknowledged"),
        Column("rejected", LONG, "messages rejected without requeue"),
        Column("requeued", LONG, "messages requeued"),
        Column("sent_back", LONG, "of these, by a reject; the others by the end of a channel"),
        Column("expired", LONG, "messages that expired"),
        Column("dropped", LONG, "messages dropped, as in fates"),
        Column("wait_max_us", LONG, "the longest wait of a message first delivered; null if none"),
    ),
)

CONSUMER_ACTIVITY = Table(
    "consumer_activity",
    "What consumers with acknowledgements hold, in steps of ten seconds that have an event of the"
    " consumer. It is busy while it holds a message, and pauses while it is busy and settles none",
    (
        AT,
        VHOST,
        QUEUE,
        Column("connection", STRING, "its connection"),
        Column("channel", LONG, "its channel"),
        Column("consumer_tag", STRING, "its tag; null for basic.get"),
        Column("delivered", LONG, "messages delivered to it"),
        Column("settled", LONG, "messages acknowledged, rejected or requeued"),
        Column("held", LONG, "messages that it holds, at the end"),
        Column("held_max", LONG, "the most messages that it held"),
        Column("busy_us", LONG, "time that it was busy, from its event before until its last one"),
        Column("hold_p50_us", LONG, "delivery to settlement, median; null if none was settled"),
        Column("hold_max_us", LONG, "the same, longest"),
        Column("pause_us", LONG, "the longest pause that ended; null if none was settled"),
        Column("pause_end_us", LONG, "when that pause ended"),
        Column("mark_us", LONG, "when a pause last began; null if before"),
    ),
)

UNATTENDED = Table(
    "unattended",
    "Times of at least five seconds in which messages were ready and no consumer held or got one:"
    " the queue had no consumer",
    (
        VHOST,
        QUEUE,
        Column("since_us", LONG, "beginning"),
        Column("until_us", LONG, "end; null if it is the end of the trace"),
        Column("ready_max", LONG, "the most messages ready"),
        Column("ready_last", LONG, "messages ready, after the last event"),
        Column("came", LONG, "messages that entered"),
    ),
)

PUBLISHERS = Table(
    "publishers",
    "Messages published to each queue by each user, in steps of ten seconds",
    (
        AT,
        VHOST,
        QUEUE,
        Column("user", STRING, "the user"),
        Column("messages", LONG, "messages routed to the queue"),
    ),
)
