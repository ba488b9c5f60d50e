"""The disk monitor: compares the free space of the data directory's disk with `disk_free_limit`.

Below the limit the disk alarm is set and publishers are blocked, so that acknowledgements can still
be written; 5% above it the alarm is cleared. As in RabbitMQ the interval is shorter the closer the
limit is: from ten seconds down to 100 ms, the time in which a fast writer would use up the space
above the limit.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from leveret.broker.config import Config
from leveret.broker.resources.alarms import CLEARANCE, DISK, Alarms
from leveret.broker.resources.memory_monitor import total_memory_bytes
from leveret.broker.runtime.clock import Clock, Timer

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 10_000
FAST_BYTES_PER_MS = 250_000
"""The speed of a fast writer, as in RabbitMQ."""

logger = logging.getLogger("leveret.disk")


def disk_limit_bytes(config: Config) -> int:
    """The free space in bytes below which the alarm is set."""
    if config.disk.free_limit_relative is not None:
        return int(config.disk.free_limit_relative * total_memory_bytes(config.memory))
    return config.disk.free_limit_bytes or 0


def free_bytes(directory: Path) -> int:
    """The space available to an unprivileged process. Blocks if the file system does."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


class DiskMonitor:
    """Sets and clears the disk alarm.

    measure: returns the free bytes. measured: called with them. free: the last measurement.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        alarms: Alarms,
        measure: Callable[[], int],
        measured: Callable[[int], object] = lambda free_bytes: None,
    ) -> None:
        self.limit_bytes = disk_limit_bytes(config)
        self.free = 0
        self._clock = clock
        self._alarms = alarms
        self._measure = measure
        self._measured = measured
        self._timer: Timer | None = None
        self._is_below = False
        self._is_blind = False

    def start(self) -> None:
        """Check now, and then at intervals."""
        self.check()
        left_ms = max(0, self.free - self.limit_bytes) / FAST_BYTES_PER_MS
        delay_ms = min(INTERVAL_MS_MAX, max(INTERVAL_MS_MIN, left_ms))
        self._timer = self._clock.call_later_ms(delay_ms, self.start)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def check(self) -> None:
        """Measure, and set or clear the alarm."""
        try:
            self.free = self._measure()
        except OSError as error:
            if not self._is_blind:
                logger.error("the free space of the data directory cannot be measured: %s", error)
            self._is_blind = True
            return
        self._is_blind = False
        self._measured(self.free)
        is_below = self.free < self.limit_bytes * (1 + CLEARANCE if self._is_below else 1)
        if is_below == self._is_below:
            return
        self._is_below = is_below
        if is_below:
            logger.warning(
                "disk alarm: %d bytes are free, the limit is %d; publishers are blocked",
                self.free, self.limit_bytes,
            )  # fmt: skip
            self._alarms.set(DISK, "monitor")
        else:
            logger.info("disk alarm cleared: %d bytes are free", self.free)
            self._alarms.clear(DISK, "monitor")
