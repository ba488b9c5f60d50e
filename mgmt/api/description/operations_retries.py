"""Operations on messages that wait for their retry, with their schemas."""

from leveret.mgmt.api.description.operation import WHOLE_OR_NONE, Parameter, TaggedOperations
from leveret.mgmt.api.description.schemas import (
    COUNT,
    FLAG,
    OBJECT,
    TEXT,
    Schema,
    any_of,
    body,
    described,
    list_of,
    record,
    ref,
)

_retries = TaggedOperations("delayed retries")

_CHOICE = body(
    optional={
        "all": described(FLAG, "Must be true: every message that waits."),
        "positions": list_of(COUNT),
        "message_id": described(TEXT, "Every message that has this message id."),
    }
)
SCHEMAS: dict[str, Schema] = {
    "DelayedRetry": record(
        {
            "position": described(COUNT, "Names the message in its queue."),
            "returns": described(COUNT, "How often it was returned."),
            "due_at": described(COUNT, "Milliseconds since 1970."),
            "exchange": TEXT, "routing_key": TEXT,
            "properties": any_of(OBJECT, {"type": "array", "maxItems": 0}),
            "payload_bytes": COUNT,
        }
    ),
    "DelayedRetries": record(
        {
            "messages": described(COUNT, "All that wait."),
            "items": list_of(ref("DelayedRetry")),
        }
    ),
    "EndedRetries": record({"done": described(COUNT, "How many messages no longer wait.")}),
}  # fmt: skip
OPERATIONS = (
    _retries.gets(
        "/queues/{vhost}/{queue}/retries", ref("DelayedRetries"), 400, 404,
        parameters=[Parameter("count", WHOLE_OR_NONE)],
    ),
    _retries.posts(
        "/queues/{vhost}/{queue}/retries/deliver", _CHOICE, ref("EndedRetries"), 400, 404
    ),
    _retries.posts(
        "/queues/{vhost}/{queue}/retries/discard", _CHOICE, ref("EndedRetries"), 400, 404
    ),
)  # fmt: skip
