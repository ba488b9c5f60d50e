"""The records of a trace log: the events, their fields, and the fields' types.

The broker writes them in blocks (log_sink.py, block_format.py), which readers convert to lines
(block_lines.py). Older brokers wrote the lines themselves. The first line is a header with the
version of the schema. A reader of version n reads every log of a version up to n, ignores unknown
fields, lists records of unknown events, and rejects files of a higher version. So events and
fields may be added in a version, as those of streams were.

The messages of streams stay, and come and go by the thousand: a record is about a chunk. A message
that AMQP 0-9-1 publishes to a stream has its own record; `streams` names the streams that it was
routed to, `queues` the queues. Another record has the offset that it got in each stream.

Times are microseconds since 1970. `message` is the number of a message, given by the node that it
was published on (0: published before the trace began). It links a publish to all events of the
message, in every queue and in the logs of all nodes of the cluster.
"""

from typing import NamedTuple

VERSION = 1

SAMPLE_MAX = 1_000_000
"""The largest sample factor: one message in this number is in the log."""

HEADER = "header"
PUBLISH, DELIVER, ACK, REJECT, REQUEUE = "publish", "deliver", "ack", "reject", "requeue"
EXPIRE, DROP, DEAD_LETTER, RETURN = "expire", "drop", "dead_letter", "return"
DELAY = "delay"
OPEN, CLOSE, GAP = "open", "close", "gap"
APPEND, COMMIT, READ, END_READING = "append", "commit", "read", "end_reading"
STORE_OFFSET, RETAIN, PLACE = "store_offset", "retain", "place"
STREAM_EVENTS = (APPEND, COMMIT, READ, END_READING, STORE_OFFSET, RETAIN)
"""Events of streams, which stand for `messages` of them, whatever the sample is."""

STRING, LONG, BOOLEAN, STRINGS, JSON = "string", "long", "boolean", "array<string>", "json"
"""Types of fields. JSON: an object of any shape."""


class RecordField(NamedTuple):
    """A field of records. meaning: for docs/operate/analytics.md."""

    name: str
    type: str
    meaning: str


FIELDS = (
    RecordField("event", STRING, "what happened"),
    RecordField("time_us", LONG, "time, in microseconds since 1970"),
    RecordField("node", STRING, "the node that wrote the record"),
    RecordField("vhost", STRING, "the virtual host"),
    RecordField("connection", STRING, "the connection's name; empty if no client caused the event"),
    RecordField("channel", LONG, "the channel's number; 0 if no channel caused the event"),
    RecordField("user", STRING, "the connection's user"),
    RecordField("message", LONG, "the number of the message, in the whole cluster"),
    RecordField("new_message", LONG, "the number of its dead letter"),
    RecordField(
        "exchange", STRING, "the exchange it was published to; empty for the default exchange"
    ),
    RecordField("routing_keys", STRINGS, "its routing key, and those of CC and BCC"),
    RecordField("queues", STRINGS, "the queues that it was routed to"),
    RecordField("streams", STRINGS, "the streams that it was routed to, if there are any"),
    RecordField("queue", STRING, "the queue, or the stream, of the event"),
    RecordField(
        "consumer_tag",
        STRING,
        "the consumer; null for basic.get. Of the stream protocol: its name, or `subscription N`;"
        " of a stored offset: the name under which it is stored",
    ),
    RecordField("publisher", STRING, "a publisher of the stream protocol; empty without a name"),
    RecordField(
        "offset", LONG, "the offset of the message, of the first one, or the one that is stored"
    ),
    RecordField("messages", LONG, "the number of messages of a chunk, or of a publish"),
    RecordField("published_us", LONG, "when the leader got the messages of the chunk"),
    RecordField("lag", LONG, "how many committed messages are behind those that were read"),
    RecordField("filtered", BOOLEAN, "the consumer does not get all messages"),
    RecordField("first_offset", LONG, "the first offset of the stream"),
    RecordField("max_age_us", LONG, "how long the stream keeps messages; null for ever"),
    RecordField("max_bytes", LONG, "how many bytes the stream keeps; null without a limit"),
    RecordField("segment_bytes", LONG, "how many of these are removed at a time"),
    RecordField("delivery_tag", LONG, "the delivery tag on its channel"),
    RecordField("redelivered", BOOLEAN, "the redelivered flag"),
    RecordField("no_ack", BOOLEAN, "the delivery requires no acknowledgement"),
    RecordField("requeue", BOOLEAN, "the rejected message was requeued"),
    RecordField(
        "reason",
        STRING,
        "why it was dropped or dead-lettered; of a publish or a return: `duplicate` if an exchange"
        " refused it",
    ),
    RecordField("reply_code", LONG, "why it was returned"),
    RecordField("reply_text", STRING, "the same in words"),
    RecordField("body_size", LONG, "size of the body in bytes"),
    RecordField("properties", JSON, "the message's properties that are set, including headers"),
    RecordField("body", STRING, "the body in base64, if the trace has bodies"),
    RecordField("count", LONG, "number of messages that a purge dropped"),
    RecordField("until_us", LONG, "the end of a gap, or of the wait for a retry"),
    RecordField("lost", LONG, "number of records lost in a gap"),
    RecordField("version", LONG, "version of the format; in the header"),
    RecordField("sample", LONG, "one message in this number is in the log; in the header"),
)

_WHO = ("event", "time_us", "node", "vhost", "connection", "channel", "user")
_WHERE = ("event", "time_us", "node", "vhost")
_CHUNK = ("queue", "offset", "messages", "body_size", "published_us")
_LIMITS = ("first_offset", "max_age_us", "max_bytes", "segment_bytes")

EVENTS: dict[str, tuple[str, ...]] = {
    HEADER: (*_WHERE, "version", "sample"),
    PUBLISH: (
        *_WHO, "message", "exchange", "routing_keys", "queues", "body_size", "properties",
    ),
    DELIVER: (
        *_WHO, "message", "queue", "exchange", "routing_keys", "consumer_tag", "delivery_tag",
        "redelivered", "no_ack", "body_size", "properties",
    ),
    ACK: (*_WHO, "message", "queue", "delivery_tag"),
    REJECT: (*_WHO, "message", "queue", "delivery_tag", "requeue"),
    REQUEUE: (*_WHERE, "message", "queue"),
    DELAY: (*_WHERE, "message", "queue", "until_us"),
    EXPIRE: (*_WHERE, "message", "queue"),
    DROP: (*_WHERE, "queue", "reason"),
    DEAD_LETTER: (
        *_WHERE, "message", "queue", "reason", "new_message", "exchange", "routing_keys", "queues",
    ),
    RETURN: (*_WHO, "message", "exchange", "routing_keys", "reply_code", "reply_text"),
    OPEN: _WHO,
    CLOSE: _WHO,
    GAP: (*_WHERE, "until_us", "lost"),
    APPEND: (*_WHO, "queue", "publisher", "messages", "body_size"),
    COMMIT: (*_WHERE, *_CHUNK, *_LIMITS),
    READ: (*_WHO, *_CHUNK, "consumer_tag", "lag", "filtered"),
    END_READING: (*_WHO, "queue", "consumer_tag"),
    STORE_OFFSET: (*_WHO, "queue", "consumer_tag", "offset"),
    RETAIN: (*_WHERE, "queue", *_LIMITS),
    PLACE: (*_WHERE, "message", "queue", "offset"),
}  # fmt: skip
"""The fields of each event. `body` is optional for publish and deliver, `streams` for publish and
dead_letter, `reason` for publish and return; a drop of a single message has `message`, a drop of
several has `count`.
"""

PARTITION = "vhost={vhost}/date={date}/hour={hour}"
"""Path of files below a trace directory. vhost: percent-encoded; date and hour: UTC."""
SUFFIX, OPEN_SUFFIX = ".trace.gz", ".trace.gz.open"
"""Complete files, and files being written, which are valid up to their last whole block."""
LINES_SUFFIX, OPEN_LINES_SUFFIX = ".jsonl.gz", ".jsonl.gz.open"
"""The same for files of lines, from older brokers and other programs."""
SUFFIXES, OPEN_SUFFIXES = (SUFFIX, LINES_SUFFIX), (OPEN_SUFFIX, OPEN_LINES_SUFFIX)
