"""Drops publish targets that have to be looked up again, so that deleted queues are freed.

A long-lived connection that publishes to short-lived queues has targets (targets.py) that refer to
deleted queues and exchanges, until it has published to enough other ones. A search at each deletion
would take as long as there are targets. So the search runs after `DELETED_MAX` deletions, or after
an eighth as many as there are targets.
"""

from collections.abc import Collection, Iterator
from typing import Final, Protocol

from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.turns import Turns
from leveret.broker.sessions.targets import Targets

DELETED_MAX: Final = 256
"""Deleted queues that may be kept; each takes 3 to 15 KB."""
TARGETS_OF_A_DELETION: Final = 8
CONNECTION_WORK: Final = 4
"""The work of checking a connection; a target takes 1, in the units of broker/runtime/turns.py."""


class PublishingConnection(Protocol):
    """A connection, and the targets that its sessions publish to."""

    targets: Targets

    @property
    def generation(self) -> int | None:
        """The generation of its vhost; None before it has one."""


class OutdatedTargets:
    """Drops the outdated targets of a node. connections: all connections of the node."""

    def __init__(self, turns: Turns, connections: Collection[PublishingConnection]) -> None:
        self._turns = turns
        self._connections = connections
        self._deleted = 0
        self._deleted_max = DELETED_MAX
        self._is_looking = False

    def note_deletion(self) -> None:
        """A queue or an exchange was deleted."""
        self._deleted += 1
        if self._deleted >= self._deleted_max and not self._is_looking:
            self._deleted = 0
            self._is_looking = True
            LongWork(self._turns, "dropping outdated publish targets", self._dropping()).start()

    def _dropping(self) -> Iterator[int]:
        targets = 0
        for connection in tuple(self._connections):
            generation = connection.generation
            if generation is not None:
                count = connection.targets.count
                connection.targets.drop_outdated(generation)
                targets += count
                yield CONNECTION_WORK + count
        self._deleted_max = max(DELETED_MAX, targets // TARGETS_OF_A_DELETION)
        self._is_looking = False
