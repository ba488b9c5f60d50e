"""Properties and times as JSON, and field tables out of JSON.

A field table is made of JSON as in RabbitMQ (`rabbit_misc:json_to_term`): strings become long
strings, whole numbers longs, other numbers doubles; null is refused. Keys are sorted. It may be as
large as one that a client sends in a frame of the default size.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from leveret.broker.amqp.field_table import Field, Table, encode_table
from leveret.broker.amqp.json_form import table_to_json, text

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
KEY_BYTES_MAX = 255
TABLE_BYTES_MAX = 124 * 1024
"""The default frame_max, less 4 KB for the other properties of a message."""


def json_to_table(values: Mapping[str, Any]) -> Table:
    """The field table of a JSON object. Raises ValueError for one that it cannot hold."""
    table = _table(values)
    if len(encode_table(table)) > TABLE_BYTES_MAX:
        raise ValueError(f"a table may have at most {TABLE_BYTES_MAX} bytes")
    return table


def _table(values: Mapping[str, Any]) -> Table:
    for name in values:
        if len(name.encode("utf-8", "surrogateescape")) > KEY_BYTES_MAX:
            raise ValueError(f"the key of a field may have at most {KEY_BYTES_MAX} bytes")
    return {name: json_to_field(values[name]) for name in sorted(values)}


def json_to_field(value: Any) -> Field:
    """The field of a JSON value. Raises ValueError for a value that a field table cannot hold."""
    match value:
        case bool():
            return ("t", value)
        case int():
            if not INT64_MIN <= value <= INT64_MAX:
                raise ValueError(f"{value} does not fit in 64 bits")
            return ("l", value)
        case float():
            return ("d", value)
        case str():
            return ("S", value)
        case list():
            return ("A", [json_to_field(item) for item in value])
        case dict():
            return ("F", _table(value))
        case _:
            raise ValueError("null_not_allowed")


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
