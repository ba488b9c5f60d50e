"""The groups of declared queues and streams, for a repair of a node that is stopped.

A group has one member only if its record and all of its configurations say so: a member that is
being removed or added may have voted for what this node lacks.
"""

from collections.abc import Iterable

from leveret.broker.declarations.values import PutQueue
from leveret.broker.registry.stored import declarations
from leveret.cluster.raft.configuration import ConfigurationError, decode_configuration
from leveret.cluster.raft.outputs import CONFIGURATION
from leveret.cluster.replicated_queues.membership_record import MembersRecord, readable
from leveret.storage.check.declared_groups import GroupEntry
from leveret.storage.metadata.metadata_rows import Definitions


class StoredGroups:
    """The `DeclaredGroups` of stored declarations."""

    def __init__(self, definitions: Definitions) -> None:
        self._records: dict[int, MembersRecord] = {}
        self._names: dict[int, str] = {}
        for it in declarations(definitions):
            if isinstance(it, PutQueue) and it.record:
                self._records[it.identity] = readable(it.record)
                self._names[it.identity] = f"{it.name!r} in vhost {it.vhost!r}"

    def name(self, group: int) -> str:
        """The queue or stream of a group, for operators."""
        return self._names.get(group, f"group {group}, which no declared queue has,")

    def has_one_member(
        self, group: int, configuration: bytes, entries: Iterable[GroupEntry]
    ) -> bool:
        """Whether nothing of the group can be on another node."""
        record = self._records.get(group)
        return (
            record is not None
            and len(record.members) == 1
            and _has_one(configuration)
            and all(_has_one(entry.payload) for entry in entries if entry.kind == CONFIGURATION)
        )


def _has_one(configuration: bytes | None) -> bool:
    if configuration is None:
        return False
    try:
        return len(decode_configuration(configuration).members) == 1
    except ConfigurationError:
        return False
