"""Runtime parameters: settings that operators change while the node runs, each under a name.

A parameter belongs to a component (`policy`, `vhost-limits`, `federation-upstream` ...) and to a
vhost, or to the whole node: global parameters have the component `global` and no vhost. Their
values are what JSON can say. Whoever acts on a component asks to be told of its changes.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from storage.metadata import Metadata
from storage.metadata_rows import ParameterRow

POLICY, OPERATOR_POLICY = "policy", "operator_policy"
VHOST_LIMITS, USER_LIMITS = "vhost-limits", "user-limits"
VHOST_METADATA = "vhost-metadata"
GLOBAL = "global"
NO_VHOST = ""

CLUSTER_NAME = "cluster_name"
"""The global parameter that names the cluster."""

FREE_COMPONENTS = ("federation-upstream", "federation-upstream-set", "shovel")
"""What `PUT /api/parameters` takes; policies and limits have routes of their own."""

Listener = Callable[[str, str], object]
"""Called with the vhost and the name of what changed."""


class Parameters:
    """All parameters, in memory; a change is written to the metadata first."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._values: dict[str, dict[tuple[str, str], Any]] = {}
        self._listeners: dict[str, list[Listener]] = {}

    def restore(self, rows: Iterable[ParameterRow]) -> None:
        """Bring back what the metadata holds."""
        for row in rows:
            values = self._values.setdefault(row.component, {})
            values[row.vhost, row.name] = json.loads(row.value)

    def listen(self, component: str, listener: Listener) -> None:
        """Be told of every change to the component's parameters."""
        self._listeners.setdefault(component, []).append(listener)

    def get(self, component: str, vhost: str, name: str) -> Any:
        """The value, or None."""
        return self._values.get(component, {}).get((vhost, name))

    def of(self, component: str, vhost: str | None = None) -> Iterator[tuple[str, str, Any]]:
        """Vhost, name and value of a component's parameters, in all vhosts or in one."""
        for (place, name), value in tuple(self._values.get(component, {}).items()):
            if vhost in (None, place):
                yield place, name, value

    def set(self, component: str, vhost: str, name: str, value: Any) -> None:
        """Add or replace a parameter. What it may be, its component has checked."""
        self._metadata.put_parameter(ParameterRow(vhost, component, name, json.dumps(value)))
        self._values.setdefault(component, {})[vhost, name] = value
        self._changed(component, vhost, name)

    def clear(self, component: str, vhost: str, name: str) -> bool:
        """Take a parameter away; whether there was one."""
        values = self._values.get(component, {})
        if (vhost, name) not in values:
            return False
        self._metadata.delete_parameter(vhost, component, name)
        del values[vhost, name]
        self._changed(component, vhost, name)
        return True

    def forget_vhost(self, vhost: str) -> None:
        """The vhost is deleted, and the metadata has dropped its parameters with it."""
        for values in self._values.values():
            for key in [key for key in values if key[0] == vhost]:
                del values[key]

    def _changed(self, component: str, vhost: str, name: str) -> None:
        for listener in self._listeners.get(component, ()):
            listener(vhost, name)
