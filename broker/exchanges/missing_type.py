"""Stands for the type of an exchange whose plugin does not run.

The exchange stays declared, with its bindings, and no message is routed through it: a publisher
gets 406, as from RabbitMQ (`rabbit_exchange_type_invalid`); a message that comes from another
exchange, or that has died in a queue, matches nothing here. When the plugin runs, the exchange gets
its type.
"""

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import ChannelFault, precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.exchange_type import Destination, ExchangeType


class MissingType(ExchangeType):
    """Keeps nothing: the broker has the list of bindings. name: that of the type."""

    def __init__(self, name: str) -> None:
        # An attribute of the class in all other types.
        vars(self)["name"] = name

    def refusal(self, exchange: str) -> ChannelFault:
        """The fault for a publisher. exchange: as in RabbitMQ's texts, with its vhost."""
        return precondition_failed(
            f"Cannot route message through {exchange}: exchange type {self.name} not found"
        )

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        pass

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        pass

    def route(self, routing_key: str, header: ContentHeader) -> tuple[Destination, ...]:
        return ()
