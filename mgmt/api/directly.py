"""Doing what a client's method does, for a user of the API (broker/direct.py)."""

from typing import Any, TypeVar

from pamqp import base

from broker.amqp.errors import ChannelFault, ConnectionFault, Fault
from broker.amqp.field_table import Table
from broker.amqp.reply_codes import NOT_ALLOWED
from broker.direct import DirectConnection, Reply
from broker.vhost import VirtualHost
from mgmt.api.call import Call
from mgmt.api.errors import ApiError, bad_request, from_fault
from mgmt.views.values import json_to_table

NAME_BYTES_MAX = 255

Method = TypeVar("Method", bound=base.Frame)


def connect(call: Call, vhost: VirtualHost) -> DirectConnection:
    """The user, in the vhost."""
    return DirectConnection(call.broker.services, call.identity, vhost, call.peer_host)


def make(method: type[Method], **fields: Any) -> Method:
    """A method with these fields. pamqp's own checks of names are stricter than RabbitMQ's."""
    made = method()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


async def do(call: Call, vhost: VirtualHost, method: base.Frame) -> list[Reply]:
    """Do what a method asks for. Raises ApiError for what a client's channel would end with."""
    try:
        with connect(call, vhost) as connection:
            return await connection.call(method)
    except (ChannelFault, ConnectionFault) as fault:
        raise from_fault(fault) from None


def as_closed_channel(fault: Fault) -> ApiError:
    """What RabbitMQ says where its management opens a channel of its own."""
    if fault.reply_code == NOT_ALLOWED:
        # It could not even open one: the user has no access to the vhost.
        return from_fault(fault)
    return bad_request(f"{fault.reply_code} {fault.reply_text}")


def require_short_name(kind: str, name: str) -> None:
    """Raise 400 for a name that no client's method could hold."""
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > NAME_BYTES_MAX:
        raise bad_request(f"{kind} should be less than 255 bytes, actually was {size}\n")


def flag(body: dict[str, Any], name: str, default: bool = False) -> bool:
    """A value that is true or false. Raises 400."""
    return truth_of(body.get(name, default))


def truth_of(value: Any) -> bool:
    """True or false, also as a text. Raises 400; 1 is not true."""
    if value is True or value == "true":
        return True
    if value is False or value is None or value == "false":
        return False
    raise bad_request(["not_boolean", value])


def arguments_of(body: dict[str, Any]) -> Table:
    """The arguments as a field table. Raises 400 if they are no object, or a null is in them."""
    value = body.get("arguments")
    if value in (None, []):
        return {}
    if not isinstance(value, dict):
        raise bad_request(["not_an_object", value])
    return table_of(value)


def table_of(values: dict[str, Any]) -> Table:
    """A field table of JSON. Raises 400 for what it cannot hold."""
    try:
        return json_to_table(values)
    except ValueError as error:
        raise bad_request(str(error)) from None
