"""Messages, encoded once and stamped with the time for each batch. Pure.

A body of zeros has the timestamp in its first eight bytes. Messages with another body have it in a
header, `timestamp`, as PerfTest's have. Timestamps are nanoseconds of the monotonic clock, which
all processes of a machine share, or of the wall clock if clients run on several machines.
"""

import time
from collections.abc import Callable
from typing import Any

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.amqp.properties import PERSISTENT, PROPERTY_TYPES, Properties, encode_properties
from leveret.mgmt.perf.options import BODY_BYTES_MIN, PerfOptions

STAMP_BYTES = 8
STAMP_HEADER = "timestamp"
STAMP_FIELD = b"\x09timestampl"
"""What precedes the timestamp in a header table: length of its name, name and type."""

_KINDS = {name: kind for name, _, kind in PROPERTY_TYPES}
_OCTET_MAX = 255
_SHORT_STRING_BYTES_MAX = 255


def clock_of(options: PerfOptions) -> Callable[[], int]:
    """Return the clock for timestamps, in nanoseconds."""
    return time.time_ns if options.use_millis else time.monotonic_ns


class MessagePropertyError(ValueError):
    """The value is invalid for a message property."""


def message_properties(given: dict[str, Any]) -> Properties:
    """Return properties by PerfTest's names (appId) or AMQP's (app_id); others become headers.

    Raises PropertyError.
    """
    made: Properties = {}
    headers: Table = {}
    for name, value in given.items():
        known = _with_underscores(name)
        if known in _KINDS and known != "headers":
            made[known] = _property_value(known, value)
        else:
            headers |= json_to_table({name: value})
    return {**made, "headers": headers} if headers else made


def _with_underscores(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


def _property_value(name: str, value: Any) -> Any:
    kind = _KINDS[name]
    if kind == "shortstr":
        text = str(value)
        if len(text.encode()) > _SHORT_STRING_BYTES_MAX:
            raise MessagePropertyError(f"the property {name} is longer than 255 bytes")
        return text
    highest = _OCTET_MAX if kind == "octet" else 2**64 - 1
    if not isinstance(value, int) or not 0 <= value <= highest:
        raise MessagePropertyError(
            f"the property {name} must be a number from 0 to {highest}, not '{value}'"
        )
    return value


class StampedMessage:
    """A message with a place for the time: in the body if it is zeros, otherwise in a header.

    size: of the body.
    """

    __slots__ = ("_after", "_before", "_body", "key", "size")

    def __init__(self, key: str, properties: bytes, body: bytes) -> None:
        found = properties.find(STAMP_FIELD)
        stop = len(properties) if found < 0 else found + len(STAMP_FIELD)
        self.key = key
        self.size = len(body)
        self._before = properties[:stop]
        self._after = properties[stop + STAMP_BYTES :]
        self._body = body if found >= 0 else body[STAMP_BYTES:]

    def stamped(self, now_ns: int) -> tuple[bytes, bytes]:
        """Return the properties and the body, with a timestamp."""
        stamp = now_ns.to_bytes(STAMP_BYTES, "big")
        if len(self._body) < self.size:
            return self._before, stamp + self._body
        return self._before + stamp + self._after, self._body


class MessageMaker:
    """Makes messages. given: message properties as on the command line."""

    def __init__(self, given: dict[str, Any], *, is_persistent: bool) -> None:
        self._properties = message_properties(given)
        if is_persistent:
            self._properties["delivery_mode"] = PERSISTENT

    def of_size(self, key: str, size: int) -> StampedMessage:
        """Return a message of this number of zeros, at least enough for the timestamp."""
        body = bytes(max(size, BODY_BYTES_MIN))
        return StampedMessage(key, encode_properties(self._properties), body)

    def of_body(self, key: str, body: bytes) -> StampedMessage:
        """Return a message with this body."""
        headers = {**self._properties.get("headers", {}), STAMP_HEADER: ("l", 0)}
        return StampedMessage(
            key, encode_properties({**self._properties, "headers": headers}), body
        )
