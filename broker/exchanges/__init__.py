"""Exchange types: a module for each, and the router that follows bindings between exchanges."""

from collections.abc import Mapping
from types import MappingProxyType

from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.delayed import DelayedMessage
from leveret.broker.exchanges.exchange_type import ExchangeType
from leveret.broker.exchanges.plain_types import PLAIN_TYPES, create_from
from leveret.broker.exchanges.plain_types import no_such_type as no_such_type

EXCHANGE_TYPES: Mapping[str, type[ExchangeType]] = MappingProxyType(
    {**PLAIN_TYPES, DelayedMessage.name: DelayedMessage}
)
"""The types that `exchange.declare` accepts."""


def create_exchange_type(name: str, arguments: Table) -> ExchangeType:
    """Make the binding table of an exchange. Raises 503 (unknown type), 406 (bad arguments)."""
    return create_from(EXCHANGE_TYPES, name, arguments)
