"""Where a consumer begins to read a log: RabbitMQ's offset specification.

Consumers of AMQP 0-9-1 give it in the argument `x-stream-offset`: as a name, an offset, a time, or
as text with a unit: `1h` stands for the time one hour ago. RabbitMQ 3.10 fails with 541 for some
values that are none of these.
"""

import re
from typing import Final, NamedTuple

from leveret.broker.amqp.field_table import INTEGER_LETTERS, Field

OFFSET_ARGUMENT = "x-stream-offset"


class OffsetSpecification(NamedTuple):
    """Where a consumer begins. kind: `OFFSET` or `TIMESTAMP`, with a value, or that of a constant
    below.

    A log that stores several messages together may begin with the first of them. A consumer waits
    for an offset that does not exist yet.
    """

    kind: str
    value: int = 0


FIRST: Final = OffsetSpecification("first")
LAST: Final = OffsetSpecification("last")
NEXT: Final = OffsetSpecification("next")
OFFSET: Final = "offset"
TIMESTAMP: Final = "timestamp"
"""The value is in milliseconds since 1970."""

TIMESTAMP_MS_MAX: Final = 2**63 - 1
"""Later times count as this one, which fits a field of links to other nodes."""

_NAMED = {one.kind: one for one in (FIRST, LAST, NEXT)}
_AGE = re.compile(r"([1-9][0-9]*)([YMDhms])", re.ASCII)
_AGE_DIGITS = 18
"""A number with as many digits is a time before 1970 in any unit; further digits change nothing."""
_UNIT_SECONDS = {
    "Y": 365 * 86_400, "M": 30 * 86_400, "D": 86_400, "h": 3600, "m": 60, "s": 1,
}  # fmt: skip


def read_offset(field: Field, now_s: float) -> OffsetSpecification | None:
    """The specification in a field; None if there is none. now_s: the wall-clock time."""
    letter, value = field
    if letter in INTEGER_LETTERS:
        return OffsetSpecification(OFFSET, max(0, value))
    if letter == "T":
        return OffsetSpecification(TIMESTAMP, min(value * 1000, TIMESTAMP_MS_MAX))
    if letter != "S":
        return None
    age = _AGE.fullmatch(value)
    if age is None:
        return _NAMED.get(value)
    seconds = int(age[1][:_AGE_DIGITS]) * _UNIT_SECONDS[age[2]]
    return OffsetSpecification(TIMESTAMP, max(0, int((now_s - seconds) * 1000)))
