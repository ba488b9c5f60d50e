"""A proposal of the next view: the nodes that have agreed, and the entries that each of them lacks.

When all have agreed, the longest log is taken over: first among the members of the proposer's view,
whose logs are parts of each other, then among the other nodes, if their logs extend it. A node
whose log is a part of the result gets the entries that it lacks. A starting node gets a snapshot if
these entries are not kept, or if its log has diverged. Other nodes cannot be taken in: *obsolete*
nodes would not lose answered operations, and restart; *diverged* nodes are another side of a
partition.
"""

from leveret.cluster.metadata.messages import Accept, LogEntry, MetadataPosition, View
from leveret.cluster.metadata.ordered_log import OrderedLog


class Proposal:
    """The proposal of one view. view: the proposed view. source: the proposer's present view."""

    def __init__(self, view: View, source: View, log: OrderedLog) -> None:
        self.view = view
        self._source = source
        self._log = log
        self._missing = set(view.names[1:])
        self.accepts: dict[str, Accept] = {}

    @property
    def is_complete(self) -> bool:
        """Whether all others have agreed."""
        return not self._missing

    def accept(self, name: str, accept: Accept) -> None:
        """Note the agreement of a node."""
        self._missing.discard(name)
        self.accepts[name] = accept

    def tail(self) -> tuple[LogEntry, ...]:
        """The entries that the proposer lacks."""
        tail: tuple[LogEntry, ...] = ()
        mine = [one for one in self.accepts.values() if one.source == self._source.id]
        others = [one for one in self.accepts.values() if one.source != self._source.id]
        for accept in (*mine, *others):
            entries = accept.entries
            if len(entries) > len(tail) and entries[: len(tail)] == tail:
                tail = entries
        return tail

    def obsolete(self, tail: tuple[LogEntry, ...]) -> list[str]:
        """The nodes that have to restart before they can join."""
        return [
            name
            for name, accept in self.accepts.items()
            if not accept.is_starting
            and not self._can_follow(accept, tail)
            and (self._covers(accept.position, tail) or self._log.went_through(accept.source))
        ]

    def diverged(self, tail: tuple[LogEntry, ...]) -> list[str]:
        """The nodes that are on another side of a partition."""
        return [
            name
            for name, accept in self.accepts.items()
            if not accept.is_starting
            and not self._covers(accept.position, tail)
            and not self._log.went_through(accept.source)
        ]

    def lacks(self, name: str) -> tuple[LogEntry, ...] | None:
        """The entries that a member gets; None for a snapshot. The tail must be in the log."""
        position = self.accepts[name].position
        return self._log.after(position.index) if self._log.contains(position) else None

    def _can_follow(self, accept: Accept, tail: tuple[LogEntry, ...]) -> bool:
        index = accept.position.index
        return self._covers(accept.position, tail) and self._log.would_keep(index, len(tail))

    def _covers(self, position: MetadataPosition, tail: tuple[LogEntry, ...]) -> bool:
        """Whether the log with the tail contains the position."""
        if position.index <= self._log.last:
            return self._log.contains(position)
        return any((one.index, one.view) == (position.index, position.view) for one in tail)
