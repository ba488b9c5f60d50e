"""Runtime parameters: settings that operators change while the node runs, each under a name.

A parameter belongs to a component (`federation-upstream`, `shovel` ...) and to a vhost, or to the
whole node: global parameters have the component `global` and no vhost. Their values are JSON.
Policies and limits are parameters to RabbitMQ's API, too (runtime_parameters.py); they have tables
of their own (policy_table.py, limits.py).
"""

from collections.abc import Iterator
from typing import Any

POLICY, OPERATOR_POLICY = "policy", "operator_policy"
VHOST_LIMITS, USER_LIMITS = "vhost-limits", "user-limits"
VHOST_METADATA = "vhost-metadata"
DEFAULT_QUEUE_TYPE = "default-queue-type"
UNROUTABLE_PUBLISHES = "unroutable-publishes"
"""Names of metadata of a vhost. The second is whether publishers that would not learn of unroutable
messages are refused: one of `UNROUTABLE_HANDLINGS`.
"""
ACCEPT, REFUSE = "accept", "refuse"
UNROUTABLE_HANDLINGS = (ACCEPT, REFUSE)
GLOBAL = "global"
NO_VHOST = ""

CLUSTER_NAME = "cluster_name"
"""The global parameter that names the cluster."""
INTERNAL_CLUSTER_ID = "internal_cluster_id"
"""The global parameter that identifies the cluster; it has RabbitMQ's name and form."""

FEDERATION_UPSTREAM, FEDERATION_UPSTREAM_SET = "federation-upstream", "federation-upstream-set"
FEDERATION = "federation"
"""A component that accepts no name, as in RabbitMQ since 3.0."""
SHOVEL = "shovel"
LINK_COMPONENTS = (FEDERATION_UPSTREAM, FEDERATION_UPSTREAM_SET, SHOVEL)
"""The components of `PUT /api/parameters`; policies and limits have routes of their own. The values
are checked before they are declared (parameter_checks.py); values from an earlier version may be of
any kind.
"""


class Parameters:
    """All parameters but policies and limits."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, str], Any]] = {}

    def get(self, component: str, vhost: str, name: str) -> Any:
        """The value, or None."""
        return self._values.get(component, {}).get((vhost, name))

    def of(self, component: str, vhost: str | None = None) -> Iterator[tuple[str, str, Any]]:
        """Vhost, name and value of a component's parameters, in all vhosts or in one."""
        for (place, name), value in tuple(self._values.get(component, {}).items()):
            if vhost in (None, place):
                yield place, name, value

    def everything(self) -> Iterator[tuple[str, str, str, Any]]:
        """Component, vhost, name and value of all parameters."""
        for component in tuple(self._values):
            for vhost, name, value in self.of(component):
                yield component, vhost, name, value

    def put(self, component: str, vhost: str, name: str, value: Any) -> None:
        """Add or replace a parameter."""
        self._values.setdefault(component, {})[vhost, name] = value

    def remove(self, component: str, vhost: str, name: str) -> bool:
        """Remove a parameter; whether there was one."""
        values = self._values.get(component, {})
        if (vhost, name) not in values:
            return False
        del values[vhost, name]
        return True

    def remove_vhost(self, vhost: str) -> None:
        """Remove the parameters of a vhost."""
        for values in self._values.values():
            for key in [key for key in values if key[0] == vhost]:
                del values[key]
