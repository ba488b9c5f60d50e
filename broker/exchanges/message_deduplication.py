"""The deduplication exchange: a fanout that a message with an identifier passes once.

Source: the plugin rabbitmq-message-deduplication. A message whose identifier
(broker/queues/deduplication/identifiers.py) the exchange has seen matches nothing: so it continues
at the alternate exchange, if there is one, and a mandatory one is returned. The argument
`x-cache-size` says how many identifiers are known, `x-cache-ttl` how long, unless the header of
that name says so, and `x-cache-persistence` whether they are on disk.

The table here keeps no identifiers. The virtual host sets `has_seen`, and the publish path has a
message that passed remembered (the router says at which exchanges), as for histories. So a route
that is only looked up changes nothing.
"""

from collections.abc import Callable

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import Field, Table
from leveret.broker.exchanges.fanout import Fanout
from leveret.broker.queues.contract.deduplication_arguments import (
    CACHE_PERSISTENCE,
    CACHE_SIZE,
    CACHE_SIZE_MAX,
    CACHE_TTL,
    CACHE_TTL_MAX_MS,
    DEDUPLICATION,
    PERSISTENCES,
    whole_number,
)

DISK = "disk"


def _has_seen_none(header: ContentHeader) -> bool:
    """No identifier is known before the exchange is in a virtual host."""
    return False


class MessageDeduplication(Fanout):
    """Matches everything that it has not seen.

    size, ttl_ms: the arguments; 0 for no time. has_seen: whether a message is a duplicate.
    """

    name = DEDUPLICATION
    routes_by_key = False

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        self.size = _number(arguments, CACHE_SIZE, CACHE_SIZE_MAX, "Missing or invalid argument")
        self.ttl_ms = 0
        if CACHE_TTL in arguments:
            self.ttl_ms = _number(arguments, CACHE_TTL, CACHE_TTL_MAX_MS, "Invalid argument")
        persistence = arguments.get(CACHE_PERSISTENCE)
        if persistence is not None and persistence not in [("S", one) for one in PERSISTENCES]:
            raise precondition_failed(
                f"Invalid argument, '{CACHE_PERSISTENCE}' must be either 'disk' or 'memory'"
            )
        self.has_seen: Callable[[ContentHeader], bool] = _has_seen_none


def is_on_disk(arguments: Table) -> bool:
    """Whether a durable exchange with these arguments keeps its identifiers on disk."""
    field: Field | None = arguments.get(CACHE_PERSISTENCE)
    return field == ("S", DISK)


def _number(arguments: Table, name: str, maximum: int, problem: str) -> int:
    number = whole_number(arguments.get(name))
    if number is None or number < 1:
        raise precondition_failed(f"{problem}, '{name}' must be an integer greater than 0")
    if number > maximum:
        raise precondition_failed(f"{problem}, '{name}' must be at most {maximum}, and is {number}")
    return number
