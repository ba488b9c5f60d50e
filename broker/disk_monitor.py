"""The disk monitor: compares the free space where the data are with `disk_free_limit`.

Below the limit the disk alarm is set, and publishers are held back, so that what consumers settle
can still be written. Like RabbitMQ's it looks more often the closer it gets: between every ten
seconds and ten times a second, by how long a fast writer would need to use up what is left.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from broker.alarms import DISK, Alarms
from broker.clock import Clock, Timer
from broker.config import Config
from broker.memory_monitor import total_memory_bytes

INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 10_000
FAST_BYTES_PER_MS = 250_000
"""What a fast writer writes."""

logger = logging.getLogger("leveret.disk")


def disk_limit_bytes(config: Config) -> int:
    """Free space below which the alarm is set."""
    if config.disk_free_limit_relative is not None:
        return int(config.disk_free_limit_relative * total_memory_bytes(config))
    return config.disk_free_limit_bytes or 0


def free_bytes(directory: Path) -> int:
    """What an unprivileged process could still write. Waits for the file system if that hangs."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


class DiskMonitor:
    """Sets and clears the disk alarm. measure: free bytes. free: when it was last looked."""

    def __init__(
        self, config: Config, clock: Clock, alarms: Alarms, measure: Callable[[], int]
    ) -> None:
        self.limit_bytes = disk_limit_bytes(config)
        self.free = 0
        self._clock = clock
        self._alarms = alarms
        self._measure = measure
        self._timer: Timer | None = None
        self._is_below = False
        self._is_blind = False

    def start(self) -> None:
        """Look now, and then as often as is due."""
        self.check()
        left_ms = max(0, self.free - self.limit_bytes) / FAST_BYTES_PER_MS
        delay_ms = min(INTERVAL_MS_MAX, max(INTERVAL_MS_MIN, left_ms))
        self._timer = self._clock.call_later_ms(delay_ms, self.start)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def check(self) -> None:
        """Compare, and set or clear the alarm."""
        try:
            self.free = self._measure()
        except OSError as error:
            if not self._is_blind:
                logger.error("the free space on the disk cannot be told: %s", error)
            self._is_blind = True
            return
        self._is_blind = False
        is_below = self.free < self.limit_bytes
        if is_below == self._is_below:
            return
        self._is_below = is_below
        if is_below:
            logger.warning(
                "disk alarm: %d bytes are free, the limit is %d; publishers are held back",
                self.free, self.limit_bytes,
            )  # fmt: skip
            self._alarms.set(DISK, "monitor")
        else:
            logger.info("disk alarm is over: %d bytes are free", self.free)
            self._alarms.clear(DISK, "monitor")
