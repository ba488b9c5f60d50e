"""The limits that a client and the node have agreed on, in any protocol."""

from typing import NamedTuple


class Tuning(NamedTuple):
    """The limits of a connection. 0: no limit, or no heartbeat."""

    channel_max: int
    frame_bytes_max: int
    heartbeat_s: int
