"""What happens on a node, told to whoever listens: objects made and gone, logins, alarms.

Names and fields are those of RabbitMQ's event exchange (`queue.created`, `connection.closed` ...).
Nobody listens most of the time, so whoever has something to tell looks at `are_wanted` first, and
only then puts the facts together. Field tables among them stay field tables, and no fact is ever a
secret: passwords, their hashes, and values of parameters that may hold addresses with a password in
them are left out.

A listener is called at once, in the middle of what happens: it takes the event and returns, and
does what takes time later. One that fails is called no more.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

Event = dict[str, Any]
"""`event` is its name, `timestamp_in_ms` the wall-clock time; the rest are its facts."""
Listener = Callable[[Event], object]

NODE_ITSELF = "rmq-internal"
"""What RabbitMQ calls the user by whom something is done that no user asked for."""
acting_user: ContextVar[str] = ContextVar("acting_user", default=NODE_ITSELF)
"""The user for whom management works at the moment. What clients do names their user itself."""

logger = logging.getLogger("leveret.events")


class Events:
    """The listeners of one node. are_wanted: there is one. node: the node's name."""

    def __init__(self, wall_time_s: Callable[[], float] = time.time, node: str = "") -> None:
        self.are_wanted = False
        self.node = node
        self._wall_time_s = wall_time_s
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call this one with every event from now on."""
        self._listeners.append(listener)
        self.are_wanted = True

    def forget(self, listener: Listener) -> None:
        """Call this one no more, if it still is called."""
        if listener in self._listeners:
            self._listeners.remove(listener)
        self.are_wanted = bool(self._listeners)

    def tell(self, name: str, facts: Mapping[str, Any]) -> None:
        """Something happened. name: such as queue.created."""
        timestamp_ms = int(self._wall_time_s() * 1000)
        event = {"event": name, "timestamp_in_ms": timestamp_ms, **facts}
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                # What is told of has happened, and must not fail for being told.
                logger.exception("a listener failed on %s and is told no more", name)
                self.forget(listener)

    def pid(self, name: str) -> str:
        """What stands for the Erlang process of a connection or channel, as in `leveretctl`."""
        return f"<{self.node}.{name.replace(' ', '')}>"
