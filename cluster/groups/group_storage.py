"""The storage of a node's groups, on disk or in memory."""

from typing import Protocol

from leveret.storage.group_log.group_log import GroupLog
from leveret.storage.group_log.rounds import Rounds, SnapshotSource


class GroupStorage(Protocol):
    """The entries and snapshots of all groups (group_store.py, memory_groups.py).

    rounds: available after `begin`.
    """

    log: GroupLog
    rounds: Rounds

    def begin(self, source: SnapshotSource) -> None:
        """Begin to write, after the log was read. Raises StoreError."""
