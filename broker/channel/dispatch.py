"""Which function handles which method on an open channel."""

from collections.abc import Callable
from typing import Any

from pamqp import base, commands

from broker.amqp.errors import command_invalid
from broker.amqp.methods import AccessRequest
from broker.channel import (
    methods_basic,
    methods_channel,
    methods_confirm,
    methods_exchange,
    methods_queue,
    methods_tx,
)
from broker.channel.channel import Channel

_HANDLERS: dict[type[base.Frame], Callable[[Channel, Any], None]] = {
    AccessRequest: methods_channel.access_request,
    commands.Channel.Flow: methods_channel.flow,
    commands.Exchange.Declare: methods_exchange.declare,
    commands.Exchange.Delete: methods_exchange.delete,
    commands.Exchange.Bind: methods_exchange.bind,
    commands.Exchange.Unbind: methods_exchange.unbind,
    commands.Queue.Declare: methods_queue.declare,
    commands.Queue.Delete: methods_queue.delete,
    commands.Queue.Purge: methods_queue.purge,
    commands.Queue.Bind: methods_queue.bind,
    commands.Queue.Unbind: methods_queue.unbind,
    commands.Basic.Qos: methods_basic.qos,
    commands.Basic.Consume: methods_basic.consume,
    commands.Basic.Cancel: methods_basic.cancel,
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


def dispatch(channel: Channel, method: base.Frame) -> None:
    """Handle a method that a client sent. Raises ChannelFault or ConnectionFault."""
    handler = _HANDLERS.get(type(method))
    if handler is None:
        raise command_invalid("unimplemented method")
    handler(channel, method)
