"""The arguments of deduplication, of queues and exchanges, and the keys of policies for it.

The names are those of the plugin rabbitmq-message-deduplication, which also takes numbers as text.
It has no upper limits, and knows `x-cache-size` and `x-cache-ttl` for exchanges only.
"""

from typing import Final

from leveret.broker.amqp.field_table import INTEGER_LETTERS, Field
from leveret.broker.amqp.field_terms import FIELD_TYPE_NAMES
from leveret.broker.amqp.properties import TTL_MS_MAX

DEDUPLICATION: Final = "x-message-deduplication"
"""An argument of queues, and the type of exchanges."""
CACHE_SIZE: Final = "x-cache-size"
CACHE_TTL: Final = "x-cache-ttl"
CACHE_PERSISTENCE: Final = "x-cache-persistence"
"""An argument of exchanges."""
PERSISTENCES: Final = ("disk", "memory")
CACHE_SIZE_MAX: Final = 10_000_000
CACHE_TTL_MAX_MS: Final = TTL_MS_MAX
_MAXIMA: Final = {CACHE_SIZE: CACHE_SIZE_MAX, CACHE_TTL: CACHE_TTL_MAX_MS}
_DIGITS_MAX: Final = 20


def whole_number(field: Field | None) -> int | None:
    """The number in an argument, perhaps as text; None if there is none."""
    if field is None:
        return None
    letter, value = field
    if letter in INTEGER_LETTERS:
        return int(value)
    is_digits = letter == "S" and value.isascii() and value.isdigit()
    return int(value) if is_digits and len(value) <= _DIGITS_MAX else None


def invalid_number(name: str, field: Field) -> str:
    """What is wrong with the value of `x-cache-size` or `x-cache-ttl`; empty if nothing is."""
    number, maximum = whole_number(field), _MAXIMA[name]
    if number is None:
        shown = f"'{field[1][:50]}'" if field[0] == "S" else FIELD_TYPE_NAMES[field[0]]
    elif not 1 <= number <= maximum:
        shown = str(number)
    else:
        return ""
    return f"expected an integer from 1 to {maximum}, got {shown}"
