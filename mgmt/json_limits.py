"""Limits on JSON that is converted: how deep, and how many values.

JSON may be nested as deeply as a field table, and may have `VALUES_MAX` values. It is checked
before a function walks over all of it in one turn of the event loop, or descends into it and
overflows the stack. A text is one value, however long it is.
"""

from typing import Any

from leveret.broker.amqp.field_table import NESTING_MAX

VALUES_MAX = 10_000
"""The values in all lists and objects together. To convert so many takes some 10 ms."""
TOO_DEEP = f"JSON may not be nested deeper than {NESTING_MAX} levels"
TOO_MANY = f"JSON may not have more than {VALUES_MAX} values"


def refusal_of(content: Any) -> str | None:
    """Why decoded JSON may not be converted: TOO_DEEP or TOO_MANY. None if it may be."""
    level = [content] if isinstance(content, list | dict) else []
    count = 0
    for _ in range(NESTING_MAX):
        count += sum(map(len, level))
        if count > VALUES_MAX:
            return TOO_MANY
        level = [
            item
            for one in level
            for item in (one if isinstance(one, list) else one.values())
            if isinstance(item, list | dict)
        ]
        if not level:
            return None
    return TOO_DEEP
