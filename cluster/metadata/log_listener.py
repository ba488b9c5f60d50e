"""What a node does about events of its replicated declarations."""

from collections.abc import Sequence

from leveret.broker.declarations.values import Declaration
from leveret.broker.runtime.pending import Answer, given
from leveret.cluster.metadata.outputs import Discarded


class LogListener:
    """The listener of `ReplicatedDeclarations`. Its methods do nothing, and permit everything."""

    def before_input(self) -> None:
        """An input of the replication is about to be handled."""

    def joined(self) -> None:
        """The node has all declarations. Called once."""

    def members_changed(self) -> None:
        """The nodes of the cluster have changed."""

    def view_changed(self) -> None:
        """The node is in another view."""

    def check_removal(self, name: str, running: frozenset[str]) -> None:
        """Check the removal of a node, which this node orders. Raises Refused if it must stay.

        running: the nodes that run or are about to.
        """

    def replacing(self, lost: Sequence[Declaration], discarded: Discarded | None) -> Answer[None]:
        """A snapshot is about to replace declarations that only this node has: once this is given.

        discarded: the log entries that only it has; None if there are none (RD5).
        """
        return given(None)

    def partitioned(self, names: tuple[str, ...]) -> None:
        """The history of these nodes differs; of none from now on, if there are none."""

    def gives_way(self, takes_from: tuple[str, ...]) -> None:
        """The node has to take everything from one of these nodes after a restart."""

    def pauses(self, members: tuple[str, ...]) -> None:
        """The rule for partitions makes the node stop. members: those that it can reach."""

    def entry_failed(self, error: Exception) -> None:
        """An ordered entry cannot be applied: the node must not go on."""
