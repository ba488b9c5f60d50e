"""Schemas of the bodies of requests. Unknown fields are allowed, as in RabbitMQ."""

from leveret.broker.auth.passwords import ALGORITHMS
from leveret.broker.policies.parameters import UNROUTABLE_HANDLINGS
from leveret.broker.policies.policy_table import APPLY_TO
from leveret.mgmt.api.description.declared import EXCHANGE_TYPE, QUEUE_TYPES
from leveret.mgmt.api.description.schemas import (
    ANYTHING,
    COUNT,
    FLAG,
    NULL,
    NUMBER,
    OBJECT,
    TEXT,
    any_of,
    body,
    described,
    list_of,
    nullable,
    one_of,
    record,
)
from leveret.mgmt.api.queues import ACK_MODES, ENCODINGS
from leveret.mgmt.definitions.contents import OF_A_NODE, SHAPES

_SOMETHING = described({"not": NULL}, "Anything but null.")
_TRUTH = any_of(FLAG, one_of("true", "false"), NULL)
_NOTHING = {"type": "array", "maxItems": 0}
_TABLE = described(any_of(OBJECT, _NOTHING, NULL), "A field table; it may not contain null.")
_PATTERN = described(TEXT, "A regular expression.")
_TAGS = any_of(TEXT, list_of(TEXT))
_DIGITS = described(any_of(COUNT, NUMBER, TEXT), "A whole number, or a string with one.")
_PAYLOAD = {"payload": TEXT, "payload_encoding": one_of("string", "base64")}
_PROPERTIES = any_of(OBJECT, _NOTHING)
_AMOUNT = any_of(TEXT, NUMBER)

QUEUE = body(
    {},
    {"durable": _TRUTH, "auto_delete": _TRUTH, "arguments": _TABLE, "node": nullable(TEXT)},
)
_POSITION = described(
    any_of(COUNT, TEXT), "An offset, a time, an interval such as 1h (ago), first, last or next."
)
STREAM_COPY = body(
    {"queue": TEXT, "from": _POSITION, "to": _POSITION},
    {"goes_on": described(FLAG, "True for all parts of a copy but the first one.")},
)
STREAM_OFFSET = body({"name": TEXT, "to": _POSITION})
SUPER_STREAM = body({}, {"partitions": COUNT, "binding-keys": TEXT, "arguments": _TABLE})
PLANNED_QUEUE = body({}, {"durable": _TRUTH, "auto_delete": _TRUTH, "arguments": _TABLE})
EXCHANGE = body(
    {},
    {
        "type": {**EXCHANGE_TYPE, "default": "direct"},
        "durable": _TRUTH, "auto_delete": _TRUTH, "internal": _TRUTH, "arguments": _TABLE,
    },
)  # fmt: skip
BINDING = body({}, {"routing_key": nullable(TEXT), "arguments": _TABLE})
PUBLISHED = body({"routing_key": nullable(TEXT), "properties": _PROPERTIES, **_PAYLOAD})
GET = body(
    {"count": _DIGITS, "ackmode": one_of(*ACK_MODES), "encoding": one_of(*ENCODINGS)},
    {"truncate": nullable(_DIGITS)},
)
REBALANCING = body(
    {"type": one_of("all", "classic", "quorum", "stream")},
    {"vhost_pattern": TEXT, "queue_pattern": TEXT},
)
_MEMBERSHIP = {"membership": one_of("promotable", "voter", "non_voter")}
MEMBERS_NODE = body({"node": TEXT})
QUORUM_MEMBER = body({"node": TEXT}, _MEMBERSHIP)
_STRATEGY = one_of("all", "even")
GROWING = body({"vhost_pattern": TEXT, "queue_pattern": TEXT, "strategy": _STRATEGY}, _MEMBERSHIP)
GROWING_ON_NODE = body(
    {"node": TEXT, "strategy": _STRATEGY},
    {"vhost_pattern": TEXT, "queue_pattern": TEXT, **_MEMBERSHIP},
)
FORCING = body({}, {"vhost": TEXT, "name": TEXT, "all": _TRUTH})
QUEUE_ACTION = body(
    {"action": one_of("sync", "cancel_sync", "transfer_leader", "convert")},
    {
        "node": described(ANYTHING, "With transfer_leader: the name of the next leader."),
        "to": described(ANYTHING, "With convert: quorum or classic."),
    },
)
VHOST = body(
    {},
    {
        "description": ANYTHING, "tags": nullable(_TAGS), "tracing": _TRUTH,
        "default_queue_type": nullable(any_of(QUEUE_TYPES, one_of("undefined"))),
        "unroutable_publishes": nullable(one_of(*UNROUTABLE_HANDLINGS)),
    },
)  # fmt: skip
USER = body(
    {},
    {
        "tags": _TAGS,
        "administrator": described(ANYTHING, "True adds the tag; ignored if there are tags."),
        "password": nullable(TEXT), "permissions": nullable(OBJECT),
        "limits": nullable(any_of(OBJECT, _NOTHING)),
        "password_hash": described(nullable(TEXT), "In base64; empty for no password."),
        "hashing_algorithm": described(ANYTHING, f"Used with a hash: {', '.join(ALGORITHMS)}."),
    },
)  # fmt: skip
USERS = body({"users": list_of(TEXT)})
PERMISSION = body({"configure": _PATTERN, "write": _PATTERN, "read": _PATTERN})
TOPIC_PERMISSION = body({"exchange": TEXT, "write": _PATTERN, "read": _PATTERN})
POLICY = body(
    {"pattern": _PATTERN, "definition": OBJECT},
    {"apply-to": nullable(one_of(*APPLY_TO)), "priority": nullable(NUMBER)},
)
LIMIT = body({"value": {"type": "integer"}})
PARAMETER = body({"value": _SOMETHING})
CLUSTER_NAME = body({"name": TEXT})
NOTHING = described(ANYTHING, "The content is ignored.")
LOGIN = record({"username": TEXT, "password": TEXT}, is_open=True)

_FILTERS = {
    "header": nullable(any_of(TEXT, list_of(TEXT))), "body": nullable(_PATTERN),
    "routing_key": nullable(_PATTERN),
}  # fmt: skip
_CHOSEN = {"ids": nullable(list_of(ANYTHING)), "all": ANYTHING, **_FILTERS}
RETRY = body(
    {},
    {
        **_CHOSEN, "to": nullable(body({"exchange": TEXT, "routing_key": TEXT}, {})),
        "targets": list_of(body({"exchange": TEXT, "routing_keys": list_of(TEXT)}, {})),
        "edit": nullable(
            body({}, {"payload": TEXT, "properties": nullable(_PROPERTIES),
                      "payload_encoding": one_of("string", "base64")})
        ),
    },
)  # fmt: skip
CHOSEN = body({}, _CHOSEN)
CHOSEN_DELAYED = body({}, {"message_ids": nullable(list_of(TEXT)), "all": ANYTHING, **_FILTERS})
MOVE = body({"destination": TEXT}, _CHOSEN)

_LISTS = dict.fromkeys(SHAPES, nullable(list_of(OBJECT)))
DEFINITIONS = record({}, _LISTS, is_open=True)
VHOST_DEFINITIONS = record(
    {}, {kind: items for kind, items in _LISTS.items() if kind not in OF_A_NODE}, is_open=True
)

AMOUNT = body({}, {"absolute": _AMOUNT, "relative": _AMOUNT})
LOG_LEVEL = body({"level": TEXT}, {"category": nullable(TEXT)})
PLUGINS = body({"act": one_of("enable", "disable", "set"), "names": list_of(TEXT)})
JOINING = body({"node": TEXT}, {"type": one_of("disc", "ram")})
PUBLISHING_DISCARDED = body({"file": TEXT}, {"declare": FLAG})
FORGETTING = body({"node": TEXT})
NODE_TYPE = body({"type": one_of("disc", "ram")})
PASSWORD = body({"username": TEXT, "password": TEXT})
CLOSING = body(
    {}, {"reason": ANYTHING, "vhost": ANYTHING, "user": ANYTHING, "limit": nullable(COUNT)}
)
