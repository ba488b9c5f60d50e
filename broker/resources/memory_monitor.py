"""The memory monitor: compares the memory use of the process with its limit.

Above `vm_memory_high_watermark` the memory alarm is set and publishers are blocked; 5% below it the
alarm is cleared. Above `vm_memory_high_watermark_paging_ratio` of the watermark queues move
messages to disk: the monitor gives the store a budget for messages in memory, the paging limit
minus all other memory that the process uses.

The C library does not return all freed memory to the operating system, which could keep the alarm
in force. So above the paging limit it is asked to return free memory before memory use counts.
Nor does Python free objects that refer to each other until it looks for them. So garbage is
collected before the alarm is set, and once in a while as long as it is in force.
"""

import logging
from collections.abc import Callable

from leveret.broker.config import MemorySettings
from leveret.broker.resources.alarms import CLEARANCE, MEMORY, Alarms
from leveret.broker.resources.available_memory import available_bytes
from leveret.broker.resources.garbage_collections import collect_everything
from leveret.broker.resources.memory_measures import (
    allocated_bytes,
    give_back_freed_memory,
    resident_bytes,
)
from leveret.broker.runtime.clock import Clock, Timer

COLLECTION_INTERVAL_MS = 30_000
"""A collection of everything takes half a second with 50,000 queues."""
MESSAGES_SHARE_MIN = 0.1
"""The smallest budget for messages, as a share of the paging limit."""

logger = logging.getLogger("leveret.memory")


def total_memory_bytes(settings: MemorySettings) -> int:
    """The configured total memory, or the memory that this process can use."""
    if settings.total_bytes is not None:
        return settings.total_bytes
    return available_bytes()


def memory_limit_bytes(settings: MemorySettings) -> int:
    """The watermark in bytes."""
    if settings.high_watermark_bytes is not None:
        return settings.high_watermark_bytes
    return int(settings.high_watermark_relative * total_memory_bytes(settings))


class MemoryMonitor:
    """Sets and clears the memory alarm.

    measure: returns the memory in use, in bytes. held: returns the bytes of messages in memory.
    allow: called with the budget of messages in memory, in bytes.
    """

    def __init__(
        self,
        settings: MemorySettings,
        clock: Clock,
        alarms: Alarms,
        measure: Callable[[], int] | None = None,
        held: Callable[[], int] = lambda: 0,
        allow: Callable[[int], object] = lambda size: None,
    ) -> None:
        by_allocation = settings.calculation_strategy != "rss"
        self._measure = measure or (allocated_bytes if by_allocation else resident_bytes)
        self._interval_ms = settings.monitor_interval_ms
        self._clock = clock
        self._alarms = alarms
        self._held = held
        self._allow = allow
        self._timer: Timer | None = None
        self._is_above = False
        self._collected_ms = 0
        self._paging_ratio = settings.paging_ratio
        self.set_limit(memory_limit_bytes(settings))
        self.used_bytes = 0

    def set_limit(self, limit_bytes: int) -> None:
        """Set another watermark, in force from the next check."""
        self.limit_bytes = limit_bytes
        self.paging_bytes = int(limit_bytes * self._paging_ratio)

    def start(self) -> None:
        """Check now, and then every `memory_monitor_interval`."""
        self.check()
        self._timer = self._clock.call_later_ms(self._interval_ms, self.start)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def check(self) -> None:
        """Measure, set the budget of messages, and set or clear the alarm."""
        used = self.used_bytes = self._used_bytes()
        beside = max(0, used - self._held())
        least = int(self.paging_bytes * MESSAGES_SHARE_MIN)
        self._allow(max(least, self.paging_bytes - beside))
        is_above = used >= self.limit_bytes * (1 - CLEARANCE if self._is_above else 1)
        if is_above == self._is_above:
            return
        self._is_above = is_above
        if is_above:
            logger.warning(
                "memory alarm: %d bytes are in use, the limit is %d; publishers are blocked",
                used, self.limit_bytes,
            )  # fmt: skip
            self._alarms.set(MEMORY, "monitor")
        else:
            logger.info("memory alarm cleared: %d bytes are in use", used)
            self._alarms.clear(MEMORY, "monitor")

    def _used_bytes(self) -> int:
        """The bytes in use after freed memory was returned and garbage collected."""
        used = self._measure()
        if used >= self.limit_bytes and self._may_collect():
            collect_everything()
            used = self._measure()
        if used > self.paging_bytes:
            give_back_freed_memory()
            used = self._measure()
        return used

    def _may_collect(self) -> bool:
        """Whether the alarm is not in force, or the last collection was long ago."""
        now_ms = self._clock.now_ms()
        if self._is_above and now_ms < self._collected_ms + COLLECTION_INTERVAL_MS:
            return False
        self._collected_ms = now_ms
        return True
