"""The delayed message exchange: another type, which routes messages after a delay.

The argument `x-delayed-type` names the type that matches. The header `x-delay` of a message is its
delay in milliseconds; a message without it is routed at once. The argument `x-delayed-queue-type`
chooses where messages wait.

The table here stores no message: the router reports the exchanges on a message's route at which it
must wait (there, it matches nothing at first, so that an alternate exchange gets it). When the
delay is over, the broker routes the message from there with the header of `header_after_delay`: it
is not delayed again, and consumers can read the length of its delay.
"""

from collections.abc import Callable, Iterable
from typing import Any

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import Field, Table, text_of
from leveret.broker.erlang.parser import parse_integer
from leveret.broker.exchanges.exchange_type import Destination, ExchangeType
from leveret.broker.exchanges.plain_types import PLAIN_TYPES, create_from
from leveret.broker.queues.contract.deduplication_arguments import DEDUPLICATION
from leveret.broker.queues.contract.queue_kind import CLASSIC, QUORUM, QueueKind

TYPE_ARGUMENT = "x-delayed-type"
QUEUE_TYPE_ARGUMENT = "x-delayed-queue-type"
"""Where messages wait: on the node to which they were published, or in a quorum queue."""
QUEUE_TYPES = (CLASSIC, QUORUM)
DELAYED_MESSAGES_FEATURE = "quorum_delayed_messages"
"""The feature of nodes whose quorum queues only delay messages, if an exchange has such a queue."""
DELAY_HEADER = "x-delay"
DELAY_MS_MAX = 2**32 - 1
"""Erlang's longest timer; as in RabbitMQ's plugin, a longer delay has no effect."""

_INT32_MIN = -(2**31)


class DelayedMessage(ExchangeType):
    """Matches like its inner type.

    inner: the binding table of that type. is_replicated: messages wait in a quorum queue.
    """

    name = "x-delayed-message"
    routes_by_key = False

    def __init__(self, arguments: Table) -> None:
        super().__init__(arguments)
        self.inner = create_from(PLAIN_TYPES, _inner_name(arguments), arguments)
        self.uses_every_key = self.inner.uses_every_key
        self.is_replicated = queue_type(arguments) == QUORUM

    def validate_binding(self, routing_key: str, arguments: Table) -> None:
        self.inner.validate_binding(routing_key, arguments)

    def validate_destination(self, queue_kind: QueueKind | None) -> None:
        self.inner.validate_destination(queue_kind)

    def serve(self, lives_here: Callable[[Any], bool]) -> None:
        self.inner.serve(lives_here)

    def bind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self.inner.bind(destination, routing_key, arguments)

    def unbind(self, destination: Destination, routing_key: str, arguments: Table) -> None:
        self.inner.unbind(destination, routing_key, arguments)

    def route(self, routing_key: str, header: ContentHeader) -> Iterable[Destination | None]:
        return self.inner.route(routing_key, header)

    def delay_ms(self, header: ContentHeader) -> int:
        """The delay of a message at this exchange; 0 for none."""
        field = header.headers.get(DELAY_HEADER)
        delay = _read_delay(field) if field is not None else 0
        return delay if 0 < delay <= DELAY_MS_MAX else 0


def header_after_delay(header: ContentHeader) -> ContentHeader:
    """The header after the delay: the delay is negative, so that it has no effect again."""
    delay = -_read_delay(header.headers[DELAY_HEADER])
    letter = "I" if delay >= _INT32_MIN else "l"
    return header.replace(headers={**header.headers, DELAY_HEADER: (letter, delay)})


def queue_type(arguments: Table) -> str:
    """The value of `x-delayed-queue-type`. Raises 406 for one that is not in `QUEUE_TYPES`."""
    letter, value = arguments.get(QUEUE_TYPE_ARGUMENT, ("S", CLASSIC))
    name = text_of(value) if letter == "x" else value
    if letter not in ("S", "x") or name not in QUEUE_TYPES:
        raise precondition_failed(
            f"Invalid argument, '{QUEUE_TYPE_ARGUMENT}' must be one of {', '.join(QUEUE_TYPES)}, "
            f"and is {value!r:.99}"
        )
    return str(name)


def _inner_name(arguments: Table) -> str:
    letter, value = arguments.get(TYPE_ARGUMENT, ("V", None))
    if letter not in ("S", "x"):
        raise precondition_failed(
            f"Invalid argument, '{TYPE_ARGUMENT}' must be an existing exchange type"
        )
    name = value if letter == "S" else text_of(value)
    if name in (DelayedMessage.name, DEDUPLICATION):
        # Another exchange that refuses duplicates can be bound to this one.
        raise precondition_failed(f"Invalid argument, '{name}' can't be used for '{TYPE_ARGUMENT}'")
    return str(name)


def _read_delay(field: Field) -> int:
    """The integer part of the header's number; 0 if it is not a number."""
    letter, value = field
    match letter:
        case "b" | "s" | "I" | "l" | "L" | "B" | "u" | "i":
            return int(value)
        case "S":
            return parse_integer(value) or 0
        case "f" | "d":
            return int(value) if abs(value) <= DELAY_MS_MAX else 0
        case "D":
            scale, unscaled = value
            return int(unscaled // 10**scale)
    return 0
