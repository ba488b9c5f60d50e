"""Alarms: the reasons for which publishers are held back, and who wants to know of them.

While an alarm is in force, connections that publish are not read any more (see net/connection.py);
consumers go on. RabbitMQ's documentation calls this "blocked" connections; the reasons are told to
clients that can hear it, as ``low on memory`` or ``low on disk``.
"""

from collections.abc import Callable

MEMORY, DISK = "memory", "disk"


class Alarms:
    """The alarms in force on this node."""

    __slots__ = ("_listeners", "_sources")

    def __init__(self) -> None:
        self._sources: dict[str, set[str]] = {}
        self._listeners: list[Callable[[], object]] = []

    @property
    def are_in_force(self) -> bool:
        """There is at least one."""
        return bool(self._sources)

    @property
    def sources(self) -> tuple[str, ...]:
        """`memory`, `disk` or both."""
        return tuple(self._sources)

    def has(self, source: str) -> bool:
        """Whether there is one for this reason."""
        return source in self._sources

    @property
    def reason(self) -> str:
        """`low on memory & low on disk`, as connection.blocked says it."""
        return " & ".join(f"low on {source}" for source in self._sources)

    def set(self, source: str, holder: str = "") -> None:
        """The alarm comes into force, if it is not. holder: who wants it, of several."""
        holders = self._sources.setdefault(source, set())
        was_in_force = bool(holders)
        holders.add(holder)
        if not was_in_force:
            self._notify()

    def clear(self, source: str, holder: str = "") -> None:
        """The alarm is over, unless somebody else wants it."""
        holders = self._sources.get(source, set())
        holders.discard(holder)
        if source in self._sources and not holders:
            del self._sources[source]
            self._notify()

    def listen(self, listener: Callable[[], object]) -> None:
        """Be called whenever an alarm comes or goes."""
        self._listeners.append(listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
