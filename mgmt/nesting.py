"""How deep JSON may be: lists and objects in each other, as deep as a field table may be.

What is deeper is refused before anything walks through it, and comes to the end of the stack.
"""

from typing import Any

from broker.amqp.field_table import NESTING_MAX

TOO_DEEP = f"JSON may not be nested deeper than {NESTING_MAX} levels"


def is_too_deep(content: Any) -> bool:
    """Whether lists and objects are in each other more often than that."""
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
