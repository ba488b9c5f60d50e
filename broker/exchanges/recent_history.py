"""The recent history exchange: a fanout that gives each new queue the latest messages first.

It keeps the last messages that came by, 20 or as many as the argument `x-recent-history-length`
says; the publisher keeps a message out with the header `x-recent-history-no-store`. Routing
decides nothing about that: whoever publishes hands each message to `remember` (the router says to
which exchanges), and whoever binds delivers `history` to what is newly bound, at each binding anew.
"""

from collections import deque
from collections.abc import Sequence

from broker.amqp.errors import precondition_failed
from broker.amqp.field_table import Table
from broker.amqp.properties import ContentHeader
from broker.exchanges.erlang_values import format_value
from broker.exchanges.fanout import Fanout

LENGTH_ARGUMENT = "x-recent-history-length"
LENGTH_DEFAULT = 20
"""RabbitMQ's."""
LENGTH_LETTERS = frozenset("bsIlL")
"""RabbitMQ refuses unsigned integers here."""
NO_STORE_HEADER = "x-recent-history-no-store"


class RecentHistory(Fanout):
    """Matches everything, and keeps the latest messages."""

    name = "x-recent-history"

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        self._messages: deque[object] = deque(maxlen=_read_length(arguments))

    @property
    def history(self) -> Sequence[object]:
        """The messages kept, the oldest first."""
        return tuple(self._messages)

    def remember(self, message: object, header: ContentHeader) -> None:
        """Keep a message, in place of the oldest if there are enough, unless it says not to."""
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
