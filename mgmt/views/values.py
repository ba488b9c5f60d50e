"""Field tables, properties and times as JSON, and back.

To JSON and back is RabbitMQ's way (`rabbit_mgmt_format`, `rabbit_misc:json_to_term`): texts are
long strings, whole numbers longs, other numbers doubles; null is refused. Bytes that are no text
are shown with replacement characters.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from broker.amqp.field_table import Field, Table

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def text(value: str) -> str:
    """A name that may hold bytes which are not UTF-8, as JSON can say it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value


def table_to_json(table: Table) -> dict[str, Any]:
    """A field table."""
    return {text(name): field_to_json(field) for name, field in table.items()}


def field_to_json(field: Field) -> Any:
    """A value of a field table."""
    kind, value = field
    if kind == "F":
        return table_to_json(value)
    if kind == "A":
        return [field_to_json(item) for item in value]
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, bool | int | float) or value is None:
        return value
    return str(value)


def json_to_table(values: Mapping[str, Any]) -> Table:
    """A field table of a JSON object. Raises ValueError for what it cannot hold."""
    return {name: json_to_field(value) for name, value in values.items()}


def json_to_field(value: Any) -> Field:
    """A value of a field table of JSON."""
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
            return ("F", json_to_table(value))
        case _:
            raise ValueError("null_not_allowed")


PROPERTIES = (
    "content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id",
    "reply_to", "expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id",
)  # fmt: skip
NUMBERS = ("delivery_mode", "priority", "timestamp")


def properties_to_json(properties: Mapping[str, Any]) -> Any:
    """Message properties that are there; of none, RabbitMQ shows an empty list."""
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


def iso_now() -> str:
    """The time of day."""
    return iso_time(time.time())
