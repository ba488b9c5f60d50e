"""What has to hold in every simulated run: checked at every step, over all nodes.

Each entry of a node's log has a hash of everything up to it, so that two logs are compared by one
number. The letters are those of cluster/metadata/replication.py.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from leveret.cluster.metadata.messages import LogEntry, SubmissionId, View, ViewId, ViewStart
from leveret.cluster.metadata.outputs import DONE, FAILED

State = list[LogEntry]


class Broken(AssertionError):
    """A property does not hold."""


def require(holds: bool, *words: object) -> None:
    """Fail unless it holds."""
    if not holds:
        raise Broken(" ".join(str(word) for word in words))


class Applied:
    """Everything that a node has applied: the entries, and the hash of each prefix."""

    def __init__(self, entries: State = ()) -> None:
        self.entries: State = []
        self.hashes: list[int] = [0]
        self._submissions: set[SubmissionId] = set()
        for entry in entries:
            self.append(entry)

    def append(self, entry: LogEntry) -> None:
        """One more; V3, V6."""
        require(entry.index == len(self.entries) + 1, "V3: applied", entry, "at", len(self.entries))
        require(entry.submission not in self._submissions, "V6: applied twice", entry)
        self._submissions.add(entry.submission)
        self.entries.append(entry)
        self.hashes.append(hash((self.hashes[-1], entry)))

    def hash_at(self, index: int) -> int | None:
        """The hash of what was applied up to an index."""
        return self.hashes[index] if index < len(self.hashes) else None


class HasState(Protocol):
    """What is looked at of a node."""

    incarnation: int
    is_alive: bool
    applied: Applied
    disk: Any


class History:
    """What all nodes have said and done so far."""

    def __init__(self) -> None:
        self._entries: dict[tuple[ViewId, int], int] = {}
        self._bases: dict[ViewId, tuple[int, int]] = {}
        self._later: dict[ViewId, list[tuple[ViewId, int, list[int]]]] = {}
        self._answered: dict[ViewId, tuple[int, int]] = {}
        self.nodes: Mapping[str, HasState] = {}
        self.outcomes: dict[SubmissionId, str] = {}
        self.answered_entries: dict[SubmissionId, int] = {}

    def applied(self, applied: Applied) -> None:
        """A node has applied one more entry; V2."""
        entry = applied.entries[-1]
        known = self._entries.setdefault((entry.view, entry.index), applied.hashes[-1])
        require(known == applied.hashes[-1], "V2: two logs differ at", entry)

    def installed(self, view: View, starts: tuple[ViewStart, ...], applied: Applied) -> None:
        """A node has installed a view; V3, V5."""
        base = (len(applied.entries), applied.hashes[-1])
        known = self._bases.get(view.id)
        require(known is None or known == base, "V3: members begin differently in", view)
        if known is not None:
            return
        self._bases[view.id] = base
        for start in starts:
            later = self._later.setdefault(start.view, [])
            if start.view != view.id:
                later.append((view.id, base[0], applied.hashes))
                if start.view in self._answered:
                    self._require_kept(start.view, view.id, applied.hashes)

    def _require_kept(self, view: ViewId, later: ViewId, hashes: list[int]) -> None:
        index, value = self._answered[view]
        kept = index < len(hashes) and hashes[index] == value
        require(kept, "V5: an operation answered in", view, "at", index, "is not in", later)

    def _require_everywhere(self, view: View, index: int, value: int) -> None:
        """All members of the view have it, disc nodes on disk; V4. Restarted ones may not."""
        for member in view.members:
            node = self.nodes[member.name]
            if node.incarnation != member.incarnation:
                continue
            if node.is_alive:
                require(node.applied.hash_at(index) == value, "V4: not applied on", member.name)
            if member.is_disc:
                kept = node.disk.applied.hash_at(index)
                require(kept == value, "V4: not on the disk of", member.name)

    def answered(
        self, submission: SubmissionId, outcome: str, view: View, applied: Applied
    ) -> int | None:
        """A client is answered; returns the index of its entry."""
        require(submission not in self.outcomes, "answered twice:", submission)
        self.outcomes[submission] = outcome
        if outcome == FAILED:
            return None
        found = [entry for entry in applied.entries if entry.submission == submission]
        require(len(found) == 1, "answered, and not in the log:", submission)
        require(found[0].is_refused == (outcome != DONE), "another outcome than in the log:", found)
        index = found[0].index
        value = applied.hashes[index]
        self._require_everywhere(view, index, value)
        self.answered_entries[submission] = value
        if index > self._answered.get(view.id, (0, 0))[0]:
            self._answered[view.id] = (index, value)
            for later, _, hashes in self._later.get(view.id, ()):
                self._require_kept(view.id, later, hashes)
        return index
