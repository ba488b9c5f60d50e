"""Exchange types: a module for each, and the router that follows bindings between exchanges."""

from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.exchange_type import ExchangeType
from leveret.broker.exchanges.missing_type import MissingType
from leveret.broker.exchanges.plain_types import PLAIN_TYPES, create_from
from leveret.broker.exchanges.plain_types import no_such_type as no_such_type
from leveret.broker.plugins.extensions import Extensions
from leveret.broker.plugins.own_plugins import contributed

EXCHANGE_TYPES: Extensions[type[ExchangeType]] = Extensions(
    PLAIN_TYPES.group, PLAIN_TYPES.own, contributed("exchange_types")
)
"""The types that `exchange.declare` accepts."""


def create_exchange_type(name: str, arguments: Table) -> ExchangeType:
    """Make the binding table of an exchange. Raises 503 (unknown type), 406 (bad arguments)."""
    return create_from(EXCHANGE_TYPES, name, arguments)


def type_of_declared(name: str, arguments: Table) -> ExchangeType:
    """Make the binding table of an exchange that is declared already, perhaps without its plugin.

    Raises 406 and 503 for arguments of a known type.
    """
    if name not in EXCHANGE_TYPES:
        return MissingType(name)
    return create_exchange_type(name, arguments)
