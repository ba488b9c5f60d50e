"""Publishing, getting and purging, and lists of a busy client's objects."""

from typing import Any

from tests.mgmt.recorder.requests import Request, delete, get, head, options_of, post, put
from tests.mgmt.recorder.scenario import Scenario
from tests.mgmt.recorder.state import busy

PUBLISH = "exchanges/{v}/amq.default/publish"
GET = "queues/{v}/q/get"


def published(**changes: Any) -> dict[str, Any]:
    """A valid publish request with changes; None removes a field."""
    body = {"properties": {}, "routing_key": "q", "payload": "hi", "payload_encoding": "string"}
    return {key: value for key, value in (body | changes).items() if value is not None}


def got(**changes: Any) -> dict[str, Any]:
    """A valid request for getting messages with changes."""
    body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    return {key: value for key, value in (body | changes).items() if value is not None}


def with_properties(**properties: Any) -> tuple[Request, Request]:
    """Publish a message with properties, and get it."""
    return (
        post(PUBLISH, published(properties=properties)),
        post(GET, got(ackmode="ack_requeue_false")),
    )


ALL_PROPERTIES = {
    "content_type": "text/plain", "content_encoding": "gzip", "delivery_mode": 2, "priority": 3,
    "correlation_id": "c", "reply_to": "r", "expiration": "60000", "message_id": "m",
    "timestamp": 1700000000, "type": "t", "user_id": "guest", "app_id": "a", "cluster_id": "k",
    "headers": {"text": "ü", "number": 5, "big": 2**40, "float": 1.5, "yes": True, "list": [1, "a"],
                "table": {"inner": -1}},
}  # fmt: skip

PUBLISHING = (
    put("queues/{v}/q", {"durable": True}),
    post(PUBLISH, published()),
    post(PUBLISH, published(routing_key="nowhere")),
    post(PUBLISH, published(payload="aGk=", payload_encoding="base64")),
    post(PUBLISH, published(payload="ü€")),
    post(PUBLISH, published(payload="")),
    post(PUBLISH, published(payload="h!", payload_encoding="base64")),
    post(PUBLISH, published(payload_encoding="nonsense")),
    post(PUBLISH, published(payload=5)),
    post(PUBLISH, published(payload=None)),
    post(PUBLISH, published(routing_key=None)),
    post(PUBLISH, published(properties=None)),
    post(PUBLISH, published(payload_encoding=None)),
    post(PUBLISH, {}),
    post(PUBLISH, b"no json"),
    post(PUBLISH, [1]),
    post(PUBLISH, published(properties="none")),
    post(PUBLISH, published(properties=[])),
    post(PUBLISH, published(properties={"delivery_mode": "x"})),
    post(PUBLISH, published(properties={"priority": 300})),
    post(PUBLISH, published(properties={"content_type": 5})),
    post(PUBLISH, published(properties={"headers": "x"})),
    post(PUBLISH, published(properties={"headers": {"a": None}})),
    post(PUBLISH, published(properties={"timestamp": "yesterday"})),
    post(PUBLISH, published(properties={"expiration": 5})),
    post(PUBLISH, published(properties={"expiration": "soon"})),
    post(PUBLISH, published(properties={"user_id": "nobody"})),
    post(PUBLISH, published(properties={"unknown": 1})),
    post("exchanges/{v}/nothing/publish", published()),
    post("exchanges/nowhere/amq.default/publish", published()),
    post("exchanges/{v}/amq.fanout/publish", published()),
    get(PUBLISH),
    options_of(PUBLISH),
    delete("queues/{v}/q/contents"),
    *with_properties(),
    *with_properties(**ALL_PROPERTIES),
    *with_properties(delivery_mode=1),
    *with_properties(headers={}),
)  # fmt: skip

GETTING = (
    put("queues/{v}/q", {"durable": True}),
    post(GET, got()),
    *(post(PUBLISH, published(payload=f"message {number}")) for number in range(5)),
    post(PUBLISH, published(payload="/wCA", payload_encoding="base64")),
    post(GET, got()),
    post(GET, got(count=100), ordered=True),
    post(GET, got(truncate=3)),
    post(GET, got(encoding="base64")),
    post(GET, got(ackmode="reject_requeue_true")),
    post(GET, got(ackmode="reject_requeue_false")),
    post(GET, got(ackmode="ack_requeue_false", count=2), ordered=True),
    post(GET, got(count="1")),
    post(GET, got(count=0)),
    post(GET, got(count=-1)),
    post(GET, got(count="many")),
    post(GET, got(count=None)),
    post(GET, got(ackmode=None)),
    post(GET, got(encoding=None)),
    post(GET, got(encoding="nonsense")),
    post(GET, got(ackmode="nonsense")),
    post(GET, got(truncate="little")),
    post(GET, {"count": 1, "requeue": True, "encoding": "auto"}),
    post(GET, b"no json"),
    post("queues/{v}/nothing/get", got()),
    get(GET),
    get("queues/{v}/q?columns=messages", settles=True),
    delete("queues/{v}/q?if-empty=true"),
    delete("queues/{v}/q/contents"),
    delete("queues/{v}/nothing/contents"),
    get("queues/{v}/q/contents"),
    options_of("queues/{v}/q/contents"),
    delete("queues/{v}/q?if-empty=true"),
)

CLIENTS = (
    get("queues/{v}/work", settles=True),
    get("queues/{v}/other", settles=True),
    get("queues/{v}/single", settles=True),
    get("queues/{v}", settles=True),
    get("exchanges/{v}/topics", settles=True),
    get("exchanges/{v}", settles=True),
    get("vhosts/{v}", settles=True),
    get("connections/{quoted}", settles=True),
    get("connections/{quoted}/channels", settles=True),
    get("connections/{other_quoted}", settles=True),
    get("vhosts/{v}/connections?sort=user", settles=True),
    get("vhosts/{v}/channels", settles=True),
    get("connections", settles=True),
    get("channels", settles=True),
    get("channels/{quoted}%20(1)", settles=True),
    get("channels/{quoted}%20(2)", settles=True),
    get("channels/{quoted}%20(3)", settles=True),
    get("channels/{quoted}%20(4)", settles=True),
    get("channels/{quoted}%20(9)"),
    get("consumers", settles=True),
    get("consumers/{v}", settles=True),
    get("consumers/nowhere"),
    get("connections/nobody"),
    get("connections/nobody/channels"),
    get("connections/username/golden-management", settles=True),
    get("connections/username/nobody"),
    get("queues/{v}/work?msg_rates_age=20&msg_rates_incr=5&lengths_age=20&lengths_incr=5",
        settles=True),
    get("queues/{v}/work?disable_stats=true", settles=True),
    get("queues/{v}?disable_stats=true&enable_queue_totals=true", settles=True),
    get("connections", user="management", settles=True),
    get("connections", user="monitoring", settles=True),
    get("channels", user="management", settles=True),
    get("connections/{quoted}", user="management"),
    get("channels/{quoted}%20(1)", user="management"),
    get("channels/{quoted}%20(1)", user="monitoring", settles=True),
    get("consumers", user="management", settles=True),
    get("consumers", user="stranger"),
    delete("connections/{quoted}", user="management"),
    delete("connections/{quoted}", user="monitoring"),
    head("connections/{quoted}"),
    options_of("connections/{quoted}"),
    delete("queues/{v}/work?if-unused=true"),
    delete("queues/{v}/work?if-empty=true"),
    delete("connections/username/golden-management", headers={"X-Reason": "all of one user"}),
    delete("connections/{quoted}", headers={"X-Reason": "for the recording"}),
    delete("connections/nobody"),
    get("vhosts/{v}/connections", settles=True),
    get("vhosts/{v}/channels", settles=True),
    get("consumers/{v}", settles=True),
)  # fmt: skip

MESSAGES = (
    Scenario("publishing", PUBLISHING),
    Scenario("getting", GETTING),
    Scenario("clients", CLIENTS, busy),
)
