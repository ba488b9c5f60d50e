"""Policies, operator policies, limits, runtime parameters and global parameters."""

import html
from typing import Any

from broker.amqp.erlang_terms import format_json
from broker.limits import OF_VHOSTS, LimitError, check_limits
from broker.parameters import (
    FREE_COMPONENTS,
    GLOBAL,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS,
)
from broker.policies import Policy
from broker.policy_keys import PolicyError
from mgmt.api.call import Call
from mgmt.api.errors import ApiError, bad_request, not_found
from mgmt.api.routes import Created, NoContent, route
from mgmt.views.values import text

SHOWN_COMPONENTS = (*FREE_COMPONENTS, VHOST_LIMITS, OPERATOR_POLICY)
KINDS = {"policies": POLICY, "operator-policies": OPERATOR_POLICY}


def _kind(call: Call) -> str:
    return KINDS[call.request.path.split("/api/", 1)[1].split("/")[0]]


def failed_validation(reason: object) -> ApiError:
    """As RabbitMQ says it."""
    return bad_request(f"Validation failed\n\n{reason}\n")


def escaped(text: object) -> str:
    """As HTML, which RabbitMQ makes of what it says of policies and parameters."""
    return html.escape(str(text), quote=False)


@route("GET", "/policies", "/policies/{vhost}", "/operator-policies", "/operator-policies/{vhost}")
async def list_policies(call: Call) -> Any:
    """Policies in all vhosts, or in one."""
    kind = _kind(call)
    return [
        policy.to_json()
        for vhost in call.listed_vhosts()
        for policy in call.broker.services.policies.all(kind, vhost.name)
    ]


@route("GET", "/policies/{vhost}/{name}", "/operator-policies/{vhost}/{name}")
async def show_policy(call: Call) -> Any:
    """One policy."""
    kind, vhost = _kind(call), call.vhost().name
    _require_maker(call, kind, vhost)
    policy = call.broker.services.policies.get(kind, vhost, call.path("name"))
    if policy is None:
        raise not_found()
    return policy.to_json()


def policy_of(vhost: str, name: str, body: dict[str, Any]) -> Policy:
    """The policy that a body stands for; whether it makes sense is another matter."""
    apply_to = "all" if body.get("apply-to") is None else str(body["apply-to"])
    priority = 0 if body.get("priority") is None else body["priority"]
    return Policy(vhost, name, body["pattern"], apply_to, body["definition"], priority)


@route("PUT", "/policies/{vhost}/{name}", "/operator-policies/{vhost}/{name}")
async def set_policy(call: Call) -> Any:
    """Add or replace a policy; it counts at once."""
    kind = _kind(call)
    vhost = call.vhost().name
    _require_maker(call, kind, vhost)
    body = await call.body("pattern", "definition")
    policies = call.broker.services.policies
    name = call.path("name")
    is_new = policies.get(kind, vhost, name) is None
    try:
        policies.set(kind, policy_of(vhost, name, body))
    except PolicyError as error:
        raise failed_validation(error if kind == OPERATOR_POLICY else escaped(error)) from None
    return Created(is_new)


def _require_maker(call: Call, kind: str, vhost: str) -> None:
    if kind == OPERATOR_POLICY:
        call.require_administrator()
    else:
        call.require_policymaker(vhost)


@route("DELETE", "/policies/{vhost}/{name}", "/operator-policies/{vhost}/{name}")
async def clear_policy(call: Call) -> Any:
    """Take a policy away."""
    kind = _kind(call)
    vhost = call.vhost().name
    _require_maker(call, kind, vhost)
    if not call.broker.services.policies.clear(kind, vhost, call.path("name")):
        raise not_found()
    return NoContent()


# Limits


@route("GET", "/vhost-limits")
async def list_vhost_limits(call: Call) -> Any:
    """Vhosts with limits."""
    visible = {vhost.name for vhost in call.visible_vhosts()}
    return [
        {"vhost": text(vhost), "value": value}
        for vhost, value in call.broker.services.limits.vhosts()
        if vhost in visible
    ]


@route("GET", "/vhost-limits/{vhost}")
async def show_vhost_limits(call: Call) -> Any:
    """The limits of one vhost."""
    vhost = call.vhost(visible=True).name
    value = call.broker.services.limits.of_vhost(vhost)
    return [{"vhost": text(vhost), "value": value}] if value else []


@route("PUT", "/vhost-limits/{vhost}/{name}")
async def set_vhost_limit(call: Call) -> Any:
    """Set one limit of a vhost."""
    call.require_administrator()
    vhost = call.vhost().name
    body = await call.body("value")
    try:
        call.broker.services.limits.set_for_vhost(vhost, {call.path("name"): body["value"]})
    except LimitError as error:
        raise failed_validation(error) from None
    return NoContent()


@route("DELETE", "/vhost-limits/{vhost}/{name}")
async def clear_vhost_limit(call: Call) -> Any:
    """Lift one limit of a vhost."""
    call.require_administrator()
    call.broker.services.limits.clear_for_vhost(call.vhost().name, call.path("name"))
    return NoContent()


@route("GET", "/user-limits")
async def list_user_limits(call: Call) -> Any:
    """Users with limits."""
    return [
        {"user": text(user), "value": value} for user, value in call.broker.services.limits.users()
    ]


def _user(call: Call) -> str:
    name = call.path("user")
    if call.broker.services.users.get(name) is None:
        raise not_found()
    return name


@route("GET", "/user-limits/{user}")
async def show_user_limits(call: Call) -> Any:
    """The limits of one user."""
    user = _user(call)
    value = call.broker.services.limits.of_user(user)
    return [{"user": text(user), "value": value}] if value else []


@route("PUT", "/user-limits/{user}/{name}")
async def set_user_limit(call: Call) -> Any:
    """Set one limit of a user."""
    call.require_administrator()
    body = await call.body("value")
    services, user = call.broker.services, call.path("user")
    if services.users.get(user) is None:
        raise bad_request(["no_such_user", user])
    try:
        services.limits.set_for_user(user, {call.path("name"): body["value"]})
    except LimitError as error:
        raise bad_request(str(error)) from None
    return NoContent()


@route("DELETE", "/user-limits/{user}/{name}")
async def clear_user_limit(call: Call) -> Any:
    """Lift one limit of a user."""
    call.require_administrator()
    call.broker.services.limits.clear_for_user(_user(call), call.path("name"))
    return NoContent()


# Parameters


def _parameter_view(vhost: str, component: str, name: str, value: Any) -> dict[str, Any]:
    return {"value": value, "vhost": text(vhost), "component": component, "name": text(name)}


@route("GET", "/parameters", "/parameters/{component}", "/parameters/{component}/{vhost}")
async def list_parameters(call: Call) -> Any:
    """Parameters of all components, or of one, in all vhosts, or in one."""
    call.require_policymaker()
    vhosts = call.listed_vhosts()
    components: tuple[str, ...] = SHOWN_COMPONENTS
    if "component" in call.request.match_info:
        components = tuple(one for one in SHOWN_COMPONENTS if one == call.path("component"))
    parameters = call.broker.services.parameters
    return [
        _parameter_view(vhost.name, component, name, value)
        for component in components
        for vhost in vhosts
        for _, name, value in parameters.of(component, vhost.name)
    ]


@route("GET", "/parameters/{component}/{vhost}/{name}")
async def show_parameter(call: Call) -> Any:
    """One parameter."""
    vhost, component, name = call.vhost().name, call.path("component"), call.path("name")
    call.require_policymaker(vhost)
    value = call.broker.services.parameters.get(component, vhost, name)
    if value is None or component not in SHOWN_COMPONENTS:
        raise not_found()
    return _parameter_view(vhost, component, name, value)


@route("PUT", "/parameters/{component}/{vhost}/{name}")
async def set_parameter(call: Call) -> Any:
    """Add or replace a parameter."""
    vhost, component, name = call.vhost().name, call.path("component"), call.path("name")
    call.require_policymaker(vhost)
    body = await call.body("value")
    services, value = call.broker.services, body["value"]
    is_new = services.parameters.get(component, vhost, name) is None
    if component == VHOST_LIMITS:
        _replace_vhost_limits(call, vhost, value)
    elif component in FREE_COMPONENTS:
        services.parameters.set(component, vhost, name, value)
    elif component == POLICY:
        raise bad_request("policies may not be set using this method")
    else:
        raise failed_validation(escaped(f"component {component} not found"))
    return Created(is_new)


def _replace_vhost_limits(call: Call, vhost: str, value: Any) -> None:
    """A vhost's limits are one parameter, too."""
    limits = call.broker.services.limits
    call.require_administrator()
    try:
        check_limits(value if isinstance(value, dict) else {}, OF_VHOSTS)
    except LimitError as error:
        raise failed_validation(escaped(error)) from None
    if not isinstance(value, dict):
        raise failed_validation(escaped(f"limits should be an object, was {format_json(value)}"))
    limits.clear_for_vhost(vhost)
    limits.set_for_vhost(vhost, value)


@route("DELETE", "/parameters/{component}/{vhost}/{name}")
async def clear_parameter(call: Call) -> Any:
    """Take a parameter away."""
    vhost, component = call.vhost().name, call.path("component")
    call.require_policymaker(vhost)
    parameters = call.broker.services.parameters
    if component in (VHOST_LIMITS, OPERATOR_POLICY):
        call.require_administrator()
    if component not in SHOWN_COMPONENTS or not parameters.clear(
        component, vhost, call.path("name")
    ):
        raise not_found()
    return NoContent()


@route("GET", "/global-parameters")
async def list_global_parameters(call: Call) -> Any:
    """All global parameters."""
    call.require_policymaker()
    found = call.broker.services.parameters.of(GLOBAL)
    return [{"name": text(name), "value": value} for _, name, value in found]


@route("GET", "/global-parameters/{name}")
async def show_global_parameter(call: Call) -> Any:
    """One global parameter."""
    call.require_policymaker()
    name = call.path("name")
    value = call.broker.services.parameters.get(GLOBAL, NO_VHOST, name)
    if value is None:
        raise not_found()
    return {"name": text(name), "value": value}


@route("PUT", "/global-parameters/{name}")
async def set_global_parameter(call: Call) -> Any:
    """Add or replace a global parameter."""
    call.require_policymaker()
    name = call.path("name")
    body = await call.body("value")
    parameters = call.broker.services.parameters
    is_new = parameters.get(GLOBAL, NO_VHOST, name) is None
    parameters.set(GLOBAL, NO_VHOST, name, body["value"])
    return Created(is_new)


@route("DELETE", "/global-parameters/{name}")
async def clear_global_parameter(call: Call) -> Any:
    """Take a global parameter away."""
    call.require_policymaker()
    if not call.broker.services.parameters.clear(GLOBAL, NO_VHOST, call.path("name")):
        raise not_found()
    return NoContent()
