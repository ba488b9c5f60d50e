"""What a migration has where at one moment: the queues at both brokers, the links, the programs.

A look at very many queues takes long. Between two looks only the links are asked for, which this
node answers at once: one that has moved nothing for a while makes room for that of another queue.
Whether everything has moved is decided by looks alone. Pure.
"""

from typing import Any, Final, NamedTuple

from leveret.mgmt.ctl.migrating.links import FORWARD, Place, QueueAtBoth

FAILED, RUNNING = "terminated", "running"
"""States of shovels: between two attempts to connect, and without unconfirmed messages."""
IDLE_SECONDS: Final = 3.0
"""A queue from which a connected link gets nothing for this time has nothing for it."""


class MigrationLinks(NamedTuple):
    """The links at one moment. directions: of the queues that are linked. values: the parameters.
    shovels: their statuses.
    """

    directions: dict[Place, str]
    values: dict[Place, Any]
    shovels: dict[Place, dict[str, Any]]

    @property
    def failing(self) -> set[Place]:
        """The queues whose links do not move messages now."""
        return {place for place, one in self.shovels.items() if one.get("state") == FAILED}


class Look(NamedTuple):
    """What is where. connections: those of programs at the source. delayed: messages that wait in
    exchanges of the broker that is to be emptied. is_estimated: the links are later than the rest.
    """

    queues: list[QueueAtBoth]
    links: MigrationLinks
    connections: list[str]
    delayed: int
    is_estimated: bool = False

    def left(self, *, is_returning: bool) -> int | None:
        """All messages that have to move; None while some number is unknown."""
        counts = [queue.left(is_returning=is_returning) for queue in self.queues]
        known = [count for count in counts if count is not None]
        return None if len(known) < len(counts) else sum(known)

    def with_links(self, links: MigrationLinks, idle: set[Place]) -> "Look":
        """The same with later links. idle: what these queues had to move counts as moved."""
        queues = [
            _moved(queue, links.directions[queue.place]) if queue.place in idle else queue
            for queue in self.queues
        ]
        return self._replace(queues=queues, links=links, is_estimated=True)


def _moved(queue: QueueAtBoth, direction: str) -> QueueAtBoth:
    source, target = queue.source, queue.target
    if target is None:
        return queue
    if queue.is_stream:
        return queue._replace(target=target._replace(messages=source.messages))
    emptied, filled = (source, target) if direction == FORWARD else (target, source)
    if filled.messages is not None:
        filled = filled._replace(messages=filled.messages + (emptied.messages or 0))
    emptied = emptied._replace(messages=0)
    source, target = (emptied, filled) if direction == FORWARD else (filled, emptied)
    return queue._replace(source=source, target=target)


class IdleLinks:
    """Finds the links that have had nothing to move for a while."""

    def __init__(self) -> None:
        self._since: dict[Place, tuple[str, int, float]] = {}

    def found(self, links: MigrationLinks, now_s: float) -> set[Place]:
        """The queues whose links are idle. now_s: of a clock that does not jump."""
        since = {}
        for place, shovel in links.shovels.items():
            if shovel.get("state") != RUNNING:
                continue
            moved = links.directions[place], int(shovel.get("forwarded") or 0)
            before = self._since.get(place)
            since[place] = before if before and before[:2] == moved else (*moved, now_s)
        self._since = since
        return {place for place, (_, _, at_s) in since.items() if now_s - at_s >= IDLE_SECONDS}
