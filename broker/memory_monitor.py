"""The memory monitor: compares what the process uses with its limit.

Above `vm_memory_high_watermark` the memory alarm is set, and publishers are held back; below it the
alarm is cleared. At `vm_memory_high_watermark_paging_ratio` of the watermark queues begin to move
messages to disk: the monitor tells the store how much messages may take, which is what is left
beside all else that the process needs.

What was freed is not always given back to the operating system, which would keep the alarm in force
for ever. So above the limit the C library is asked to give back what it can, before the alarm.
"""

import logging
import os
import resource
from collections.abc import Callable
from pathlib import Path

from broker.alarms import MEMORY, Alarms
from broker.clock import Clock, Timer
from broker.config import Config
from broker.memory_measures import allocated_bytes, give_back_freed_memory, resident_bytes

CGROUP_FILES = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Where a container's limit is, in version 2 and 1 of control groups."""
MESSAGES_SHARE_MIN = 0.1
"""What of the paging limit messages may take at least, however much else the process needs."""

logger = logging.getLogger("leveret.memory")


def total_memory_bytes(config: Config, cgroup_files: tuple[Path, ...] = CGROUP_FILES) -> int:
    """What the limits are shares of: the memory of the machine, or of the container if less."""
    if config.total_memory_bytes is not None:
        return config.total_memory_bytes
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    for path in cgroup_files:
        try:
            text = path.read_text().strip()
        except OSError:
            # Not this version of control groups, or none at all.
            continue
        if text.isdigit():
            limits.append(int(text))
    return min(limits)


def memory_limit_bytes(config: Config) -> int:
    """The watermark."""
    if config.vm_memory_high_watermark_bytes is not None:
        return config.vm_memory_high_watermark_bytes
    return int(config.vm_memory_high_watermark_relative * total_memory_bytes(config))


class MemoryMonitor:
    """Sets and clears the memory alarm.

    measure: bytes in use. held: bytes of messages in memory. allow: called with how many bytes
    messages may take.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        alarms: Alarms,
        measure: Callable[[], int] | None = None,
        held: Callable[[], int] = lambda: 0,
        allow: Callable[[int], object] = lambda size: None,
    ) -> None:
        by_allocation = config.vm_memory_calculation_strategy != "rss"
        self._measure = measure or (allocated_bytes if by_allocation else resident_bytes)
        self._interval_ms = config.memory_monitor_interval_ms
        self._clock = clock
        self._alarms = alarms
        self._held = held
        self._allow = allow
        self._timer: Timer | None = None
        self._is_above = False
        self._paging_ratio = config.vm_memory_high_watermark_paging_ratio
        self.set_limit(memory_limit_bytes(config))
        self.used_bytes = 0

    def set_limit(self, limit_bytes: int) -> None:
        """Another watermark; it counts from the next check."""
        self.limit_bytes = limit_bytes
        self.paging_bytes = int(limit_bytes * self._paging_ratio)

    def start(self) -> None:
        """Look now, and then every `memory_monitor_interval`."""
        self.check()
        self._timer = self._clock.call_later_ms(self._interval_ms, self.start)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def check(self) -> None:
        """Compare, and set or clear the alarm."""
        used = self._measure()
        if used > self.paging_bytes:
            give_back_freed_memory()
            used = self._measure()
        self.used_bytes = used
        beside = max(0, used - self._held())
        least = int(self.paging_bytes * MESSAGES_SHARE_MIN)
        self._allow(max(least, self.paging_bytes - beside))
        is_above = used >= self.limit_bytes
        if is_above == self._is_above:
            return
        self._is_above = is_above
        if is_above:
            logger.warning(
                "memory alarm: %d bytes are in use, the limit is %d; publishers are held back",
                used, self.limit_bytes,
            )  # fmt: skip
            self._alarms.set(MEMORY, "monitor")
        else:
            logger.info("memory alarm is over: %d bytes are in use", used)
            self._alarms.clear(MEMORY, "monitor")
