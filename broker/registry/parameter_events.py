"""Events about policies, limits and other runtime parameters.

Source: RabbitMQ's `rabbit_runtime_parameters`, `rabbit_policy`, `rabbit_vhost_limit` and
`rabbit_auth_backend_internal`. acting_user: the user who requested the change.

The values of federation upstreams and shovels contain passwords, and those of global parameters
may: the events omit the values.
"""

from collections.abc import Mapping
from typing import Any

from leveret.broker.declarations import Policy
from leveret.broker.events.events import Events
from leveret.broker.policies.parameters import (
    GLOBAL,
    LINK_COMPONENTS,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS,
)
from leveret.broker.policies.runtime_parameters import VHOST_LIMITS_NAME, policy_value

PUBLIC_COMPONENTS = (GLOBAL, *LINK_COMPONENTS)
"""Components whose parameters have events; the others are internal to the node."""


def parameter_put(events: Events, component: str, vhost: str, name: str, acting_user: str) -> None:
    """A parameter was set."""
    if events.are_wanted and component in PUBLIC_COMPONENTS:
        _parameter(events, "parameter.set", component, vhost, name, acting_user)


def parameter_deleted(
    events: Events, component: str, vhost: str, name: str, acting_user: str
) -> None:
    """A parameter was cleared."""
    if events.are_wanted and component in PUBLIC_COMPONENTS:
        _parameter(events, "parameter.cleared", component, vhost, name, acting_user)


def policy_put(events: Events, component: str, policy: Policy, acting_user: str) -> None:
    """A policy was set. For an operator policy RabbitMQ also emits a parameter event."""
    if not events.are_wanted:
        return
    value = policy_value(policy)
    if component == OPERATOR_POLICY:
        _parameter(
            events, "parameter.set", component, policy.vhost, policy.name, acting_user, value=value
        )
    events.notify("policy.set", {
        "name": policy.name, "vhost": policy.vhost, **value,
        "user_who_performed_action": acting_user,
    })  # fmt: skip


def policy_deleted(events: Events, component: str, vhost: str, name: str, acting_user: str) -> None:
    """A policy was cleared."""
    if not events.are_wanted:
        return
    if component == OPERATOR_POLICY:
        _parameter(events, "parameter.cleared", component, vhost, name, acting_user)
    events.notify("policy.cleared" if component == POLICY else "operator.policy.cleared", {
        "name": name, "vhost": vhost, "user_who_performed_action": acting_user,
    })  # fmt: skip


def vhost_limits_put(
    events: Events, vhost: str, limits: Mapping[str, int], acting_user: str
) -> None:
    """The limits of a vhost were set."""
    if events.are_wanted:
        _parameter(
            events, "parameter.set", VHOST_LIMITS, vhost, VHOST_LIMITS_NAME, acting_user,
            value=dict(limits),
        )  # fmt: skip
        _limits(events, "vhost.limits.set", {"vhost": vhost, **limits}, acting_user)


def vhost_limits_deleted(events: Events, vhost: str, acting_user: str) -> None:
    """The limits of a vhost were cleared."""
    if events.are_wanted:
        _parameter(events, "parameter.cleared", VHOST_LIMITS, vhost, VHOST_LIMITS_NAME, acting_user)
        _limits(events, "vhost.limits.cleared", {"vhost": vhost}, acting_user)


def user_limits_put(events: Events, user: str, limits: Mapping[str, int], acting_user: str) -> None:
    """The limits of a user were set."""
    if events.are_wanted:
        _limits(events, "user.limits.set", {"username": user, **limits}, acting_user)


def user_limits_deleted(events: Events, user: str, acting_user: str) -> None:
    """The limits of a user were cleared."""
    if events.are_wanted:
        _limits(events, "user.limits.cleared", {"username": user}, acting_user)


def _parameter(
    events: Events,
    event: str,
    component: str,
    vhost: str,
    name: str,
    acting_user: str,
    **value: Any,
) -> None:
    where = {} if vhost == NO_VHOST else {"vhost": vhost}
    events.notify(event, {
        **where, "component": component, "name": name, **value,
        "user_who_performed_action": acting_user,
    })  # fmt: skip


def _limits(events: Events, event: str, facts: dict[str, Any], acting_user: str) -> None:
    events.notify(
        event, {"name": VHOST_LIMITS_NAME, **facts, "user_who_performed_action": acting_user}
    )
