"""Resource alarms for memory and disk, and their listeners.

While an alarm is in force, connections that publish are not read; connections that only consume
continue. RabbitMQ's documentation calls such connections "blocked". Clients with the capability
connection.blocked receive the reason: ``low on memory`` or ``low on disk``.

In a cluster an alarm of one node is in force on all of them: a message that is published here may
be for a queue there. The alarms of other nodes come from cluster/node_status/node_states.py.
"""

from collections.abc import Callable, Mapping

MEMORY, DISK = "memory", "disk"
CLEARANCE = 0.05
"""An alarm is cleared at this share of the limit below (or above) it: at the limit itself, it would
be set and cleared many times a second."""


class Alarms:
    """The alarms in force: those of this node, and those of other nodes of its cluster."""

    __slots__ = ("_holders", "_listeners", "_of_others")

    def __init__(self) -> None:
        self._holders: dict[str, set[str]] = {}
        self._of_others: dict[str, tuple[str, ...]] = {}
        self._listeners: list[Callable[[], object]] = []

    @property
    def are_in_force(self) -> bool:
        """Whether at least one alarm is in force, of this node or of another one."""
        return bool(self._holders or self._of_others)

    @property
    def own(self) -> tuple[str, ...]:
        """The alarms of this node: `memory`, `disk` or both."""
        return tuple(self._holders)

    @property
    def of_others(self) -> Mapping[str, tuple[str, ...]]:
        """The alarms of other nodes, by the names of those that have any."""
        return self._of_others

    def has(self, source: str) -> bool:
        """Whether an alarm of this node is in force."""
        return source in self._holders

    @property
    def reason(self) -> str:
        """The reason in connection.blocked, such as `low on memory & low on disk`."""
        sources = dict.fromkeys(self._holders)
        for of_node in self._of_others.values():
            sources.update(dict.fromkeys(of_node))
        return " & ".join(f"low on {source}" for source in sources)

    def set(self, source: str, holder: str = "") -> None:
        """Set an alarm of this node for a holder; an alarm may have several holders."""
        holders = self._holders.setdefault(source, set())
        was_in_force = bool(holders)
        holders.add(holder)
        if not was_in_force:
            self._notify()

    def clear(self, source: str, holder: str = "") -> None:
        """Clear an alarm of this node for a holder; it ends with its last holder."""
        holders = self._holders.get(source, set())
        holders.discard(holder)
        if source in self._holders and not holders:
            del self._holders[source]
            self._notify()

    def set_of_node(self, node: str, sources: tuple[str, ...]) -> None:
        """Set the alarms of another node; none if it is down."""
        if self._of_others.get(node, ()) == sources:
            return
        if sources:
            self._of_others[node] = sources
        else:
            del self._of_others[node]
        self._notify()

    def listen(self, listener: Callable[[], object]) -> None:
        """Add a function that is called whenever an alarm begins or ends, on any node."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
