"""The limit on how deeply lists and objects may be nested in JSON: as deeply as in a field table.

Deeper JSON is refused before any recursive function processes it and overflows the stack.
"""

from typing import Any

from leveret.broker.amqp.field_table import NESTING_MAX

TOO_DEEP = f"JSON may not be nested deeper than {NESTING_MAX} levels"


def is_too_deep(content: Any) -> bool:
    """Whether lists and objects are nested more than `NESTING_MAX` levels deep."""
    level = [content]
    for _ in range(NESTING_MAX):
        level = [
            item
            for one in level
            if isinstance(one, list | dict)
            for item in (one if isinstance(one, list) else one.values())
            if isinstance(item, list | dict)
        ]
        if not level:
            return False
    return True
