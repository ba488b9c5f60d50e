"""Properties and times as JSON."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from leveret.broker.amqp.json_form import table_to_json, text

PROPERTIES = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id",
    "reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
NUMBERS = ("delivery_mode", "priority", "timestamp")


def properties_to_json(properties: Mapping[str, Any]) -> Any:
    """The message properties that are set. If there are none, the result is [], as in RabbitMQ."""
    shown: dict[str, Any] = {}
    for name in PROPERTIES:
        value = properties.get(name)
        if value is None:
            continue
        if name == "headers":
            shown[name] = table_to_json(value)
        elif isinstance(value, str):
            shown[name] = text(value)
        elif isinstance(value, datetime):
            shown[name] = int(value.timestamp())
        else:
            shown[name] = value
    return shown or []


def iso_time(seconds: float) -> str:
    """`2026-11-21T05:07:56.663+00:00`."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


NO_ERLANG_PROCESS = {
    "reductions": 0,
    "reductions_details": {"rate": 0.0},
    "garbage_collection": {
        "fullsweep_after": 0, "max_heap_size": 0, "min_bin_vheap_size": 0, "min_heap_size": 0,
        "minor_gcs": 0,
    },
}  # fmt: skip
"""The figures of the Erlang process that RabbitMQ has for a connection, a channel or a queue."""
