"""The way in which a node starts, as its last run has requested."""

from typing import NamedTuple


class StartAs(NamedTuple):
    """The way in which a node starts. An operator's instructions come from next_start.py.

    is_patient: it waits for other nodes without a time limit, since it paused. takes_from: it takes
    everything from one of these nodes, and discards its own metadata.
    """

    is_patient: bool = False
    takes_from: tuple[str, ...] = ()


NORMALLY = StartAs()
