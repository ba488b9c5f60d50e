"""The tables of streams: columns and meanings."""

from leveret.analytics.tables.activity import AT
from leveret.analytics.tables.columns import BOOLEAN, LONG, STRING, VHOST, Column, Table

_STREAM = Column("queue", STRING, "the stream")
_USER = Column("user", STRING, "its user")
_TAG = Column(
    "consumer_tag",
    STRING,
    "its tag; of the stream protocol: its name, or `subscription N` if it has none",
)

STREAM_ACTIVITY = Table(
    "stream_activity",
    "What was published to each stream and read from it, and what it keeps, in steps of ten seconds"
    " in which chunks were committed, read or removed",
    (
        AT,
        VHOST,
        _STREAM,
        Column("published", LONG, "messages that were committed"),
        Column("bytes", LONG, "bytes of their entries"),
        Column("read_messages", LONG, "messages sent to consumers"),
        Column("end_offset", LONG, "the offset after the last message, at the end"),
        Column("first_offset", LONG, "the first offset, at the end; null if it is not known"),
        Column("max_age_us", LONG, "how long messages are kept; null for ever"),
        Column("max_bytes", LONG, "how many bytes are kept; null without a limit"),
        Column("segment_bytes", LONG, "how many of these are removed at a time"),
    ),
)

STREAM_CONSUMERS = Table(
    "stream_consumers",
    "How far each consumer of a stream is behind, in steps of ten seconds in which its stream has"
    " an event: from its first message until it ends",
    (
        AT,
        VHOST,
        _STREAM,
        Column("connection", STRING, "its connection"),
        Column("channel", LONG, "its channel"),
        _TAG,
        _USER,
        Column("read_messages", LONG, "messages sent to it"),
        Column("bytes", LONG, "size of their bodies; of chunks for the stream protocol"),
        Column("next_offset", LONG, "the offset of the next message that it gets, at the end"),
        Column("lag", LONG, "messages behind that, at the end"),
        Column("lag_us", LONG, "the age of the first one of these, to about ten seconds"),
        Column("lost", LONG, "of these, messages that retention has removed"),
        Column("is_filtered", BOOLEAN, "it does not get all messages, so it may be further"),
        Column("ended_us", LONG, "when it ended; null if it still reads"),
    ),
)

STREAM_OFFSETS = Table(
    "stream_offsets",
    "Offsets that consumers have stored, in steps of ten seconds",
    (
        AT,
        VHOST,
        _STREAM,
        Column("name", STRING, "the name under which it is stored"),
        _USER,
        Column("connection", STRING, "the connection that stored it"),
        Column("times", LONG, "how often one was stored"),
        Column("stored_offset", LONG, "the highest"),
    ),
)
