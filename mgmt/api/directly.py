"""Acting in a vhost as the user of a request, with a client's rights (sessions/direct.py)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from leveret.broker.amqp.errors import ChannelFault, ConnectionFault, Fault
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.amqp.reply_codes import NOT_ALLOWED
from leveret.broker.sessions.direct import DirectConnection
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request, from_fault

NAME_BYTES_MAX = 255

Permission = tuple[str, str, str]
"""A kind (exchange, queue), a name, and configure, write or read."""


def connect(call: Call, vhost: str) -> DirectConnection:
    """A direct connection of the user to the vhost."""
    return call.facade.connect(call.identity, vhost, call.peer_host, call.requester)


@contextmanager
def acting(call: Call, vhost: str) -> Iterator[DirectConnection]:
    """Connect; raise ApiError for a fault that would close a client's channel."""
    try:
        with connect(call, vhost) as connection:
            yield connection
    except (ChannelFault, ConnectionFault) as fault:
        raise from_fault(fault) from None


async def require(call: Call, vhost: str, *permissions: Permission) -> None:
    """Raise 401 unless the user has these permissions, before its request is converted."""
    with acting(call, vhost) as connection:
        for permission in permissions:
            await connection.check(*permission)


def as_closed_channel(fault: Fault) -> ApiError:
    """The error that RabbitMQ returns where its management opens a channel."""
    if fault.reply_code == NOT_ALLOWED:
        # No channel could be opened, because the user has no access to the vhost.
        return from_fault(fault)
    return bad_request(f"{fault.reply_code} {fault.reply_text}")


def require_short_name(kind: str, name: str) -> None:
    """Raise 400 for a name that is too long for a method."""
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > NAME_BYTES_MAX:
        raise bad_request(f"{kind} should be less than 255 bytes, actually was {size}\n")


def flag(body: dict[str, Any], name: str, default: bool = False) -> bool:
    """A boolean of the body. Raises 400."""
    return truth_of(body.get(name, default))


def truth_of(value: Any) -> bool:
    """A boolean, which may also be the string "true" or "false". Raises 400 for other values."""
    if value is True or value == "true":
        return True
    if value is False or value is None or value == "false":
        return False
    raise bad_request(["not_boolean", value])


def arguments_of(body: dict[str, Any]) -> Table:
    """The arguments as a field table. Raises 400 unless they are an object without nulls."""
    value = body.get("arguments")
    if value in (None, []):
        return {}
    if not isinstance(value, dict):
        raise bad_request(["not_an_object", value])
    return table_of(value)


def table_of(values: dict[str, Any]) -> Table:
    """The field table of a JSON object. Raises 400 for a value that it cannot hold."""
    try:
        return json_to_table(values)
    except ValueError as error:
        raise bad_request(str(error)) from None
