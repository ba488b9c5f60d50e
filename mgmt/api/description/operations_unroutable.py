"""Operations on messages that reached no queue, with their schemas."""

from leveret.mgmt.api.description.operation import WHOLE_OR_NONE, Parameter, TaggedOperations
from leveret.mgmt.api.description.schemas import (
    COUNT,
    FLAG,
    NAME,
    OBJECT,
    TEXT,
    Schema,
    any_of,
    described,
    list_of,
    record,
    ref,
)

_unroutable = TaggedOperations("unroutable messages")

_TIME_MS = described(COUNT, "Milliseconds since 1970.")
SCHEMAS: dict[str, Schema] = {
    "UnroutableCount": record(
        {
            "exchange": TEXT,
            "prefix": described(TEXT, "The routing key up to its first dot; * for all others."),
            "messages": COUNT,
            "returned": described(COUNT, "Messages that were returned to their publishers."),
            "last_ms": _TIME_MS,
        }
    ),
    "UnroutableMessage": record(
        {
            "node": NAME, "time_ms": _TIME_MS,
            "user": described(TEXT, "The publisher's user; empty for a dead letter."),
            "exchange": TEXT, "routing_key": TEXT, "returned": FLAG,
            "properties": any_of(OBJECT, {"type": "array", "maxItems": 0}),
            "payload": TEXT, "payload_encoding": NAME, "payload_bytes": COUNT, "truncated": FLAG,
        }
    ),
    "UnroutableMessages": record(
        {
            "messages": described(COUNT, "All that were counted."),
            "counts": list_of(ref("UnroutableCount")),
            "items": list_of(ref("UnroutableMessage")),
        }
    ),
}  # fmt: skip
OPERATIONS = (
    _unroutable.gets(
        "/unroutable/{vhost}", ref("UnroutableMessages"), 400, 404,
        parameters=[Parameter("count", WHOLE_OR_NONE), Parameter("truncate", WHOLE_OR_NONE)],
    ),
    _unroutable.deletes("/unroutable/{vhost}", 404),
)  # fmt: skip
