"""Which function handles which method on an open channel."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from pamqp import base, commands

from leveret.broker.amqp.errors import command_invalid
from leveret.broker.amqp.methods import AccessRequest, method_name
from leveret.broker.protocols.amqp091.channel import (
    methods_basic,
    methods_channel,
    methods_confirm,
    methods_exchange,
    methods_queue,
    methods_tx,
)
from leveret.broker.protocols.amqp091.channel.channel import Channel
from leveret.broker.runtime.names import EXCHANGE, QUEUE, resource
from leveret.broker.runtime.pending import Steps
from leveret.broker.sessions.operation_faults import not_written
from leveret.storage.metadata.metadata import MetadataError

Handler = Callable[[Channel, Any], Steps]


def _written(handler: Handler) -> Handler:
    """Wrap the handler of a method that may change declarations."""

    @wraps(handler)
    async def handle_written(channel: Channel, method: base.Frame) -> None:
        try:
            await handler(channel, method)
        except MetadataError as error:
            raise not_written(channel, described(channel, method), error) from error

    return handle_written


_HANDLERS: dict[type[base.Frame], Handler] = {
    AccessRequest: methods_channel.access_request,
    commands.Channel.Flow: methods_channel.flow,
    commands.Exchange.Declare: _written(methods_exchange.declare),
    commands.Exchange.Delete: _written(methods_exchange.delete),
    commands.Exchange.Bind: _written(methods_exchange.bind),
    commands.Exchange.Unbind: _written(methods_exchange.unbind),
    commands.Queue.Declare: _written(methods_queue.declare),
    commands.Queue.Delete: _written(methods_queue.delete),
    commands.Queue.Purge: methods_queue.purge,
    commands.Queue.Bind: _written(methods_queue.bind),
    commands.Queue.Unbind: _written(methods_queue.unbind),
    commands.Basic.Qos: methods_basic.qos,
    commands.Basic.Consume: methods_basic.consume,
    commands.Basic.Cancel: _written(methods_basic.cancel),
    commands.Basic.Get: methods_basic.get,
    commands.Basic.Nack: methods_basic.nack,
    commands.Basic.Reject: methods_basic.reject,
    commands.Basic.Recover: methods_basic.recover,
    commands.Basic.RecoverAsync: methods_basic.recover_async,
    commands.Tx.Select: methods_tx.select,
    commands.Tx.Commit: methods_tx.commit,
    commands.Tx.Rollback: methods_tx.rollback,
    commands.Confirm.Select: methods_confirm.select,
}


def handle(channel: Channel, method: base.Frame) -> Steps:
    """The coroutine that carries out a client's method. Raises 503 for an unknown method.

    The coroutine itself raises ChannelFault and ConnectionFault.
    """
    handler = _HANDLERS.get(type(method))
    if handler is None:
        raise command_invalid("unimplemented method")
    return handler(channel, method)


def described(channel: Channel, method: base.Frame) -> str:
    """A method and its object: `queue.purge on queue 'q' in vhost '/'`."""
    for kind, argument in ((QUEUE, "queue"), (EXCHANGE, "destination"), (EXCHANGE, "exchange")):
        name = getattr(method, argument, None)
        if name is not None:
            return f"{method_name(method)} on {resource(kind, name, channel.vhost.name)}"
    return method_name(method)
