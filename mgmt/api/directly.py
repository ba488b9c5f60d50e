"""Doing what a client's method does, for a user of the API (broker/direct.py)."""

from typing import Any, TypeVar

from pamqp import base

from broker.amqp.errors import ChannelFault, ConnectionFault, Fault
from broker.direct import DirectConnection, Reply
from broker.vhost import VirtualHost
from mgmt.api.call import Call
from mgmt.api.errors import ApiError, bad_request, from_fault

Method = TypeVar("Method", bound=base.Frame)


def connect(call: Call, vhost: VirtualHost) -> DirectConnection:
    """The user, in the vhost."""
    return DirectConnection(call.broker.services, call.identity, vhost)


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
    return bad_request(f"{fault.reply_code} {fault.reply_text}")


def flag(body: dict[str, Any], name: str, default: bool = False) -> bool:
    """A value that is true or false. Raises 400."""
    value = body.get(name, default)
    if value in (True, "true"):
        return True
    if value in (False, "false", None):
        return False
    raise bad_request(["not_boolean", value])


def arguments_of(body: dict[str, Any]) -> dict[str, Any]:
    """The arguments, which have to be an object. Raises 400."""
    value = body.get("arguments") or {}
    if not isinstance(value, dict):
        raise bad_request(["not_an_object", value])
    return value
