"""The registry: all declared objects of a node in memory, and the one function that changes them.

`apply` applies a declaration to memory. It is the same for declarations from clients, from disk
after a restart and from other nodes, and it writes nothing: the declaration log
(declaration_log.py) decides when and where a declaration is written, and then calls `apply`.

R1. The state after `apply` depends only on the state before it and on the declaration: not on the
    caller, nor on the order in which parts of the broker were constructed.
R2. `apply` never refuses. `check` finds errors in a declaration before it is written. A declaration
    that has become impossible since then (a binding whose queue was deleted) is skipped.
R3. The steps are explicit and in this order: the objects change, then their dependents (routes,
    policies of queues and exchanges, connections), then the event is emitted. Clients whose
    consumers lose their queue are told later, by the declaration log (`take_cancelled`).
R4. A deletion may take several turns of the event loop (`applying`). What is deleted is gone for
    everybody from the first of them on, and nothing else is applied before the last.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import singledispatchmethod
from typing import Protocol

from leveret.broker.auth.permissions import PermissionTable, check_patterns
from leveret.broker.auth.users import UserDirectory
from leveret.broker.declarations import (
    Declaration,
    DeleteExchange,
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteTopicPermission,
    DeleteUser,
    DeleteUserLimits,
    DeleteVhost,
    DeleteVhostLimits,
    Permission,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutQueueHome,
    PutQueueMirrors,
    PutTopicPermission,
    PutUser,
    PutUserLimits,
    PutVhost,
    PutVhostLimits,
    RequireParameter,
)
from leveret.broker.events.events import Events
from leveret.broker.long_work import finish
from leveret.broker.names import EXCHANGE, NODE_ITSELF, QUEUE
from leveret.broker.policies.limits import Limits
from leveret.broker.policies.parameters import OPERATOR_POLICY, Parameters
from leveret.broker.policies.policy_table import PolicyTable, check_policy
from leveret.broker.policies.runtime_parameters import RuntimeParameters
from leveret.broker.queues.queue_client import Consumer
from leveret.broker.registry import access_events, object_events, parameter_events
from leveret.broker.registry.mirroring import with_mirrors_changed
from leveret.broker.registry.policing import Policing
from leveret.broker.registry.topology import InVhost, Removal, Topology
from leveret.broker.vhost import VirtualHost

logger = logging.getLogger("leveret.registry")


class RequirementError(ValueError):
    """A parameter has not the value that `RequireParameter` names, so nothing is declared."""


class Dependents(Protocol):
    """Closes the connections and traces of a deleted vhost or user, and follows parameters."""

    def close_connections_to(self, vhost: VirtualHost) -> None:
        """A vhost is deleted: close the connections to it."""

    def close_connections_of(self, user: str) -> None:
        """A user is deleted: close its connections."""

    def end_traces_of(self, vhost: VirtualHost) -> None:
        """A vhost is deleted: end its traces."""

    def parameter_changed(self, component: str, vhost: str, name: str) -> None:
        """A parameter was put or deleted."""

    def resource_changed(self, kind: str, vhost: str, name: str) -> None:
        """An exchange or a queue was deleted, or a queue has another home."""


class Registry:
    """The declared objects of one node.

    make_vhost: creates the object of a vhost, by name. call_soon: the event loop's.
    """

    def __init__(
        self,
        events: Events,
        make_vhost: Callable[[str], VirtualHost],
        dependents: Dependents,
        call_soon: Callable[[Callable[[], object]], object],
    ) -> None:
        self.vhosts: dict[str, VirtualHost] = {}
        self.users = UserDirectory()
        self.permissions = PermissionTable()
        self.parameters = Parameters()
        self.limits = Limits()
        self.policies = PolicyTable()
        self.policing = Policing(self.policies, self.vhosts, call_soon)
        self.runtime_parameters = RuntimeParameters(self.parameters, self.policies, self.limits)
        self.topology = Topology(self.vhosts)
        self._events = events
        self._make_vhost = make_vhost
        self._dependents = dependents

    def check(self, declaration: Declaration) -> None:
        """Check that a declaration is valid.

        Raises re.error for the pattern of a permission, PolicyError for a policy, RequirementError
        for a parameter, and a fault for an exchange or binding.
        """
        self.topology.check(declaration)
        match declaration:
            case PutPermission() | PutTopicPermission():
                check_patterns(declaration.permission)
            case PutPolicy():
                check_policy(declaration.policy, declaration.component == OPERATOR_POLICY)
            case RequireParameter():
                self._check_requirement(declaration)

    def _check_requirement(self, it: RequireParameter) -> None:
        if self.parameters.get(it.component, it.vhost, it.name) != it.value:
            raise RequirementError(
                f"nothing was declared, as it depends on an earlier value of parameter '{it.name}' "
                f"of component '{it.component}'"
            )

    def is_durable(self, declaration: Declaration) -> bool:
        """Whether a declaration must be written to survive a restart."""
        return not isinstance(declaration, InVhost) or self.topology.is_durable(declaration)

    def complete(self, declarations: Sequence[Declaration]) -> list[Declaration]:
        """`completing` in one turn of the event loop."""
        return finish(self.completing(declarations))

    def completing(
        self, declarations: Sequence[Declaration]
    ) -> Generator[int, None, list[Declaration]]:
        """Find the declarations to write and apply for those that are submitted together.

        Removes those of existing queues and exchanges, and requirements, which `check` has found
        to be met. Makes changes of queues' mirrors. Adds
        deletions of auto-delete exchanges that lose their last binding; these come first, as their
        events do in RabbitMQ. Yields the work of each step. Raises ValueError for a change of
        mirrors that is not possible.
        """
        changing = [one for one in declarations if not isinstance(one, RequireParameter)]
        new = with_mirrors_changed(self.vhosts, self.topology.without_known(changing))
        removals = [one for one in new if isinstance(one, Removal)]
        consequences = yield from self.topology.finding_consequences(removals)
        return [*consequences, *new]

    def apply(self, declaration: Declaration) -> None:
        """Apply a declaration to memory."""
        for _ in self.applying(declaration):
            pass

    @singledispatchmethod
    def applying(self, declaration: Declaration) -> Iterator[int]:
        """Apply a declaration to memory, in steps if it deletes what may have very many bindings.

        After the first step it is gone for everybody. Yields the work of each step.
        """
        self._apply_at_once(declaration)
        return iter(())

    @applying.register
    def _deleting_queue(self, it: DeleteQueue) -> Iterator[int]:
        yield from self.topology.deleting_queue(it)
        self._dependents.resource_changed(QUEUE, it.vhost, it.name)

    @applying.register
    def _deleting_exchange(self, it: DeleteExchange) -> Iterator[int]:
        yield from self.topology.deleting_exchange(it)
        self._dependents.resource_changed(EXCHANGE, it.vhost, it.name)

    @singledispatchmethod
    def _apply_at_once(self, declaration: Declaration) -> None:
        """Apply a declaration that needs no steps.

        The methods below are registered by the type of their argument; exchanges, queues and
        bindings are the topology's.
        """
        self.topology.apply(declaration)

    @_apply_at_once.register
    def _move_queue(self, it: PutQueueHome | PutQueueMirrors) -> None:
        self.topology.apply(it)
        self._dependents.resource_changed(QUEUE, it.vhost, it.name)

    def take_cancelled(self) -> list[Consumer]:
        """The consumers of queues that were deleted since the last call, for `tell_cancelled`."""
        cancelled, self.topology.cancelled = self.topology.cancelled, []
        return cancelled

    # Virtual hosts

    def new_vhost(
        self, name: str, description: str = "", tags: str = "", acting_user: str = NODE_ITSELF
    ) -> list[Declaration]:
        """The declarations of a new vhost, with full permissions for the user who creates it."""
        made: list[Declaration] = [PutVhost(name, description, tags, acting_user=acting_user)]
        if self.users.get(acting_user) is not None:
            everything = Permission(name, acting_user, ".*", ".*", ".*")
            made.append(PutPermission(everything, acting_user=acting_user))
        return made

    @_apply_at_once.register
    def _put_vhost(self, it: PutVhost) -> None:
        vhost = self.vhosts.get(it.name)
        emit = object_events.vhost_updated
        if vhost is None:
            vhost = self.vhosts[it.name] = self._make_vhost(it.name)
            emit = object_events.vhost_created
        vhost.description, vhost.tags = it.description, it.tags
        emit(vhost, it.acting_user)

    @applying.register
    def _deleting_vhost(self, it: DeleteVhost) -> Iterator[int]:
        # Operators may set policies and permissions before the vhost exists.
        users, topic_users = self.permissions.remove_vhost(it.name)
        self.parameters.remove_vhost(it.name)
        self.limits.remove_vhost(it.name)
        self.policies.remove_vhost(it.name)
        self._permissions_changed()
        vhost = self.vhosts.pop(it.name, None)
        if vhost is not None:
            vhost.is_deleted = True
            self._dependents.close_connections_to(vhost)
        for user in users:
            access_events.permission_deleted(self._events, it.name, user, it.acting_user)
        for user in topic_users:
            access_events.topic_permission_deleted(self._events, it.name, user, it.acting_user)
        if vhost is not None:
            yield from self.topology.emptying(vhost, it.acting_user)
            self._dependents.end_traces_of(vhost)
            object_events.vhost_deleted(vhost, it.acting_user)

    # Users and permissions

    @_apply_at_once.register
    def _put_user(self, it: PutUser) -> None:
        before = self.users.put(it.user)
        access_events.user_put(self._events, before, it.user, it.acting_user)

    @_apply_at_once.register
    def _delete_user(self, it: DeleteUser) -> None:
        was_there = self.users.remove(it.name)
        self.permissions.remove_user(it.name)
        had_limits = self.limits.remove_user(it.name)
        self._permissions_changed()
        self._dependents.close_connections_of(it.name)
        if was_there:
            access_events.user_deleted(self._events, it.name, it.acting_user)
        if had_limits:
            parameter_events.user_limits_deleted(self._events, it.name, it.acting_user)

    @_apply_at_once.register
    def _put_permission(self, it: PutPermission) -> None:
        self.permissions.put(it.permission)
        self._permissions_changed()
        access_events.permission_put(self._events, it.permission, it.acting_user)

    @_apply_at_once.register
    def _delete_permission(self, it: DeletePermission) -> None:
        if self.permissions.remove(it.vhost, it.user):
            self._permissions_changed()
            access_events.permission_deleted(self._events, it.vhost, it.user, it.acting_user)

    @_apply_at_once.register
    def _put_topic_permission(self, it: PutTopicPermission) -> None:
        self.permissions.put_topic(it.permission)
        self._permissions_changed()
        access_events.topic_permission_put(self._events, it.permission, it.acting_user)

    @_apply_at_once.register
    def _delete_topic_permission(self, it: DeleteTopicPermission) -> None:
        if self.permissions.remove_topic(it.vhost, it.user, it.exchange):
            self._permissions_changed()
            access_events.topic_permission_deleted(self._events, it.vhost, it.user, it.acting_user)

    def _permissions_changed(self) -> None:
        """Invalidate the cached publish targets: they may no longer be permitted."""
        for vhost in self.vhosts.values():
            vhost.routes_changed()

    # Policies, limits and parameters

    @_apply_at_once.register
    def _put_policy(self, it: PutPolicy) -> None:
        self.policies.put(it.component, it.policy)
        self.policing.policies_changed(it.policy.vhost)
        parameter_events.policy_put(self._events, it.component, it.policy, it.acting_user)

    @_apply_at_once.register
    def _delete_policy(self, it: DeletePolicy) -> None:
        if self.policies.remove(it.component, it.vhost, it.name):
            self.policing.policies_changed(it.vhost)
            parameter_events.policy_deleted(
                self._events, it.component, it.vhost, it.name, it.acting_user
            )

    @_apply_at_once.register
    def _put_vhost_limits(self, it: PutVhostLimits) -> None:
        self.limits.put_vhost(it.vhost, it.limits)
        parameter_events.vhost_limits_put(self._events, it.vhost, it.limits, it.acting_user)

    @_apply_at_once.register
    def _delete_vhost_limits(self, it: DeleteVhostLimits) -> None:
        if self.limits.remove_vhost(it.vhost):
            parameter_events.vhost_limits_deleted(self._events, it.vhost, it.acting_user)

    @_apply_at_once.register
    def _put_user_limits(self, it: PutUserLimits) -> None:
        self.limits.put_user(it.user, it.limits)
        parameter_events.user_limits_put(self._events, it.user, it.limits, it.acting_user)

    @_apply_at_once.register
    def _delete_user_limits(self, it: DeleteUserLimits) -> None:
        if self.limits.remove_user(it.user):
            parameter_events.user_limits_deleted(self._events, it.user, it.acting_user)

    @_apply_at_once.register
    def _put_parameter(self, it: PutParameter) -> None:
        self.parameters.put(it.component, it.vhost, it.name, it.value)
        self._dependents.parameter_changed(it.component, it.vhost, it.name)
        parameter_events.parameter_put(
            self._events, it.component, it.vhost, it.name, it.acting_user
        )

    @_apply_at_once.register
    def _delete_parameter(self, it: DeleteParameter) -> None:
        if self.parameters.remove(it.component, it.vhost, it.name):
            self._dependents.parameter_changed(it.component, it.vhost, it.name)
            parameter_events.parameter_deleted(
                self._events, it.component, it.vhost, it.name, it.acting_user
            )
