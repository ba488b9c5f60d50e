"""The view that a node is in, for what is planned there: a `planned_changes.View`."""

from collections.abc import Callable

from leveret.cluster.gm.group import Member
from leveret.cluster.metadata.replicated_declarations import ReplicatedDeclarations
from leveret.cluster.mirrors.planning import RunningNodes
from leveret.cluster.node_states import NodeStates


class RunningView:
    """log, states: of this node. A node that is in no view yet sees nobody, not even itself."""

    def __init__(self, log: ReplicatedDeclarations, states: NodeStates, node: str) -> None:
        self._log = log
        self._states = states
        self._node = node

    @property
    def nodes(self) -> RunningNodes:
        """See `View`."""
        view, maintained = self._log.view, self._states.under_maintenance
        if self._states.is_under_maintenance:
            maintained |= {self._node}
        return RunningNodes(frozenset(() if view is None else view.names), maintained)

    @property
    def is_coordinator(self) -> bool:
        """See `View`."""
        return self._log.is_coordinator

    def incarnation(self, node: str) -> int:
        """See `View`."""
        view = self._log.view
        assert view is not None, "a node that is in no view asks for nothing"
        return next(one.incarnation for one in view.members if one.name == node)

    def when_stable(self, callback: Callable[[], object]) -> None:
        """See `View`."""
        self._log.when_stable(callback)

    def lives(self, member: Member) -> bool:
        """See `View`."""
        view = self._log.view
        return view is not None and any(
            one.name == member.node and one.incarnation == member.incarnation
            for one in view.members
        )
