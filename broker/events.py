"""What happens on a node, told to whoever listens: objects made and gone, logins, alarms.

Names and fields are those of RabbitMQ's event exchange (`queue.created`, `connection.closed` ...).
Nobody listens most of the time, so whoever has something to tell looks at `are_wanted` first.
"""

import asyncio
from typing import Any, Protocol


class Clock(Protocol):
    """The time of day."""

    def wall_time_s(self) -> float:
        """Seconds since 1970."""


class Events:
    """The listeners of one node. are_wanted: there is one."""

    def __init__(self, clock: Clock) -> None:
        self.are_wanted = False
        self._clock = clock
        self._listeners: list[asyncio.Queue[dict[str, Any]]] = []

    def listen(self, queue: asyncio.Queue[dict[str, Any]]) -> None:
        """Put every event into this queue; one that is full misses events."""
        self._listeners.append(queue)
        self.are_wanted = True

    def forget(self, queue: asyncio.Queue[dict[str, Any]]) -> None:
        """Tell this one no more."""
        self._listeners.remove(queue)
        self.are_wanted = bool(self._listeners)

    def tell(self, name: str, **facts: Any) -> None:
        """Something happened. name: such as queue.created."""
        if not self.are_wanted:
            return
        event = {"event": name, "timestamp_ms": int(self._clock.wall_time_s() * 1000), **facts}
        for queue in self._listeners:
            if not queue.full():
                queue.put_nowait(event)
