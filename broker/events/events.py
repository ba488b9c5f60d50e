"""Events of a node, for listeners: objects created and deleted, logins, alarms.

Names and fields are those of RabbitMQ's event exchange (`queue.created`, `connection.closed` ...).
There is no listener most of the time, so callers test `are_wanted` before they collect the fields.
Field tables are passed on as field tables. No field is ever a secret: passwords, their hashes, and
values of parameters that may hold addresses with a password are left out.

A listener is called synchronously during the operation: it must take the event and return, and do
slow work later. A listener that raises is removed.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

Event = dict[str, Any]
"""`event` is its name, `timestamp_in_ms` the wall-clock time; the others are its fields."""
Listener = Callable[[Event], object]
TABLES = ("arguments", "client_properties")
"""The fields of events that are field tables."""

logger = logging.getLogger("leveret.events")


class Events:
    """The listeners of one node. are_wanted: there is a listener. node: the node's name."""

    def __init__(self, wall_time_s: Callable[[], float] = time.time, node: str = "") -> None:
        self.are_wanted = False
        self.node = node
        self._wall_time_s = wall_time_s
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call the listener with every event from now on."""
        self._listeners.append(listener)
        self.are_wanted = True

    def forget(self, listener: Listener) -> None:
        """Remove the listener, if it is there."""
        if listener in self._listeners:
            self._listeners.remove(listener)
        self.are_wanted = bool(self._listeners)

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Emit no events in the block: another node has made its changes and emitted them."""
        self.are_wanted = False
        try:
            yield
        finally:
            self.are_wanted = bool(self._listeners)

    def notify(self, name: str, facts: Mapping[str, Any]) -> None:
        """Call the listeners with an event. name: such as queue.created."""
        timestamp_ms = int(self._wall_time_s() * 1000)
        event = {"event": name, "timestamp_in_ms": timestamp_ms, **facts}
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                # The operation has taken place, and must not fail because of a listener.
                logger.exception("an event listener failed on %s and is removed", name)
                self.forget(listener)

    def pid(self, name: str) -> str:
        """The id that stands for the Erlang process of a connection or channel (`leveretctl`)."""
        return f"<{self.node}.{name.replace(' ', '')}>"
