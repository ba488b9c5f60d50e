"""Watches the keep alives of clients: one timer for all connections of a node.

A client has to send something within one and a half times its keep alive. The connections wait in
buckets, by the second in which they are looked at next: when they would be late if they had sent
nothing since they were last looked at. So a connection costs one comparison per interval, however
much it sends, and no timer. A connection that has ended is freed, and its place in a bucket stays
empty.
"""

import weakref
from collections.abc import Iterator
from typing import Final, Protocol

from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.turns import Turns

TICK_MS: Final = 1000
LOOK_WORK: Final = 2
"""The work of looking at one connection, in the units of broker/runtime/turns.py."""
ALLOWED_PERCENT: Final = 150


class KeptAlive(Protocol):
    """A connection of a client with a keep alive."""

    @property
    def keep_alive_ms(self) -> int:
        """The longest time between two reads; 0 if the connection has ended."""

    @property
    def last_read_ms(self) -> int:
        """The time of the last read; the current time while the socket is not read."""

    def is_late(self) -> None:
        """The client has sent nothing for too long."""


class KeepAlives:
    """The connections of a node whose clients have a keep alive."""

    def __init__(self, clock: Clock, turns: Turns) -> None:
        self._clock = clock
        self._turns = turns
        self._buckets: dict[int, list[weakref.ref[KeptAlive]]] = {}
        self._timer: Timer | None = None
        self._next_tick = 0

    def watch(self, connection: KeptAlive) -> None:
        """Watch a connection from now on, until its `keep_alive_ms` is 0."""
        now_ms = self._clock.now_ms()
        if self._timer is None:
            self._next_tick = now_ms // TICK_MS + 1
            self._timer = self._clock.call_later_ms(TICK_MS, self._tick)
        self._put(weakref.ref(connection), now_ms + connection.keep_alive_ms)

    def _put(self, reference: weakref.ref[KeptAlive], due_ms: int) -> None:
        tick = max(self._next_tick, due_ms // TICK_MS + 1)
        self._buckets.setdefault(tick, []).append(reference)

    def _tick(self) -> None:
        now_ms = self._clock.now_ms()
        due: list[list[weakref.ref[KeptAlive]]] = []
        while self._next_tick <= now_ms // TICK_MS:
            bucket = self._buckets.pop(self._next_tick, None)
            if bucket is not None:
                due.append(bucket)
            self._next_tick += 1
        if due:
            LongWork(
                self._turns, "looking at the keep alives of clients", self._looking(due)
            ).start()
        self._timer = None
        if self._buckets or due:
            self._timer = self._clock.call_later_ms(TICK_MS, self._tick)

    def _looking(self, due: list[list[weakref.ref[KeptAlive]]]) -> Iterator[int]:
        for bucket in due:
            while bucket:
                self._look(bucket.pop())
                yield LOOK_WORK

    def _look(self, reference: weakref.ref[KeptAlive]) -> None:
        connection = reference()
        if connection is None or not connection.keep_alive_ms:
            return
        allowed_ms = connection.keep_alive_ms
        due_ms = connection.last_read_ms + allowed_ms
        if due_ms <= self._clock.now_ms():
            connection.is_late()
        else:
            self._put(reference, due_ms)


def allowed_ms(keep_alive_s: int) -> int:
    """The longest time between two packets of a client."""
    return keep_alive_s * 10 * ALLOWED_PERCENT
