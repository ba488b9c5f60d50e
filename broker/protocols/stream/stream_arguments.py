"""The arguments of a stream that a client creates. Pure.

All values are texts, and unknown names are ignored. A text that is no number, which crashes the
connection in RabbitMQ, is refused. RabbitMQ takes a negative limit, and an age without a unit, and
neither has an effect: here the first is no limit, and the second is in seconds.
"""

from collections.abc import Mapping
from typing import Final

from leveret.broker.amqp.field_table import Table
from leveret.broker.queues.contract.queue_kind import STREAM, TYPE_ARGUMENT

LOCATORS: Final = frozenset(("client-local", "balanced", "random", "least-leaders"))
SEGMENT_BYTES_MAX: Final = 3_000_000_000
NUMBER_MAX: Final = 2**63 - 1
_LIMIT: Final = "max-length-bytes"
_AGE: Final = "max-age"
_SEGMENT: Final = "stream-max-segment-size-bytes"
_CLUSTER_SIZE: Final = "initial-cluster-size"
_FILTER_SIZE: Final = "stream-filter-size-bytes"
_LOCATOR: Final = "queue-leader-locator"
_LEAST: Final[Mapping[str, int]] = {_LIMIT: 0, _SEGMENT: 0, _CLUSTER_SIZE: 1, _FILTER_SIZE: 16}
_MOST: Final[Mapping[str, int]] = {
    _LIMIT: NUMBER_MAX, _SEGMENT: SEGMENT_BYTES_MAX, _CLUSTER_SIZE: 2**31 - 1, _FILTER_SIZE: 255,
}  # fmt: skip


class ArgumentError(ValueError):
    """An argument that a stream cannot have. The text is for the log."""


def table_of(arguments: Mapping[str, str]) -> Table:
    """The arguments of the queue. Raises ArgumentError."""
    table: Table = {TYPE_ARGUMENT: ("S", STREAM)}
    for name, text in arguments.items():
        if name in _LEAST:
            number = _number(name, text)
            if number >= 0:
                table[f"x-{name}"] = ("l", number)
        elif name == _AGE:
            table["x-max-age"] = ("S", f"{text}s" if text.isdecimal() else text)
        elif name == _LOCATOR:
            if text not in LOCATORS:
                raise ArgumentError(f"{name} is '{text}'")
            table[f"x-{name}"] = ("S", text)
    return table


def _number(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ArgumentError(f"{name} is '{text}' and no number") from None
    if name == _LIMIT and number < 0:
        return -1
    if not _LEAST[name] <= number <= _MOST[name]:
        raise ArgumentError(f"{name} is {number}; {_LEAST[name]} to {_MOST[name]} are possible")
    return number
