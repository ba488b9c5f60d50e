"""The exchange types that work on their own, by name: all but the one that wraps another."""

from collections.abc import Mapping
from types import MappingProxyType

from broker.amqp.errors import command_invalid
from broker.amqp.field_table import Table
from broker.exchanges.consistent_hash import ConsistentHash
from broker.exchanges.direct import Direct
from broker.exchanges.exchange_type import ExchangeType
from broker.exchanges.fanout import Fanout
from broker.exchanges.headers import Headers
from broker.exchanges.modulus_hash import ModulusHash
from broker.exchanges.random_choice import RandomChoice
from broker.exchanges.recent_history import RecentHistory
from broker.exchanges.topic import Topic

PLAIN_TYPES: Mapping[str, type[ExchangeType]] = MappingProxyType(
    {
        exchange_type.name: exchange_type
        for exchange_type in (
            Direct, Fanout, Topic, Headers,
            ConsistentHash, ModulusHash, RandomChoice, RecentHistory,
        )
    }
)  # fmt: skip


def create_from(
    types: Mapping[str, type[ExchangeType]], name: str, arguments: Table
) -> ExchangeType:
    """An exchange's table of the type of this name. Raises 503 for a name that is not there."""
    exchange_type = types.get(name)
    if exchange_type is None:
        raise command_invalid(f"unknown exchange type '{name}'")
    return exchange_type(arguments)
