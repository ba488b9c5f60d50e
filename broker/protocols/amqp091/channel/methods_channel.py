"""The channel class except open and close, which the connection handles."""

from pamqp import commands

from leveret.broker.amqp.errors import not_implemented
from leveret.broker.amqp.methods import AccessRequest, AccessRequestOk
from leveret.broker.protocols.amqp091.channel.channel import Channel


async def flow(channel: Channel, method: commands.Channel.Flow) -> None:
    """Answer channel.flow with active set; pausing is not implemented, as in RabbitMQ."""
    if not method.active:
        raise not_implemented("active=false")
    channel.send(commands.Channel.FlowOk, active=True)


async def access_request(channel: Channel, method: AccessRequest) -> None:
    """Grant the access ticket that AMQP 0-8 clients request; tickets are never checked."""
    channel.send(AccessRequestOk, ticket=1)
