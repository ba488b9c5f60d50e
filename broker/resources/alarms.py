"""Resource alarms for memory and disk, and their listeners.

While an alarm is in force, connections that publish are not read; connections that only consume
continue. RabbitMQ's documentation calls such connections "blocked". Clients with the capability
connection.blocked receive the reason: ``low on memory`` or ``low on disk``.
"""

from collections.abc import Callable

MEMORY, DISK = "memory", "disk"
CLEARANCE = 0.05
"""An alarm is cleared when the limit is observed by this share of it: at the limit itself it would
be set and cleared many times a second."""


class Alarms:
    """The alarms in force on this node."""

    __slots__ = ("_listeners", "_sources")

    def __init__(self) -> None:
        self._sources: dict[str, set[str]] = {}
        self._listeners: list[Callable[[], object]] = []

    @property
    def are_in_force(self) -> bool:
        """Whether at least one alarm is in force."""
        return bool(self._sources)

    @property
    def sources(self) -> tuple[str, ...]:
        """The alarms in force: `memory`, `disk` or both."""
        return tuple(self._sources)

    def has(self, source: str) -> bool:
        """Whether the alarm of a source is in force."""
        return source in self._sources

    @property
    def reason(self) -> str:
        """The reason in connection.blocked, such as `low on memory & low on disk`."""
        return " & ".join(f"low on {source}" for source in self._sources)

    def set(self, source: str, holder: str = "") -> None:
        """Set an alarm for a holder; an alarm may have several holders."""
        holders = self._sources.setdefault(source, set())
        was_in_force = bool(holders)
        holders.add(holder)
        if not was_in_force:
            self._notify()

    def clear(self, source: str, holder: str = "") -> None:
        """Clear an alarm for a holder; it ends with its last holder."""
        holders = self._sources.get(source, set())
        holders.discard(holder)
        if source in self._sources and not holders:
            del self._sources[source]
            self._notify()

    def listen(self, listener: Callable[[], object]) -> None:
        """Add a function that is called whenever an alarm begins or ends."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
