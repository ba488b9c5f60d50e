"""The arguments of a stream: ages, sizes of segments and of filters, and what a consumer wants."""

import re
from typing import Final, NamedTuple

from leveret.broker.amqp.field_table import Table

SEGMENT_BYTES_MAX: Final = 3_000_000_000
FILTER_BYTES_MIN, FILTER_BYTES_MAX = 16, 255
AGE_MS_MAX: Final = 1 << 62
"""A longer age means the same: nothing is as old."""
FILTER_ARGUMENT: Final = "x-stream-filter"
MATCH_UNFILTERED_ARGUMENT: Final = "x-stream-match-unfiltered"
SUPER_STREAM_ARGUMENT: Final = "x-super-stream"
"""The argument of an exchange whose bindings lead to the partitions of a super stream."""
ORDER_ARGUMENT: Final = "x-stream-partition-order"
"""The argument of these bindings: the number of the partition."""

_AGE = re.compile(r"([0-9]+)([YMDhms])", re.ASCII)
_UNIT_MS = {
    "Y": 365 * 86_400_000, "M": 30 * 86_400_000, "D": 86_400_000,
    "h": 3_600_000, "m": 60_000, "s": 1000,
}  # fmt: skip


def age_ms(text: str) -> int | None:
    """The time in a text such as `7D`; None if it has another form."""
    age = _AGE.fullmatch(text)
    if age is None:
        return None
    digits = age[1].lstrip("0") or "0"
    number = AGE_MS_MAX if len(digits) > len(str(AGE_MS_MAX)) else int(digits)
    return min(number * _UNIT_MS[age[2]], AGE_MS_MAX)


class StreamFilter(NamedTuple):
    """Which messages a consumer of a stream wants; all of them if there are no values.

    matches_unfiltered: it wants those without a filter value, too. A consumer gets whole chunks, so
    it may get others.
    """

    values: tuple[bytes, ...] = ()
    matches_unfiltered: bool = False


ALL_MESSAGES: Final = StreamFilter()


def read_filter(arguments: Table) -> StreamFilter:
    """The filter of a consumer with these arguments. Values that are no texts are left out."""
    field = arguments.get(FILTER_ARGUMENT)
    if field is None:
        return ALL_MESSAGES
    fields = field[1] if field[0] == "A" else [field]
    values = [value.encode("utf-8", "surrogateescape") for letter, value in fields if letter == "S"]
    unfiltered = arguments.get(MATCH_UNFILTERED_ARGUMENT)
    return StreamFilter(tuple(values), unfiltered == ("t", True))
