"""Operators' actions on the replication: each is one change of its state, on all nodes at once.

An action reads the state, and its change requires that the state is still the same. If another
change came first, the action reads it again; so of two actions at the same time, the later one is
made after the earlier one, or refused because of it. A promotion is permanent: it ends only when
the setting is deleted.
"""

from collections.abc import Callable
from typing import Any

from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import (
    Declaration,
    DeleteParameter,
    PutParameter,
    RequireParameter,
)
from leveret.broker.policies.parameters import NO_VHOST
from leveret.broker.policies.schema_replication import (
    COMPONENT,
    DISABLED,
    FOLLOWING,
    NO_STATE,
    PROMOTED,
    STATE,
    UPSTREAM,
    ReplicationState,
    parse_upstream,
    state_of,
)
from leveret.broker.registry.objects.parameters import RequirementError
from leveret.broker.runtime.pending_in_task import in_task
from leveret.mgmt.node_facade.facade import NodeFacade
from leveret.storage.metadata.metadata import MetadataError

TRIES = 10
NOT_A_STANDBY = (
    "this cluster follows no upstream: set one first (set_schema_replication_upstream_endpoints)"
)
IS_PROMOTED = (
    "this cluster was promoted already, and follows no upstream: to make it a standby again, "
    "delete the setting (clear_schema_replication) and set the upstream again"
)

Change = Callable[[ReplicationState], ReplicationState]


class ActionError(ValueError):
    """The action is not possible in the present state; the text has the reason and the remedy."""


class ReplicationActions:
    """Actions of one requester."""

    def __init__(self, node: NodeFacade, requester: Requester) -> None:
        self._node = node
        self._requester = requester

    async def set_upstream(self, value: dict[str, Any]) -> None:
        """Follow this upstream from now on. Raises ParameterError and ActionError."""
        parse_upstream(value)
        put = PutParameter(COMPONENT, NO_VHOST, UPSTREAM, value, acting_user=self._requester.user)

        def change(state: ReplicationState) -> ReplicationState:
            _refuse_promoted(state)
            return state.next(DISABLED if state.state == DISABLED else FOLLOWING)

        await self._change(change, put)

    async def clear(self) -> None:
        """Stop following, and forget the upstream. Raises ActionError."""

        def change(state: ReplicationState) -> ReplicationState:
            if state == NO_STATE or not state.state:
                raise ActionError(NOT_A_STANDBY)
            return state.next("")

        it = DeleteParameter(COMPONENT, NO_VHOST, UPSTREAM, acting_user=self._requester.user)
        await self._change(change, it)

    async def promote(self) -> None:
        """Stop following permanently; shovels and federation links begin. Raises ActionError."""
        await self._change(lambda state: _of_a_standby(state).next(PROMOTED))

    async def enable(self) -> None:
        """Follow again. Raises ActionError."""
        await self._change(lambda state: _of_a_standby(state).next(FOLLOWING))

    async def disable(self) -> None:
        """Do not follow until it is enabled; the cluster stays a standby. Raises ActionError."""
        await self._change(lambda state: _of_a_standby(state).next(DISABLED))

    async def restart(self) -> None:
        """Sync now. Raises ActionError."""

        def change(state: ReplicationState) -> ReplicationState:
            return _enabled(state).next(FOLLOWING, state.accepted)

        await self._change(change)

    async def accept(self, digest: str) -> None:
        """Follow the upstream whose objects have this digest, although many objects are deleted.

        Raises ActionError. digest: empty if no sync is held.
        """

        def change(state: ReplicationState) -> ReplicationState:
            _enabled(state)
            if not digest:
                raise ActionError("no sync is held: there is nothing to accept")
            return state.next(FOLLOWING, digest)

        await self._change(change)

    async def _change(self, change: Change, *alongside: Declaration) -> None:
        """Declare the next state, with its other declarations. Raises the errors of `change`."""
        parameters = self._node.parameters
        for tries_left in reversed(range(TRIES)):
            before = parameters.get(COMPONENT, NO_VHOST, STATE)
            after = change(state_of(parameters))
            put = PutParameter(
                COMPONENT, NO_VHOST, STATE, after.to_json(), acting_user=self._requester.user
            )
            require = RequireParameter(COMPONENT, NO_VHOST, STATE, before)
            try:
                answer = self._node.submit(require, *alongside, put, requester=self._requester)
                await in_task(answer)
            except (RequirementError, MetadataError):
                has_changed = parameters.get(COMPONENT, NO_VHOST, STATE) != before
                if not has_changed or not tries_left:
                    raise
            else:
                return


def _of_a_standby(state: ReplicationState) -> ReplicationState:
    _refuse_promoted(state)
    if not state.state:
        raise ActionError(NOT_A_STANDBY)
    return state


def _enabled(state: ReplicationState) -> ReplicationState:
    if _of_a_standby(state).state == DISABLED:
        raise ActionError("the replication is disabled: enable it (enable_schema_replication)")
    return state


def _refuse_promoted(state: ReplicationState) -> None:
    if state.state == PROMOTED:
        raise ActionError(IS_PROMOTED)
