"""The consistent hash exchange: each message goes to one destination, chosen by a hash.

The binding key is a weight: the number of buckets of the destination. Jump consistent hashing finds
the bucket of a message (Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm",
2014): a bucket that is added at the end takes an equal share from all other buckets, and no message
moves between those. Buckets are numbered in the order of the bindings. When a destination is
unbound, the buckets after its own are renumbered, so messages of the last buckets move as well.

The ring stores the number at which each destination's buckets end, so that a large weight takes no
more memory than a small one. The owner of a bucket is found by bisection. Buckets are numbered when
the first message arrives after a change: 50,000 destinations take 2 ms.

The hash is that of the routing key, or of the header that the argument `hash-header` names, or of
the property that `hash-property` names. Messages without that header or property share one bucket.

As in RabbitMQ a destination is on the ring once: the first of its bindings sets its weight, and
removing any of them removes the destination from the ring, even if others remain.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import internal_error, precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES, format_value
from leveret.broker.erlang.parser import parse_integer
from leveret.broker.exchanges.exchange_type import Destination, ExchangeType
from leveret.broker.exchanges.stable_hash import stable_hash

HASH_HEADER = "hash-header"
HASH_PROPERTY = "hash-property"
HASH_PROPERTIES = ("correlation_id", "message_id", "timestamp")

_MULTIPLIER = 2_862_933_555_777_941_757
"""The multiplier of the linear congruential generator in the paper."""
_BITS_64 = (1 << 64) - 1


class ConsistentHash(ExchangeType):
    """Matches one destination; destinations share messages in proportion to their weights."""

    name = "x-consistent-hash"

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        self._header_name = _string_argument(arguments, HASH_HEADER)
        self._property_name = _string_argument(arguments, HASH_PROPERTY)
        _check_hashed_value(self._header_name, self._property_name)
        self.routes_by_key = self._header_name is None and self._property_name is None
        self._weights: dict[Destination, int] = {}
        self._destinations: list[Destination] = []
        self._bucket_ends: list[int] = []
        self._are_numbered = True

    def validate_binding(self, routing_key: str, arguments: Table) -> None:
        weight = parse_integer(routing_key)
        if weight is None:
            printed = format_value(("S", routing_key))
            raise precondition_failed(f"The binding key must be an integer: {printed}")
        if weight < 1:
            raise precondition_failed("The binding key must be greater than 0")

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        if destination not in self._weights:
            self._weights[destination] = int(routing_key)
            self._are_numbered = False

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        if destination in self._weights:
            del self._weights[destination]
            self._are_numbered = False

    def route(self, routing_key: str, header: ContentHeader) -> Iterable[Destination]:
        if not self._are_numbered:
            self._number_buckets()
        if not self._destinations:
            return ()
        hashed = stable_hash(self._hashed_value(routing_key, header))
        bucket = jump_consistent_hash(hashed, self._bucket_ends[-1])
        return (self._destinations[bisect_right(self._bucket_ends, bucket)],)

    def _number_buckets(self) -> None:
        self._destinations = list(self._weights)
        self._bucket_ends = list(accumulate(self._weights.values()))
        self._are_numbered = True

    def _hashed_value(self, routing_key: str, header: ContentHeader) -> object:
        if self._header_name is not None:
            return header.headers.get(self._header_name)
        if self._property_name is not None:
            return header.properties.get(self._property_name)
        return routing_key


def jump_consistent_hash(hashed: int, buckets: int) -> int:
    """The bucket, from 0 to `buckets` - 1, of a 64-bit number.

    Follows the moves of the number as buckets are added one by one, which takes a time logarithmic
    in the number of buckets.
    """
    bucket = following = 0
    while following < buckets:
        bucket = following
        hashed = (hashed * _MULTIPLIER + 1) & _BITS_64
        following = int((bucket + 1) * ((1 << 31) / ((hashed >> 33) + 1)))
    return bucket


def _string_argument(arguments: Table, name: str) -> str | None:
    if name not in arguments:
        return None
    letter, value = arguments[name]
    if letter != "S":
        # RabbitMQ has no clause for other types: its channel process crashes with the connection.
        raise internal_error(f"{name} must be a longstr, not a {FIELD_TYPE_NAMES[letter]}")
    return str(value)


def _check_hashed_value(header_name: str | None, property_name: str | None) -> None:
    if property_name is None:
        return
    if header_name is not None:
        raise precondition_failed("hash-header and hash-property are mutually exclusive")
    if property_name not in HASH_PROPERTIES:
        raise precondition_failed(f"Unsupported property: {property_name}")
