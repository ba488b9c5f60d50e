"""What is told of alarms, policies, limits and other runtime parameters.

All of them can be listened to already (broker/alarms.py, broker/parameters.py); here what is heard
there becomes events. Facts: RabbitMQ's `rabbit_runtime_parameters`, `rabbit_policy`,
`rabbit_vhost_limit`, `rabbit_auth_backend_internal` and `rabbit_alarm`.

The values of federation upstreams and shovels have passwords in them, and those of global
parameters may have: they are not told, only that they were set.
"""

from functools import partial
from typing import Any

from broker.alarms import Alarms
from broker.events import Events, acting_user
from broker.parameters import (
    FREE_COMPONENTS,
    GLOBAL,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    USER_LIMITS,
    VHOST_LIMITS,
    Parameters,
)

COMPONENTS = (POLICY, OPERATOR_POLICY, VHOST_LIMITS, USER_LIMITS, GLOBAL, *FREE_COMPONENTS)
OPEN_COMPONENTS = (OPERATOR_POLICY, VHOST_LIMITS)
"""Parameters with values that cannot hold a secret."""
NOT_PARAMETERS = (POLICY, USER_LIMITS)
"""What is kept as parameters, and is none to RabbitMQ's listeners."""
LIMITS_NAME = "limits"


class NodeEvents:
    """Tells of a node's parameters and alarms."""

    def __init__(self, events: Events, parameters: Parameters, alarms: Alarms) -> None:
        self._events = events
        self._parameters = parameters
        self._alarms = alarms
        self._sources: set[str] = set()
        alarms.listen(self._alarms_changed)
        for component in COMPONENTS:
            parameters.listen(component, partial(self._parameter_changed, component))

    def _alarms_changed(self) -> None:
        sources = set(self._alarms.sources)
        came, went = sources - self._sources, self._sources - sources
        self._sources = sources
        if self._events.are_wanted:
            for name, changed in (("alarm.set", came), ("alarm.cleared", went)):
                for source in sorted(changed):
                    self._events.tell(name, {"source": source, "node": self._events.node})

    def _parameter_changed(self, component: str, vhost: str, name: str) -> None:
        if not self._events.are_wanted:
            return
        value = self._parameters.get(component, vhost, name)
        if component not in NOT_PARAMETERS:
            self._tell_parameter(component, vhost, name, value)
        if component == USER_LIMITS:
            self._tell_limits("user.limits", {"username": name}, value)
        elif component == VHOST_LIMITS:
            self._tell_limits("vhost.limits", {"vhost": vhost}, value)
        elif component in (POLICY, OPERATOR_POLICY):
            self._tell_policy(component, vhost, name, value)

    def _tell_parameter(self, component: str, vhost: str, name: str, value: Any) -> None:
        facts: dict[str, Any] = {} if vhost == NO_VHOST else {"vhost": vhost}
        facts |= {"component": component, "name": name}
        if value is not None and component in OPEN_COMPONENTS:
            facts["value"] = value
        self._tell("parameter.cleared" if value is None else "parameter.set", facts)

    def _tell_limits(self, kind: str, whose: dict[str, str], limits: Any) -> None:
        name = f"{kind}.cleared" if limits is None else f"{kind}.set"
        self._tell(name, {"name": LIMITS_NAME, **whose, **(limits or {})})

    def _tell_policy(self, component: str, vhost: str, name: str, value: Any) -> None:
        """An operator policy that is cleared has an event of its own, and one that is set none."""
        facts = {"name": name, "vhost": vhost, **(value or {})}
        if value is not None:
            self._tell("policy.set", facts)
        else:
            self._tell(
                "policy.cleared" if component == POLICY else "operator.policy.cleared", facts
            )

    def _tell(self, name: str, facts: dict[str, Any]) -> None:
        self._events.tell(name, {**facts, "user_who_performed_action": acting_user.get()})
