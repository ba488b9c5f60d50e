"""Limits on JSON that is converted: how deep, how many values, and how large its integers are.

JSON may be nested as deeply as a field table, and may have `VALUES_MAX` values. It is checked
before a function walks over all of it in one turn of the event loop, or descends into it and
overflows the stack. A text is one value, however long it is. An integer may be far larger than any
setting, as in RabbitMQ, but not so large that printing it takes long.
"""

from typing import Any

from leveret.broker.amqp.field_table import NESTING_MAX

VALUES_MAX = 10_000
"""The values in all lists and objects together. Converting that many takes some 10 ms."""
TOO_DEEP = f"JSON may not be nested deeper than {NESTING_MAX} levels"
TOO_MANY = f"JSON may not have more than {VALUES_MAX} values"
DIGITS_MAX = 1000
INTEGERS = range(1 - 10**DIGITS_MAX, 10**DIGITS_MAX)
TOO_LARGE = f"JSON may not have integers of more than {DIGITS_MAX:,} digits"


def refusal_of(content: Any) -> str | None:
    """The reason not to convert decoded JSON: TOO_DEEP, TOO_MANY or TOO_LARGE; None: convert it."""
    level = [content] if isinstance(content, list | dict) else []
    count = 0
    for _ in range(NESTING_MAX):
        count += sum(map(len, level))
        if count > VALUES_MAX:
            return TOO_MANY
        items = [item for one in level for item in (one if isinstance(one, list) else one.values())]
        if any(isinstance(item, int) and item not in INTEGERS for item in items):
            return TOO_LARGE
        level = [item for item in items if isinstance(item, list | dict)]
        if not level:
            return None
    return TOO_DEEP
