"""Operations on retained messages of MQTT, with their schemas."""

from leveret.mgmt.api.description.operation import WHOLE_OR_NONE, Parameter, TaggedOperations
from leveret.mgmt.api.description.schemas import (
    COUNT,
    NAME,
    TEXT,
    Schema,
    described,
    list_of,
    record,
    ref,
)

_retained = TaggedOperations("retained messages")

_FIELDS = {
    "vhost": TEXT, "topic": NAME, "qos": COUNT, "payload_bytes": COUNT,
    "expires_at": described(COUNT, "Seconds since 1970; 0 if the message does not expire."),
}  # fmt: skip
SCHEMAS: dict[str, Schema] = {
    "RetainedMessage": record(_FIELDS),
    "RetainedMessages": record(
        {
            "messages": described(COUNT, "The messages of the vhost."),
            "bytes": described(COUNT, "The bytes of their topics, payloads and properties."),
            "items": list_of(ref("RetainedMessage")),
        }
    ),
    "RetainedPayload": record({**_FIELDS, "payload": TEXT, "payload_encoding": NAME}),
}
OPERATIONS = (
    _retained.gets(
        "/mqtt/retained/{vhost}", ref("RetainedMessages"), 400, 404,
        parameters=[
            Parameter("filter", described(TEXT, "A filter of MQTT; all messages by default.")),
            Parameter("count", WHOLE_OR_NONE),
        ],
    ),
    _retained.gets("/mqtt/retained/{vhost}/{topic}", ref("RetainedPayload"), 404),
    _retained.deletes("/mqtt/retained/{vhost}/{topic}", 404),
    _retained.deletes("/mqtt/retained/{vhost}", 404),
)  # fmt: skip
