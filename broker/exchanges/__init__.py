"""Exchanges: a module for each way of matching messages with bindings, and the way between them."""

from collections.abc import Mapping
from types import MappingProxyType

from broker.amqp.field_table import Table
from broker.exchanges.delayed import DelayedMessage
from broker.exchanges.exchange_type import ExchangeType
from broker.exchanges.plain_types import PLAIN_TYPES, create_from

EXCHANGE_TYPES: Mapping[str, type[ExchangeType]] = MappingProxyType(
    {**PLAIN_TYPES, DelayedMessage.name: DelayedMessage}
)
"""What `exchange.declare` may ask for."""


def create_exchange_type(name: str, arguments: Table) -> ExchangeType:
    """A new exchange's table. Raises 503 for an unknown type and 406 for bad arguments."""
    return create_from(EXCHANGE_TYPES, name, arguments)
