"""The tables of steps of ten seconds, from which findings are made: columns and meanings."""

from leveret.analytics.tables.columns import LONG, OF_KIND, QUEUE, STRING, VHOST, Column, Table

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
        Column("bytes", LONG, "body bytes of the messages delivered"),
        Column("size_max", LONG, "size of the largest body delivered, in bytes; 0 if none"),
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
        Column("rejected", LONG, "of these, rejected without requeue"),
        Column("sent_back", LONG, "of these, requeued by a reject"),
        Column("out_of_order", LONG, "of those, while it held others, which come before them now"),
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

HELD_KINDS = Table(
    "held_kinds",
    "How long consumers held messages of each kind, by the minute of their settlement; of each"
    " queue and date the 50 kinds that were held longest in all",
    (
        Column("at_us", LONG, "start of the minute"),
        VHOST,
        QUEUE,
        Column("exchange", STRING, "the exchange; empty for the default exchange"),
        Column("routing_key", STRING, "the first routing key"),
        Column("up_to_bytes", LONG, "the upper bound of their size, 0 or a power of two"),
        Column("messages", LONG, "messages acknowledged, rejected or requeued"),
        Column("held_us", LONG, "the sum of the times from delivery to settlement"),
        Column("least_us", LONG, "the least of these times"),
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
    "Messages published to each queue by each connection, in steps of ten seconds",
    (
        AT,
        VHOST,
        QUEUE,
        Column("user", STRING, "the user"),
        Column("connection", STRING, "the connection"),
        Column("messages", LONG, "messages routed to the queue"),
        Column("first_us", LONG, "time of the first of them"),
        Column("last_us", LONG, "time of the last of them"),
    ),
)

PRIORITIES = Table(
    "priorities",
    "Messages by priority, in steps of ten seconds, of queues whose messages have several",
    (
        AT,
        VHOST,
        QUEUE,
        Column("priority", LONG, "the priority property; 0 if there is none"),
        Column("came", LONG, "messages published to the queue"),
        Column("delivered", LONG, "messages delivered for the first time"),
    ),
)

REPLIES = Table(
    "replies",
    "Replies to requests (messages with reply-to), in steps of ten seconds, by the connection that"
    " sent them. Replies to queues that exist are not in it",
    (
        AT,
        VHOST,
        Column("user", STRING, "the user that replied"),
        Column("connection", STRING, "its connection"),
        Column("replies", LONG, "direct replies, and replies without a queue"),
        Column("late", LONG, "of these, sent after the requester had gone"),
        Column("late_max_us", LONG, "how long after, the longest; null if it is not known"),
    ),
)

KINDS = Table(
    "kinds",
    "Messages routed to each queue on this date, by what their publishers say of them",
    (
        VHOST,
        QUEUE,
        Column("user", STRING, "the user that published them"),
        *OF_KIND,
        Column("up_to_bytes", LONG, "the upper bound of their size, 0 or a power of two"),
        Column("messages", LONG, "messages"),
    ),
)
