"""The records of a trace log: which events there are, their fields, and the fields' types.

This is the one place that says so. The broker writes logs by it (log_writer.py), and the job in
`analytics/` reads them by it. A log is JSON Lines; its first line is a header that names this
version. A reader of version n takes every log of a version up to n, leaves out fields that it does
not know, counts events that it does not know, and sets aside files of a higher version.

Times are microseconds since 1970. `message` is the node's own number of a message (0: published
before the trace began); it ties a publish to all that happens to the message, in every queue.
"""

from typing import NamedTuple

VERSION = 1

HEADER = "header"
PUBLISH, DELIVER, ACK, REJECT, REQUEUE = "publish", "deliver", "ack", "reject", "requeue"
EXPIRE, DROP, DEAD_LETTER, RETURN = "expire", "drop", "dead_letter", "return"
OPEN, CLOSE, GAP = "open", "close", "gap"

STRING, LONG, BOOLEAN, STRINGS, JSON = "string", "long", "boolean", "array<string>", "json"
"""Types of fields. JSON: an object of any shape."""


class Field(NamedTuple):
    """A field of records. meaning: for docs/analytics.md."""

    name: str
    type: str
    meaning: str


FIELDS = (
    Field("event", STRING, "what happened"),
    Field("time_us", LONG, "when, in microseconds since 1970"),
    Field("node", STRING, "the node that saw it"),
    Field("vhost", STRING, "the virtual host"),
    Field("connection", STRING, "the connection's name; empty for what no client did"),
    Field("channel", LONG, "the channel's number; 0 for what no channel did"),
    Field("user", STRING, "who is logged in on the connection"),
    Field("message", LONG, "the node's number of the message"),
    Field("new_message", LONG, "the number of the dead letter that it became"),
    Field("exchange", STRING, "where it was published to; empty for the default exchange"),
    Field("routing_keys", STRINGS, "its routing key, and those of CC and BCC"),
    Field("queues", STRINGS, "the queues that it was routed to"),
    Field("queue", STRING, "the queue that the event is about"),
    Field("consumer_tag", STRING, "the consumer; null for basic.get"),
    Field("delivery_tag", LONG, "the delivery, on its channel"),
    Field("redelivered", BOOLEAN, "it had been delivered before"),
    Field("no_ack", BOOLEAN, "the delivery needs no acknowledgement"),
    Field("requeue", BOOLEAN, "the rejected message went back to its queue"),
    Field("reason", STRING, "why it was dropped or dead-lettered"),
    Field("reply_code", LONG, "why it was returned"),
    Field("reply_text", STRING, "the same in words"),
    Field("body_size", LONG, "the body, in bytes"),
    Field("properties", JSON, "the message's properties that are set, headers among them"),
    Field("body", STRING, "the body in base64, if the trace was asked for bodies"),
    Field("count", LONG, "how many messages a purge dropped"),
    Field("until_us", LONG, "the end of a gap"),
    Field("lost", LONG, "how many records a gap has cost"),
    Field("version", LONG, "of these records; in the header"),
    Field("sample", LONG, "one message in so many is in the log; in the header"),
)

_WHO = ("event", "time_us", "node", "vhost", "connection", "channel", "user")
_WHERE = ("event", "time_us", "node", "vhost")

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
    EXPIRE: (*_WHERE, "message", "queue"),
    DROP: (*_WHERE, "queue", "reason"),
    DEAD_LETTER: (
        *_WHERE, "message", "queue", "reason", "new_message", "exchange", "routing_keys", "queues",
    ),
    RETURN: (*_WHO, "message", "exchange", "routing_keys", "reply_code", "reply_text"),
    OPEN: _WHO,
    CLOSE: _WHO,
    GAP: (*_WHERE, "until_us", "lost"),
}  # fmt: skip
"""The fields that each event has. `body` may be with publish and deliver; `message` is with a drop
of a single message, `count` with one of many."""

PARTITION = "vhost={vhost}/date={date}/hour={hour}"
"""Where files are below a trace directory. vhost: percent-encoded; date and hour: of UTC."""
SUFFIX, OPEN_SUFFIX = ".jsonl.gz", ".jsonl.gz.open"
"""Files that are complete, and such as are being written: good up to their last whole line."""
