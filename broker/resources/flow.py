"""Flow control: whether connections that publish are read.

They are not read while an alarm is in force (alarms.py), which clients are notified of, or while
the store is congested: its writes are behind, until the disk has caught up. TCP then slows the
clients down. RabbitMQ calls the second state of a connection "flow". Connections that only consume
are not affected.
"""

from collections.abc import Callable

from leveret.broker.resources.alarms import Alarms


class Flow:
    """The state of flow control on this node.

    is_held: connections that publish are not read, for either reason.
    is_congested: the store is congested. is_memory_short: so much so that messages which it need
    not write have to wait, too.
    """

    __slots__ = ("_alarms", "_listeners", "is_congested", "is_held", "is_memory_short")

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._listeners: list[Callable[[], object]] = []
        self.is_congested = self.is_memory_short = False
        self.is_held = False
        alarms.listen(self._update)

    def set_congested(self, is_congested: bool, is_memory_short: bool = False) -> None:
        """Called by the store when congestion, or a shortage of memory, begins or ends."""
        self.is_congested, self.is_memory_short = is_congested, is_memory_short
        self._update()
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], object]) -> None:
        """Add a function that is called whenever congestion begins or ends."""
        self._listeners.append(listener)

    def _update(self) -> None:
        self.is_held = self.is_congested or self._alarms.are_in_force
