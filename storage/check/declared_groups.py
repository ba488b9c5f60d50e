"""What a repair asks the declarations about the groups of quorum queues and of streams."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class GroupEntry(NamedTuple):
    """An entry of a group that has no messages. payload: None if it is damaged."""

    kind: int
    payload: bytes | None


class DeclaredGroups(Protocol):
    """The groups of declared queues and streams."""

    def name(self, group: int) -> str:
        """The queue or stream of a group, for operators."""

    def has_one_member(
        self, group: int, configuration: bytes, entries: Iterable[GroupEntry]
    ) -> bool:
        """Whether nothing of the group can be on another node.

        configuration: that of the snapshot. entries: all without messages that follow.
        """


class UnknownGroups:
    """Stands for declarations that cannot be read: any group may have members on other nodes."""

    def name(self, group: int) -> str:
        """Its number."""
        return f"group {group}"

    def has_one_member(
        self, group: int, configuration: bytes, entries: Iterable[GroupEntry]
    ) -> bool:
        """It is not known."""
        return False
