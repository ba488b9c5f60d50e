"""The confirm class: publisher confirms."""

from pamqp import commands

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.protocols.amqp091.channel.channel import Channel


async def select(channel: Channel, method: commands.Confirm.Select) -> None:
    """Enable publisher confirms on the channel. Has no effect if they are already enabled."""
    if channel.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.begin_confirms()
    if not method.nowait:
        channel.send(commands.Confirm.SelectOk)
