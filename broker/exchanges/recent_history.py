"""The recent history exchange: a fanout that delivers its latest messages to new bindings.

It stores the last messages, 20 or the number in the argument `x-recent-history-length`, except
those with the header `x-recent-history-no-store`. Routing has no effect on that: the publish path
passes each message to `remember` (the router says of which exchanges), and a new binding delivers
`history` to its destination.
"""

from collections import deque
from collections.abc import Sequence

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.field_terms import format_value
from leveret.broker.exchanges.fanout import Fanout

LENGTH_ARGUMENT = "x-recent-history-length"
LENGTH_DEFAULT = 20
"""RabbitMQ's default."""
LENGTH_LETTERS = frozenset("bsIlL")
"""RabbitMQ refuses unsigned integers here."""
NO_STORE_HEADER = "x-recent-history-no-store"


class RecentHistory(Fanout):
    """Matches everything and stores the latest messages."""

    name = "x-recent-history"

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        self._messages: deque[object] = deque(maxlen=_read_length(arguments))

    @property
    def history(self) -> Sequence[object]:
        """The stored messages, oldest first."""
        return tuple(self._messages)

    def remember(self, message: object, header: ContentHeader) -> None:
        """Store a message, unless its header forbids that; a full history drops its oldest."""
        if header.headers.get(NO_STORE_HEADER) != ("t", True):
            self._messages.append(message)


def _read_length(arguments: Table) -> int:
    field = arguments.get(LENGTH_ARGUMENT)
    if field is None:
        return LENGTH_DEFAULT
    letter, value = field
    if letter not in LENGTH_LETTERS or value <= 0:
        raise precondition_failed(
            f"Invalid argument {format_value(field)}, "
            f"'{LENGTH_ARGUMENT}' must be a positive integer"
        )
    return int(value)
