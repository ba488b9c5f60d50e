"""Message frames, encoded once and stamped with the time for each batch. Pure.

A body of zeros has the timestamp in its first eight bytes. Messages with another body have it in a
header, `timestamp`, as PerfTest's have. Timestamps are nanoseconds of the monotonic clock, which
all processes of a machine share, or of the wall clock if clients run on several machines.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pamqp import commands

from leveret.broker.amqp.content import Piece, body_frames, header_frame
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.frames import METHOD, encode_frame
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.amqp.methods import encode_method
from leveret.broker.amqp.properties import PERSISTENT, PROPERTY_TYPES, Properties, encode_properties
from leveret.mgmt.perf.options import BODY_BYTES_MIN, Options

STAMP_BYTES = 8
STAMP_HEADER = "timestamp"
STAMP_FIELD = b"\x09timestampl"
"""What precedes the timestamp in a header table: length of its name, name and type."""
FRAME_HEAD_BYTES = 7

_KINDS = {name: kind for name, _, kind in PROPERTY_TYPES}
_OCTET_MAX = 255
_SHORT_STRING_BYTES_MAX = 255


def clock_of(options: Options) -> Callable[[], int]:
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


class PublishAddress(NamedTuple):
    """Where messages are published.

    exchange, is_mandatory: for basic.publish. frame_bytes_max: the connection's.
    """

    channel: int
    exchange: str
    is_mandatory: bool
    frame_bytes_max: int


class MessageFrames:
    """All frames of one message, and the offset of its timestamp."""

    __slots__ = ("_after", "_before", "length")

    def __init__(self, frames: bytes, stamp_at: int) -> None:
        self.length = len(frames)
        self._before = frames[:stamp_at]
        self._after = frames[stamp_at + STAMP_BYTES :]

    def stamped(self, now_ns: int) -> bytes:
        """Return the frames with a timestamp."""
        return self._before + now_ns.to_bytes(STAMP_BYTES, "big") + self._after


class MessageMaker:
    """Makes the frames of one channel's messages.

    given: message properties as on the command line.
    """

    def __init__(
        self, address: PublishAddress, given: dict[str, Any], *, is_persistent: bool
    ) -> None:
        self._address = address
        self._properties = message_properties(given)
        if is_persistent:
            self._properties["delivery_mode"] = PERSISTENT

    def of_size(self, key: str, size: int) -> MessageFrames:
        """Return a message of this number of zeros, at least enough for the timestamp."""
        body = bytes(max(size, BODY_BYTES_MIN))
        method, header = self._method(key), self._header(self._properties, len(body))
        frames = b"".join((method, header, *self._body(body)))
        return MessageFrames(frames, len(method) + len(header) + FRAME_HEAD_BYTES)

    def of_body(self, key: str, body: bytes) -> MessageFrames:
        """Return a message with this body."""
        headers = {**self._properties.get("headers", {}), STAMP_HEADER: ("l", 0)}
        method = self._method(key)
        header = self._header({**self._properties, "headers": headers}, len(body))
        stamp_at = len(method) + header.index(STAMP_FIELD) + len(STAMP_FIELD)
        return MessageFrames(b"".join((method, header, *self._body(body))), stamp_at)

    def _method(self, key: str) -> bytes:
        address = self._address
        payload = encode_method(
            commands.Basic.Publish, exchange=address.exchange, routing_key=key,
            mandatory=address.is_mandatory,
        )  # fmt: skip
        return encode_frame(METHOD, address.channel, payload)

    def _header(self, properties: Properties, body_bytes: int) -> bytes:
        return header_frame(self._address.channel, encode_properties(properties), body_bytes)

    def _body(self, body: bytes) -> list[Piece]:
        return body_frames(self._address.channel, body, self._address.frame_bytes_max)
