"""Flow control: whether publishers are read on, or held back.

There are two reasons to hold them back: an alarm (alarms.py), which is told to clients and may
last, and a store that is behind with writing, which lasts until the disk has caught up. A
connection that publishes meanwhile is not read any more, so its client is slowed by TCP, like all
others; RabbitMQ calls that state of a connection "flow". Who only consumes never notices.
"""

from collections.abc import Callable

from broker.alarms import Alarms


class Flow:
    """is_held: publishers are to be held back, for whichever reason.

    is_congested: the reason is, or is also, that the store is behind.
    """

    __slots__ = ("_alarms", "_listeners", "is_congested", "is_held")

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._listeners: list[Callable[[], object]] = []
        self.is_congested = False
        self.is_held = False
        alarms.listen(self._update)

    def set_congested(self, is_congested: bool) -> None:
        """The store is behind with writing, or has caught up."""
        self.is_congested = is_congested
        self._update()
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], object]) -> None:
        """Be called whenever congestion comes or goes."""
        self._listeners.append(listener)

    def _update(self) -> None:
        self.is_held = self.is_congested or self._alarms.are_in_force
