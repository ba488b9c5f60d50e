"""Operations on messages that wait at exchanges of the type x-delayed-message."""

from leveret.mgmt.api.description.bodies import CHOSEN_DELAYED
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

_delayed = TaggedOperations("delayed messages")

_PATH = "/exchanges/{vhost}/{exchange}/delayed"
SCHEMAS: dict[str, Schema] = {
    "DelayedMessage": record(
        {
            "node": NAME, "due_ms": described(COUNT, "Milliseconds since 1970."),
            "exchange": TEXT, "routing_key": TEXT,
            "properties": any_of(OBJECT, {"type": "array", "maxItems": 0}),
            "payload": TEXT, "payload_encoding": NAME, "payload_bytes": COUNT, "truncated": FLAG,
        }
    ),
    "DelayedMessages": record(
        {
            "messages": described(COUNT, "All that wait."),
            "matching": described(COUNT, "Those that the query chooses."),
            "items": list_of(ref("DelayedMessage")),
        }
    ),
}  # fmt: skip
OPERATIONS = (
    _delayed.gets(
        _PATH, ref("DelayedMessages"), 400, 404,
        parameters=[
            Parameter("count", WHOLE_OR_NONE), Parameter("truncate", WHOLE_OR_NONE),
            Parameter("message_id", described(TEXT, "A message id; may be repeated.")),
            Parameter("header", described(TEXT, "NAME or NAME:PATTERN; may be repeated.")),
            Parameter("routing_key", described(TEXT, "A regular expression.")),
            Parameter("body", described(TEXT, "A regular expression.")),
        ],
    ),
    _delayed.posts(f"{_PATH}/send", CHOSEN_DELAYED, record({"sent": COUNT}), 404),
    _delayed.posts(f"{_PATH}/cancel", CHOSEN_DELAYED, record({"cancelled": COUNT}), 404),
)  # fmt: skip
