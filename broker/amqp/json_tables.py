"""Converts JSON to field tables, as RabbitMQ does (`rabbit_misc:json_to_term`).

Strings become long strings, whole numbers longs, other numbers doubles; null is refused. Keys are
sorted. A table may be as large as one that a client sends in a frame of the default size.
"""

from collections.abc import Mapping
from typing import Any

from leveret.broker.amqp.field_table import Field, Table, encode_table

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
