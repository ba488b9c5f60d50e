"""The stream of events (broker/events/events.py) to one HTTP client: a line of JSON for each event.

An event becomes a line when it happens, and the line waits here until the client has read those
before it. The waiting lines are bounded in bytes. A client that is too slow misses events; in their
place it gets one event `events.missed` with their `count`.
"""

import asyncio
import time
from collections import deque
from typing import Any

import msgspec

from leveret.broker.amqp.json_form import table_to_json, text
from leveret.broker.events.events import TABLES, Event

HELD_BYTES_MAX = 4 * 1024 * 1024
"""About 15,000 events."""
PIECE_BYTES = 64 * 1024
"""The size of the pieces in which lines are sent, roughly."""
MISSED = "events.missed"


def line_of(event: Event) -> bytes:
    """An event as JSON in one line."""
    return msgspec.json.encode({name: _shown(name, fact) for name, fact in event.items()}) + b"\n"


def _shown(name: str, fact: Any) -> Any:
    if name in TABLES:
        return table_to_json(fact)
    return text(fact) if isinstance(fact, str) else fact


class EventStream:
    """The lines that wait for one client. held_bytes_max: how many bytes may wait."""

    def __init__(self, held_bytes_max: int = HELD_BYTES_MAX) -> None:
        self._held_bytes_max = held_bytes_max
        self._held_bytes = 0
        self._missed_count = 0
        self._lines: deque[bytes] = deque()
        self._has_come = asyncio.Event()

    def add(self, event: Event) -> None:
        """Take an event. A listener for `Events.listen`."""
        if self._held_bytes >= self._held_bytes_max:
            self._missed_count += 1
            return
        self._report_missed()
        self._hold(line_of(event))

    def _hold(self, line: bytes) -> None:
        self._lines.append(line)
        self._held_bytes += len(line)
        self._has_come.set()

    def _report_missed(self) -> None:
        if self._missed_count:
            count, self._missed_count = self._missed_count, 0
            now_ms = int(time.time() * 1000)
            self._hold(line_of({"event": MISSED, "timestamp_in_ms": now_ms, "count": count}))

    async def take(self, patience_s: float) -> bytes:
        """The next piece of waiting lines; empty if no event happens within this time."""
        if not self._lines:
            self._has_come.clear()
            try:
                await asyncio.wait_for(self._has_come.wait(), patience_s)
            except TimeoutError:
                return b""
        piece = bytearray()
        while self._lines and len(piece) < PIECE_BYTES:
            piece += self._lines.popleft()
        self._held_bytes -= len(piece)
        if not self._lines:
            self._report_missed()
        return bytes(piece)
