"""The exchange types by name, except the delayed type, which wraps one of them.

Those that are plugins in RabbitMQ are contributed by the plugins with these names.
"""

from collections.abc import Mapping

from leveret.broker.amqp.errors import ConnectionFault, command_invalid
from leveret.broker.amqp.field_table import Table
from leveret.broker.exchanges.direct import Direct
from leveret.broker.exchanges.exchange_type import ExchangeType
from leveret.broker.exchanges.fanout import Fanout
from leveret.broker.exchanges.headers import Headers
from leveret.broker.exchanges.topic import Topic
from leveret.broker.plugins.extensions import Extensions
from leveret.broker.plugins.own_plugins import DELAYED, contributed

PLAIN_TYPES: Extensions[type[ExchangeType]] = Extensions(
    "leveret.exchange_types",
    {exchange_type.name: exchange_type for exchange_type in (Direct, Fanout, Topic, Headers)},
    contributed("exchange_types", but=DELAYED),
)


def no_such_type(name: str) -> ConnectionFault:
    """503 for a name that is not an exchange type.

    RabbitMQ calls a name invalid, not unknown, if Erlang knows it as an atom, as the empty one.
    """
    return command_invalid(f"{'unknown' if name else 'invalid'} exchange type '{name}'")


def create_from(
    types: Mapping[str, type[ExchangeType]], name: str, arguments: Table
) -> ExchangeType:
    """Make the binding table of a type. Raises 503 for an unknown name."""
    exchange_type = types.get(name)
    if exchange_type is None:
        raise no_such_type(name)
    return exchange_type(arguments)
