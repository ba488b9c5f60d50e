"""Reads the arguments of basic.publish. Their bytes are the key of a `PublishTarget`."""

import struct
from typing import Final

from leveret.broker.amqp.errors import frame_error, not_implemented
from leveret.broker.amqp.field_table import text_of
from leveret.broker.erlang.terms import format_binary
from leveret.broker.sessions.targets import PublishTarget, Targets
from leveret.storage.messages.message import Address

_MANDATORY: Final = 1
_IMMEDIATE: Final = 2
_TICKET_BYTES: Final = 2


def target_of(targets: Targets, arguments: bytes) -> PublishTarget:
    """The target of a basic.publish with these arguments.

    Raises 501 if they are malformed, 540 if they have the flag immediate.
    """
    target = targets.find(arguments)
    if target is None:
        try:
            target = _read(arguments)
        except (IndexError, struct.error):
            raise frame_error(f"cannot decode {format_binary(arguments)}") from None
        targets.add(arguments, target)
    return target


def _read(arguments: bytes) -> PublishTarget:
    exchange_end = _TICKET_BYTES + 1 + arguments[_TICKET_BYTES]
    key_end = exchange_end + 1 + arguments[exchange_end]
    flags = arguments[key_end]
    if key_end + 1 != len(arguments):
        raise IndexError
    exchange = text_of(arguments[_TICKET_BYTES + 1 : exchange_end])
    routing_key = text_of(arguments[exchange_end + 1 : key_end])
    if flags & _IMMEDIATE:
        raise not_implemented("immediate=true")
    address = Address(exchange, routing_key, arguments[_TICKET_BYTES:key_end])
    return PublishTarget(address, bool(flags & _MANDATORY))
