"""Message properties from JSON, as the HTTP API takes them. Unknown names are ignored."""

from typing import Any

from leveret.broker.amqp.content_header import ContentHeader, header_with
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.amqp.properties import PROPERTY_TYPES

_KINDS = {name: kind for name, _, kind in PROPERTY_TYPES}
_MAXIMUM = {"octet": 255, "timestamp": 2**64 - 1}
SHORT_STRING_BYTES_MAX = 255


class PropertyError(ValueError):
    """A property has a value that is not valid. reason: RabbitMQ's, as JSON."""

    def __init__(self, reason: Any) -> None:
        super().__init__(str(reason))
        self.reason = reason


def header_of_json(properties: Any) -> ContentHeader:
    """The content header with these properties. Raises PropertyError."""
    if properties in ([], None):
        properties = {}
    if not isinstance(properties, dict):
        raise PropertyError(["not_an_object", "properties"])
    values = {
        name: _value(name, properties[name]) for name in _KINDS if properties.get(name) is not None
    }
    return header_with(**values)


def _value(name: str, value: Any) -> Any:
    kind = _KINDS[name]
    if kind == "table":
        if not isinstance(value, dict):
            raise PropertyError(["not_an_object", name])
        try:
            return json_to_table(value)
        except ValueError as error:
            raise PropertyError(str(error)) from None
    if kind in _MAXIMUM:
        if isinstance(value, bool) or not isinstance(value, int):
            raise PropertyError(["not_int", name])
        if not 0 <= value <= _MAXIMUM[kind]:
            raise PropertyError(["out_of_range", name])
        return value
    if not isinstance(value, str):
        raise PropertyError(["not_string", name])
    if len(value.encode()) > SHORT_STRING_BYTES_MAX:
        raise PropertyError(["too_long", name])
    return value
