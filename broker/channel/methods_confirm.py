"""The confirm class: publisher confirms."""

from pamqp import commands

from broker.amqp.errors import precondition_failed
from broker.channel.channel import Channel
from broker.channel.confirms import Confirms


def select(channel: Channel, method: commands.Confirm.Select) -> None:
    """Number and confirm what is published from now on. Selecting again changes nothing."""
    if channel.transaction is not None:
        raise precondition_failed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not method.nowait:
        channel.send(commands.Confirm.SelectOk)
