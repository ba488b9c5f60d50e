"""Decides when Python's garbage collector looks for objects that only refer to each other.

A collection stops the process while it examines every object that may be part of a cycle: a million
take 0.15 s, and 50,000 queues are more than that. Kinds of objects of which the broker has many
break their cycles when they end (queues, channels, connections) or are in none (messages), so
reference counting frees them, and hardly anything is left to collect.

**Promises.** Once started, no collection except `collect_everything` examines more than
`KEPT_MAX` + `YOUNG_SUM_MAX` objects, plus those made in `CHECK_SECONDS` and, by a process that does
little, in `SPENT_SECONDS`. Garbage is freed at the next collection or the one after, unless it was
frozen.
**Not promised.** That frozen garbage is freed before `collect_everything`.

Mechanism: Python itself collects only the objects made since the last collection, whenever there
are `YOUNG_MAX` more of them than were freed. A timer counts the objects made since the last
collection of all objects that are not frozen, unless the process has hardly done anything since the
last count. Above `YOUNG_SUM`, or after `YOUNG_COLLECTIONS` collections by Python, they are examined
again; if more than `KEPT_MAX` are left, the node has grown by that many, and they are frozen
(`gc.freeze`): no later collection examines them. Above `YOUNG_SUM_MAX`, or after
`YOUNG_COLLECTIONS_MAX`, they are frozen at once.
"""

import gc
from collections.abc import Callable
from time import process_time
from typing import Any

from leveret.broker.runtime.loop_watch import TimerHandle

YOUNG_MAX = 5_000
"""A collection of this number of objects takes half a millisecond to one millisecond."""
YOUNG_COLLECTIONS, YOUNG_COLLECTIONS_MAX = 4, 8
YOUNG_SUM, YOUNG_SUM_MAX = 20_000, 45_000
"""Objects made since all were examined: at the first number they are examined again, at the second
frozen."""
KEPT_MAX = 10_000
CHECK_SECONDS = 0.05
"""In this time a client that declares queues at full speed makes 30,000 objects."""
SPENT_SECONDS = 0.025
"""Processor time in which so few objects are made that they need not be counted: 20 counts a second
take a third of an idle node's processor time, and delay single messages."""
NEVER = 1_000_000_000


class GarbageCollections:
    """The collections of a process."""

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], TimerHandle],
        processor_seconds: Callable[[], float] = process_time,
    ) -> None:
        """call_later: the event loop's. processor_seconds: the processor time of the process."""
        self._call_later = call_later
        self._processor_seconds = processor_seconds
        self._counted_at_s = processor_seconds()
        self._thresholds = gc.get_threshold()
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Collect, freeze all existing objects, and take over from Python.

        This takes long, so call it when no client waits.
        """
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG_MAX, NEVER, NEVER)
        gc.callbacks.append(self._collected)
        self._look()

    def stop(self) -> None:
        """Leave collections of all objects to Python again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*self._thresholds)
            gc.unfreeze()

    @staticmethod
    def _collected(phase: str, info: dict[str, Any]) -> None:
        """Note a collection by Python, for which the timer may come too late."""
        _, young_collections, _ = gc.get_count()
        if phase == "stop" and young_collections >= YOUNG_COLLECTIONS_MAX:
            gc.freeze()

    def _look(self) -> None:
        now_s = self._processor_seconds()
        if now_s - self._counted_at_s >= SPENT_SECONDS:
            self._counted_at_s = now_s
            self._count()
        self._timer = self._call_later(CHECK_SECONDS, self._look)

    def _count(self) -> None:
        # Python subtracts freed objects from its count, so very many may have been made.
        young_count = len(gc.get_objects(0)) + len(gc.get_objects(1))
        if young_count > YOUNG_SUM_MAX:
            gc.freeze()
        elif young_count > YOUNG_SUM or gc.get_count()[1] >= YOUNG_COLLECTIONS:
            gc.collect()
            if len(gc.get_objects()) > KEPT_MAX:
                gc.freeze()


def collect_everything() -> int:
    """Examine all objects, however long that takes; return how many were freed.

    For a node that is short of memory: with 50,000 queues it takes half a second.
    """
    are_put_aside = gc.get_freeze_count() > 0
    gc.unfreeze()
    collected = gc.collect()
    if are_put_aside:
        gc.freeze()
    return collected
