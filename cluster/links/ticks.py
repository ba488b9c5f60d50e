"""Ticks: whether the other end of a link is still there, decided as with Erlang's net_ticktime.

There are four checks in the tick time. Each check compares the octets received and sent with those
of the previous one:

- If nothing was sent, a tick is sent: an idle link has one about every quarter.
- If nothing was received in four checks in succession, the peer is silent. That is after the tick
  time at the earliest and after 1.25 times the tick time at the latest (Erlang: 0.75 to 1.25).
- If bytes waited to be sent and none were taken in four checks in succession, the peer does not
  read.

Checks are counted, not time: a check that is late because this process was suspended or busy counts
as one, and data that arrived before it are still in the socket. `was_suspended` tells whether
checks are so late that the peers must have given up this node.
"""

from enum import Enum, auto

from leveret.cluster.links.frames import HEADER_OCTETS

CHECKS_IN_TICK_TIME = 4
"""Erlang's kernel, net_tickintensity."""

TICK_OCTETS = HEADER_OCTETS
"""A tick is an empty frame. It does not count as sent data, so the next tick is sent, too."""


class TickResult(Enum):
    """The result of a check. SEND_TICK and ALIVE: the link stays."""

    ALIVE = auto()
    SEND_TICK = auto()
    SILENT = auto()
    DOES_NOT_READ = auto()


def interval_s(tick_time_s: float) -> float:
    """The seconds from one check to the next."""
    return tick_time_s / CHECKS_IN_TICK_TIME


def was_suspended(tick_time_s: float, last_check_s: float, now_s: float) -> bool:
    """Whether this process did not run for so long that its peers have given up this node.

    last_check_s, now_s: by a monotonic clock.
    """
    return now_s - last_check_s > tick_time_s + interval_s(tick_time_s)


class Ticks:
    """The checks of one link. All numbers are octets since the link came up."""

    __slots__ = ("_received", "_sent", "_silent_checks", "_stuck_checks", "_taken")

    def __init__(self) -> None:
        self._received = self._sent = self._taken = -1
        self._silent_checks = self._stuck_checks = 0

    def check(self, received: int, sent: int, taken: int) -> TickResult:
        """Make a check. sent: octets given to the link. taken: those that the system took."""
        self._silent_checks = 0 if received != self._received else self._silent_checks + 1
        is_stuck = taken < sent and taken == self._taken
        self._stuck_checks = self._stuck_checks + 1 if is_stuck else 0
        is_idle = sent == self._sent
        self._received, self._sent, self._taken = received, sent, taken
        if self._silent_checks >= CHECKS_IN_TICK_TIME:
            return TickResult.SILENT
        if self._stuck_checks >= CHECKS_IN_TICK_TIME:
            return TickResult.DOES_NOT_READ
        if not is_idle:
            return TickResult.ALIVE
        self._sent += TICK_OCTETS
        return TickResult.SEND_TICK
