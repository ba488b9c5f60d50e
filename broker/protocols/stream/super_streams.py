"""Super streams: an exchange whose bindings lead to the streams that are its partitions.

The order of the partitions is in an argument of their bindings. Clients choose a partition by the
hash of a key, or ask for the route of one; here streams and bindings are only declared and listed.
"""

from collections.abc import Iterator

from leveret.broker.amqp.field_table import INTEGER_LETTERS
from leveret.broker.exchanges.router import WORK_AT_ONCE, Route
from leveret.broker.protocols.stream import codes
from leveret.broker.protocols.stream.serving import CommandRefused, is_stream
from leveret.broker.queues.contract.stream_arguments import ORDER_ARGUMENT
from leveret.broker.vhost import routing
from leveret.broker.vhost.binding import Binding, Exchange
from leveret.broker.vhost.virtual_host import VirtualHost

NO_ORDER = 2**63


def partitions(vhost: VirtualHost, name: str) -> list[str]:
    """The names of the partitions, in order. Raises CommandRefused."""
    found = sorted(_bindings(find_super_stream(vhost, name)), key=_order)
    return list(dict.fromkeys(binding.destination.name for binding in found))


def partition_of(vhost: VirtualHost, name: str, stream: str) -> int:
    """The number of a stream in its super stream. Raises CommandRefused if it is not in it."""
    names = partitions(vhost, name)
    if stream not in names:
        raise CommandRefused(codes.PRECONDITION_FAILED)
    return names.index(stream)


def route(vhost: VirtualHost, name: str, routing_key: str) -> list[str]:
    """The partitions that a message with this key is routed to. Raises CommandRefused."""
    found = Route(find_super_stream(vhost, name), [routing_key], routing.NO_PROPERTIES)
    while not found.go_on(WORK_AT_ONCE):
        pass
    return [queue.name for queue in found.queues if is_stream(queue)]


def find_super_stream(vhost: VirtualHost, name: str) -> Exchange:
    """The exchange. Raises CommandRefused if there is none."""
    exchange = vhost.exchanges.get(name)
    if exchange is None or not name:
        raise CommandRefused(codes.STREAM_DOES_NOT_EXIST)
    return exchange


def _bindings(exchange: Exchange) -> Iterator[Binding]:
    for binding in exchange.bindings.values():
        destination = binding.destination
        if not isinstance(destination, Exchange) and is_stream(destination):
            yield binding


def _order(binding: Binding) -> int:
    letter, value = binding.arguments.get(ORDER_ARGUMENT, ("V", None))
    if letter in INTEGER_LETTERS:
        return int(value)
    return int(value) if letter == "S" and str(value).isdecimal() else NO_ORDER
