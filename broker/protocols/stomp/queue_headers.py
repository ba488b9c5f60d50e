"""Headers of SUBSCRIBE and SEND as properties of a queue, and as arguments of a consumer."""

import struct
from hashlib import md5
from typing import Final

from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.protocols.stomp.destinations import QUEUE, Destination
from leveret.broker.protocols.stomp.message_headers import number_of, truth_of
from leveret.broker.runtime.generated_names import encode_name
from leveret.broker.sessions.declaring_queues import QueueProperties

DURABLE: Final = ("durable", "persistent")
SUBSCRIPTION_QUEUE: Final = "stomp-subscription"
_TEXT_ARGUMENTS: Final = (
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-age", "x-overflow",
    "x-queue-type",
)  # fmt: skip
_NUMBER_ARGUMENTS: Final = (
    "x-expires", "x-max-length", "x-max-length-bytes", "x-max-priority", "x-message-ttl",
    "x-stream-filter-size-bytes", "x-stream-max-segment-size-bytes",
)  # fmt: skip
_INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1
_OF_TERM: Final = 131
_TUPLE_OF_TWO: Final = b"h\2"
_STRING, _LIST, _SMALL_INTEGER, _INTEGER, _NIL = b"k", b"l", b"a", b"b", b"j"


def is_durable_subscription(headers: dict[str, str]) -> bool:
    """Whether the headers ask for a subscription that outlives its connection."""
    return any(headers.get(name) in ("true", "True") for name in DURABLE)


def queue_properties(
    headers: dict[str, str], destination: Destination, is_sent: bool
) -> QueueProperties:
    """The properties of a queue. is_sent: they are headers of SEND. Raises StompError.

    A queue of /queue is durable, unless the headers say otherwise. The queue of another
    subscription is not, and is deleted with the last of its consumers. `persistent` of SEND is
    about the message only.
    """
    is_queue = destination.kind == QUEUE
    durable = is_queue
    for name in DURABLE[:1] if is_sent else DURABLE:
        if name in headers:
            durable = truth_of(headers[name])
    # A queue of /queue that is not durable belongs to this connection.
    exclusive = auto_delete = is_queue and not durable
    if not is_queue:
        auto_delete = True
    if "exclusive" in headers:
        exclusive = truth_of(headers["exclusive"])
    if "auto-delete" in headers:
        auto_delete = truth_of(headers["auto-delete"])
    return QueueProperties(queue_arguments(headers), durable, exclusive, auto_delete)


def queue_arguments(headers: dict[str, str]) -> Table:
    """The arguments of a queue. Raises StompError."""
    arguments: Table = {}
    for name, value in headers.items():
        if name in _TEXT_ARGUMENTS:
            arguments[name] = ("S", value)
        elif name in _NUMBER_ARGUMENTS:
            arguments[name] = ("l", number_of(value, _INT64_MAX))
    return arguments


def consumer_arguments(headers: dict[str, str]) -> Table:
    """The arguments of a consumer. Raises StompError."""
    arguments: Table = {}
    if "x-stream-offset" in headers:
        arguments["x-stream-offset"] = _offset(headers["x-stream-offset"])
    if "x-stream-filter" in headers:
        values: list[Field] = [("S", value) for value in headers["x-stream-filter"].split(",")]
        arguments["x-stream-filter"] = ("A", values)
    if "x-stream-match-unfiltered" in headers:
        is_wanted = truth_of(headers["x-stream-match-unfiltered"])
        arguments["x-stream-match-unfiltered"] = ("t", is_wanted)
    if "x-priority" in headers:
        text = headers["x-priority"]
        number = number_of(text.strip().removeprefix("-"), _INT32_MAX)
        arguments["x-priority"] = ("I", -number if text.strip().startswith("-") else number)
    return arguments


def _offset(text: str) -> Field:
    kind, equals, value = text.partition("=")
    if equals and kind == "offset":
        return "l", number_of(value, _INT64_MAX)
    if equals and kind == "timestamp":
        return "T", number_of(value, _INT64_MAX)
    return "S", text


def durable_queue_name(routing_key: str, identifier: str) -> str:
    """The name of the queue of a durable subscription: RabbitMQ's, so that its queues stay in use.

    It contains the MD5 of both texts as a term in Erlang's external format.
    """
    term = bytes([_OF_TERM]) + _TUPLE_OF_TWO + _characters(routing_key) + _characters(identifier)
    return encode_name(SUBSCRIPTION_QUEUE, md5(term, usedforsecurity=False).digest())


def _characters(text: str) -> bytes:
    """A text as a list of characters in Erlang's external format."""
    codes = [ord(character) for character in text]
    if not codes:
        return _NIL
    if max(codes) < 256 and len(codes) < 2**16:
        return _STRING + struct.pack(">H", len(codes)) + bytes(codes)
    items = [
        _SMALL_INTEGER + bytes([code]) if code < 256 else _INTEGER + struct.pack(">i", code)
        for code in codes
    ]
    return _LIST + struct.pack(">I", len(codes)) + b"".join(items) + _NIL
