"""The tables of the declared objects of one node, and the listeners to their changes."""

from collections.abc import Callable
from typing import Protocol

from leveret.broker.auth.permissions import PermissionTable
from leveret.broker.auth.users import UserDirectory
from leveret.broker.events.events import Events
from leveret.broker.policies.limits import VhostAndUserLimits
from leveret.broker.policies.parameters import Parameters
from leveret.broker.policies.policy_table import PolicyTable
from leveret.broker.policies.runtime_parameters import RuntimeParameters
from leveret.broker.queues.contract.queue_client import Consumer
from leveret.broker.registry.exclusive_owners import ExclusiveOwners
from leveret.broker.registry.policing import Policing
from leveret.broker.vhost.virtual_host import VirtualHost


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


class Tables:
    """The declared objects of one node.

    cancelled: consumers of deleted queues, whose clients are not notified yet. make_vhost: creates
    the object of a vhost, by name. call_soon: the event loop's.
    """

    def __init__(
        self,
        events: Events,
        make_vhost: Callable[[str], VirtualHost],
        dependents: Dependents,
        call_soon: Callable[[Callable[[], object]], object],
    ) -> None:
        self.events = events
        self.make_vhost = make_vhost
        self.dependents = dependents
        self.vhosts: dict[str, VirtualHost] = {}
        self.users = UserDirectory()
        self.permissions = PermissionTable()
        self.parameters = Parameters()
        self.limits = VhostAndUserLimits()
        self.policies = PolicyTable()
        self.policing = Policing(self.policies, self.vhosts, call_soon)
        self.runtime_parameters = RuntimeParameters(self.parameters, self.policies, self.limits)
        self.exclusive_owners = ExclusiveOwners()
        self.cancelled: list[Consumer] = []

    def permissions_changed(self) -> None:
        """Invalidate the cached publish targets: they may no longer be permitted."""
        for vhost in self.vhosts.values():
            vhost.routes_changed()
