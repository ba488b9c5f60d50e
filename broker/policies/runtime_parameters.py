"""Runtime parameters as RabbitMQ's API lists them, which include policies and limits."""

from collections.abc import Iterator
from typing import Any

from leveret.broker.declarations.values import Policy
from leveret.broker.policies.limits import VhostAndUserLimits
from leveret.broker.policies.parameters import (
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    USER_LIMITS,
    VHOST_LIMITS,
    Parameters,
)
from leveret.broker.policies.policy_table import PolicyTable

VHOST_LIMITS_NAME = "limits"
"""The name of the one parameter that holds all limits of a vhost."""

Parameter = tuple[str, str, Any]
"""Vhost, name and value."""


def policy_value(policy: Policy) -> dict[str, Any]:
    """A policy as the value of a parameter."""
    value = policy.to_json()
    del value["vhost"], value["name"]
    return value


class RuntimeParameters:
    """The parameters of every component."""

    def __init__(
        self, parameters: Parameters, policies: PolicyTable, limits: VhostAndUserLimits
    ) -> None:
        self._parameters = parameters
        self._policies = policies
        self._limits = limits

    def of(self, component: str, vhost: str | None = None) -> Iterator[Parameter]:
        """The parameters of a component, in all vhosts or in one."""
        for parameter in self._all(component):
            if vhost in (None, parameter[0]):
                yield parameter

    def get(self, component: str, vhost: str, name: str) -> Any:
        """The value, or None."""
        for _, found, value in self.of(component, vhost):
            if found == name:
                return value
        return None

    def _all(self, component: str) -> Iterator[Parameter]:
        if component in (POLICY, OPERATOR_POLICY):
            for policy in self._policies.all(component):
                yield policy.vhost, policy.name, policy_value(policy)
        elif component == VHOST_LIMITS:
            for vhost, limits in self._limits.vhosts():
                yield vhost, VHOST_LIMITS_NAME, limits
        elif component == USER_LIMITS:
            for user, limits in self._limits.users():
                yield NO_VHOST, user, limits
        else:
            yield from self._parameters.of(component)
