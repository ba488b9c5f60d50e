"""The channel class, but for opening and closing, which are the connection's affair."""

from pamqp import commands

from broker.amqp.errors import not_implemented
from broker.amqp.methods import AccessRequest, AccessRequestOk
from broker.channel.channel import Channel


def flow(channel: Channel, method: commands.Channel.Flow) -> None:
    """RabbitMQ answers to "go on" and does not stop on demand: prefetch serves for that."""
    if not method.active:
        raise not_implemented("active=false")
    channel.send(commands.Channel.FlowOk, active=True)


def access_request(channel: Channel, method: AccessRequest) -> None:
    """AMQP 0-8 clients ask for a ticket; every ticket is granted and none is looked at."""
    channel.send(AccessRequestOk, ticket=1)
