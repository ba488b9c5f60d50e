"""Flow control: whether connections that publish are read.

They are not read while an alarm is in force (alarms.py), of which clients are notified, or during
congestion: the store's writes are behind, until the disk has caught up; in a cluster, other nodes
have not taken the messages that this node has for their queues; or messages on their way to very
many queues take too much memory. TCP then slows down the clients.
RabbitMQ calls the second state of a connection "flow". Connections that only consume are not
affected.
"""

from collections.abc import Callable

from leveret.broker.resources.alarms import Alarms

DELIVERIES_BYTES_HIGH = 32 * 1024 * 1024
DELIVERIES_BYTES_LOW = 16 * 1024 * 1024
"""Publishers are held back when deliveries that wait take more than the first, until they take less
than the second."""


class FlowControl:
    """The state of flow control on this node.

    is_held: connections that publish are not read, for one of these reasons.
    is_congested: the store or another node is behind. is_memory_short: so far that messages which
    the store need not write also have to wait. is_store_behind: the node itself takes no messages,
    because of an alarm or its store.
    """

    __slots__ = (
        "_alarms", "_are_deliveries_many", "_are_nodes_behind", "_deliveries_bytes",
        "_is_store_congested", "_is_store_short", "_listeners", "_once", "is_congested",
        "is_held", "is_memory_short", "is_store_behind",
    )  # fmt: skip

    def __init__(self, alarms: Alarms) -> None:
        self._alarms = alarms
        self._listeners: list[Callable[[], object]] = []
        self._once: list[Callable[[], object]] = []
        self.is_congested = self.is_memory_short = False
        self._is_store_congested = self._is_store_short = self._are_nodes_behind = False
        self.is_held = self.is_store_behind = False
        self._deliveries_bytes = 0
        self._are_deliveries_many = False
        alarms.listen(self._update)

    def set_congested(self, is_congested: bool, is_memory_short: bool = False) -> None:
        """Called by the store when congestion, or a shortage of memory, begins or ends."""
        self._is_store_congested, self._is_store_short = is_congested, is_memory_short
        self._changed()

    def set_nodes_behind(self, are_behind: bool) -> None:
        """Called when other nodes do not take the messages published for them, or do so again."""
        self._are_nodes_behind = are_behind
        self._changed()

    def deliveries_wait(self, change_bytes: int) -> None:
        """Add to the size of the deliveries to very many queues (broker/vhost/fan_out.py)."""
        self._deliveries_bytes += change_bytes
        limit = DELIVERIES_BYTES_LOW if self._are_deliveries_many else DELIVERIES_BYTES_HIGH
        are_many = self._deliveries_bytes > limit
        if are_many != self._are_deliveries_many:
            self._are_deliveries_many = are_many
            self._changed()

    def is_store_behind_with(self, is_persistent: bool) -> bool:
        """Whether the store of this node should get no more messages, persistent ones or others."""
        return self._is_store_short or (self._is_store_congested and is_persistent)

    def _changed(self) -> None:
        others = self._are_nodes_behind or self._are_deliveries_many
        self.is_congested = self._is_store_congested or others
        self.is_memory_short = self._is_store_short or others
        self._update()
        once, self._once = self._once, []
        for listener in (*self._listeners, *once):
            listener()

    def listen(self, listener: Callable[[], object]) -> None:
        """Add a function that is called whenever congestion begins or ends."""
        self._listeners.append(listener)

    def when_changed(self, callback: Callable[[], object]) -> None:
        """Call back once, when congestion begins or ends."""
        self._once.append(callback)

    def _update(self) -> None:
        self.is_store_behind = self._is_store_congested or self._alarms.are_in_force
        others = self._are_nodes_behind or self._are_deliveries_many
        self.is_held = self.is_store_behind or others
