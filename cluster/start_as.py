"""How a node starts, as its last run has asked for."""

from typing import NamedTuple


class StartAs(NamedTuple):
    """How a node starts.

    is_patient: it waits for others without a time limit, since it paused. takes_from: it takes
    everything from one of these, and what it has of its own is discarded. What an operator has said
    about it comes from next_start.py.
    """

    is_patient: bool = False
    takes_from: tuple[str, ...] = ()


NORMALLY = StartAs()
