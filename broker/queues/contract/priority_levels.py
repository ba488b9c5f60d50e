"""The levels of a queue: the parts that hold its messages, the highest being delivered first.

A classic queue with priorities has a level for each of them.
"""

from collections.abc import Callable
from typing import NamedTuple

from leveret.storage.messages.message import Message


class PriorityLevels(NamedTuple):
    """highest: the highest level; 0 is the lowest. of: the level of a message."""

    highest: int
    of: Callable[[Message], int]


def priority_levels(priority_max: int) -> PriorityLevels:
    """The levels of a queue with priorities: 0 by default, the maximum for higher ones."""
    return PriorityLevels(
        priority_max, lambda message: min(message.header.priority or 0, priority_max)
    )
