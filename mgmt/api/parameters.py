"""Policies, operator policies, limits, runtime parameters and global parameters."""

import html
from typing import Any

from leveret.broker.amqp.json_form import text
from leveret.broker.declarations.values import (
    Declaration,
    DeleteParameter,
    DeletePolicy,
    DeleteVhostLimits,
    Policy,
    PutParameter,
    PutPolicy,
    PutVhostLimits,
)
from leveret.broker.erlang.terms import format_term
from leveret.broker.policies.limits import OF_VHOSTS, LimitError, check_limits
from leveret.broker.policies.parameter_checks import (
    CHECKED_COMPONENTS,
    check_parameter,
    vhosts_of_node,
)
from leveret.broker.policies.parameter_validation import ParameterError
from leveret.broker.policies.parameters import (
    GLOBAL,
    LINK_COMPONENTS,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS,
)
from leveret.broker.policies.policy_keys import PolicyError
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request, not_found
from leveret.mgmt.api.routes import Created, NoContent, route

SHOWN_COMPONENTS = (*LINK_COMPONENTS, VHOST_LIMITS, OPERATOR_POLICY)
KINDS = {"policies": POLICY, "operator-policies": OPERATOR_POLICY}


def _kind(call: Call) -> str:
    return KINDS[call.request.path.split("/api/", 1)[1].split("/")[0]]


def failed_validation(reason: object) -> ApiError:
    """400 with RabbitMQ's text."""
    return bad_request(f"Validation failed\n\n{reason}\n")


def escaped(text: object) -> str:
    """Escaped as HTML, as RabbitMQ does in error texts about policies and parameters."""
    return html.escape(str(text), quote=False)


@route("GET", "/policies", "/policies/{vhost}", "/operator-policies", "/operator-policies/{vhost}")
async def list_policies(call: Call) -> Any:
    """Policies in all vhosts, or in one."""
    kind = _kind(call)
    return [
        policy.to_json()
        for vhost in call.listed_vhosts()
        for policy in call.facade.policies.all(kind, vhost)
    ]


@route("GET", "/policies/{vhost}/{name}", "/operator-policies/{vhost}/{name}")
async def show_policy(call: Call) -> Any:
    """One policy."""
    kind, vhost = _kind(call), call.vhost()
    _require_maker(call, kind, vhost)
    policy = call.facade.policies.get(kind, vhost, call.path("name"))
    if policy is None:
        raise not_found()
    return policy.to_json()


def policy_of(vhost: str, name: str, body: dict[str, Any]) -> Policy:
    """The policy in a body. It is not validated here."""
    apply_to = "all" if body.get("apply-to") is None else str(body["apply-to"])
    priority = 0 if body.get("priority") is None else body["priority"]
    return Policy(vhost, name, body["pattern"], apply_to, body["definition"], priority)


@route("PUT", "/policies/{vhost}/{name}", "/operator-policies/{vhost}/{name}")
async def set_policy(call: Call) -> Any:
    """Add or replace a policy; it takes effect at once."""
    kind = _kind(call)
    vhost = call.vhost()
    _require_maker(call, kind, vhost)
    body = await call.body("pattern", "definition")
    name = call.path("name")
    is_new = call.facade.policies.get(kind, vhost, name) is None
    policy = policy_of(vhost, name, body)
    try:
        await call.declare(PutPolicy(kind, policy, acting_user=call.identity.name))
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
    """Delete a policy."""
    kind = _kind(call)
    vhost = call.vhost()
    _require_maker(call, kind, vhost)
    name = call.path("name")
    if call.facade.policies.get(kind, vhost, name) is None:
        raise not_found()
    await call.declare(DeletePolicy(kind, vhost, name, acting_user=call.identity.name))
    return NoContent()


# Limits


@route("GET", "/vhost-limits")
async def list_vhost_limits(call: Call) -> Any:
    """Vhosts with limits."""
    visible = set(call.visible_vhosts())
    return [
        {"vhost": text(vhost), "value": value}
        for vhost, value in call.facade.limits.vhosts()
        if vhost in visible
    ]


@route("GET", "/vhost-limits/{vhost}")
async def show_vhost_limits(call: Call) -> Any:
    """The limits of one vhost."""
    vhost = call.vhost(visible=True)
    value = call.facade.limits.of_vhost(vhost)
    return [{"vhost": text(vhost), "value": value}] if value else []


@route("PUT", "/vhost-limits/{vhost}/{name}")
async def set_vhost_limit(call: Call) -> Any:
    """Set one limit of a vhost."""
    call.require_administrator()
    vhost = call.vhost()
    body = await call.body("value")
    limits, limit = call.facade.limits, {call.path("name"): body["value"]}
    try:
        changed = limits.with_vhost_limits(vhost, limit, call.identity.name)
    except LimitError as error:
        raise failed_validation(error) from None
    await call.declare(changed)
    return NoContent()


@route("DELETE", "/vhost-limits/{vhost}/{name}")
async def clear_vhost_limit(call: Call) -> Any:
    """Remove one limit of a vhost."""
    call.require_administrator()
    limits, vhost = call.facade.limits, call.vhost()
    await call.declare(limits.without_vhost_limit(vhost, call.path("name"), call.identity.name))
    return NoContent()


@route("GET", "/user-limits")
async def list_user_limits(call: Call) -> Any:
    """Users with limits."""
    return [{"user": text(user), "value": value} for user, value in call.facade.limits.users()]


def _user(call: Call) -> str:
    name = call.path("user")
    if call.facade.users.get(name) is None:
        raise not_found()
    return name


@route("GET", "/user-limits/{user}")
async def show_user_limits(call: Call) -> Any:
    """The limits of one user."""
    user = _user(call)
    value = call.facade.limits.of_user(user)
    return [{"user": text(user), "value": value}] if value else []


@route("PUT", "/user-limits/{user}/{name}")
async def set_user_limit(call: Call) -> Any:
    """Set one limit of a user."""
    call.require_administrator()
    body = await call.body("value")
    services, user = call.facade, call.path("user")
    if services.users.get(user) is None:
        raise bad_request(["no_such_user", user])
    try:
        limit = {call.path("name"): body["value"]}
        changed = services.limits.with_user_limits(user, limit, call.identity.name)
    except LimitError as error:
        raise bad_request(str(error)) from None
    await call.declare(changed)
    return NoContent()


@route("DELETE", "/user-limits/{user}/{name}")
async def clear_user_limit(call: Call) -> Any:
    """Remove one limit of a user."""
    call.require_administrator()
    limits, user = call.facade.limits, _user(call)
    await call.declare(limits.without_user_limit(user, call.path("name"), call.identity.name))
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
    parameters = call.facade.runtime_parameters
    return [
        _parameter_view(vhost, component, name, value)
        for component in components
        for vhost in vhosts
        for _, name, value in parameters.of(component, vhost)
    ]


@route("GET", "/parameters/{component}/{vhost}/{name}")
async def show_parameter(call: Call) -> Any:
    """One parameter."""
    vhost, component, name = call.vhost(), call.path("component"), call.path("name")
    call.require_policymaker(vhost)
    value = call.facade.runtime_parameters.get(component, vhost, name)
    if value is None or component not in SHOWN_COMPONENTS:
        raise not_found()
    return _parameter_view(vhost, component, name, value)


@route("PUT", "/parameters/{component}/{vhost}/{name}")
async def set_parameter(call: Call) -> Any:
    """Add or replace a parameter."""
    vhost, component, name = call.vhost(), call.path("component"), call.path("name")
    call.require_policymaker(vhost)
    body = await call.body("value")
    value = body["value"]
    parameters = call.facade.runtime_parameters
    is_new = parameters.get(component, vhost, name) is None
    if component == VHOST_LIMITS:
        limits = _vhost_limits(call, value)
        await call.declare(PutVhostLimits(vhost, limits, acting_user=call.identity.name))
    elif component in CHECKED_COMPONENTS:
        await _check_link(call, component, name, value)
        await call.declare(
            PutParameter(component, vhost, name, value, acting_user=call.identity.name)
        )
    elif component == POLICY:
        raise bad_request("policies may not be set using this method")
    else:
        raise failed_validation(escaped(f"component {component} not found"))
    return Created(is_new)


async def _check_link(call: Call, component: str, name: str, value: Any) -> None:
    """Check the value of a shovel or upstream, and the user's access to vhosts of the node itself.

    Raises 400.
    """
    refused: dict[str, list[str]] = {}
    for vhost in vhosts_of_node(component, name, value):
        if not call.facade.has_vhost(vhost) or not await call.may_open_any(vhost):
            user = call.identity.name
            refused[vhost] = [f'user "{user}" may not connect to vhost "{vhost}"']
    try:
        check_parameter(component, name, value, lambda vhost: refused.get(vhost, []))
    except ParameterError as error:
        raise failed_validation(escaped(error)) from None


def _vhost_limits(call: Call, value: Any) -> dict[str, int]:
    """The limits of a vhost, which are also a parameter. Raises 400 and 401."""
    call.require_administrator()
    try:
        checked = check_limits(value if isinstance(value, dict) else {}, OF_VHOSTS)
    except LimitError as error:
        raise failed_validation(escaped(error)) from None
    if not isinstance(value, dict):
        raise failed_validation(escaped(f"limits should be an object, was {format_term(value)}"))
    return checked


@route("DELETE", "/parameters/{component}/{vhost}/{name}")
async def clear_parameter(call: Call) -> Any:
    """Delete a parameter."""
    vhost, component, name = call.vhost(), call.path("component"), call.path("name")
    call.require_policymaker(vhost)
    if component in (VHOST_LIMITS, OPERATOR_POLICY):
        call.require_administrator()
    parameters = call.facade.runtime_parameters
    if component not in SHOWN_COMPONENTS or parameters.get(component, vhost, name) is None:
        raise not_found()
    await call.declare(_deletion(component, vhost, name, call.identity.name))
    return NoContent()


def _deletion(component: str, vhost: str, name: str, acting_user: str) -> Declaration:
    if component == VHOST_LIMITS:
        return DeleteVhostLimits(vhost, acting_user=acting_user)
    if component == OPERATOR_POLICY:
        return DeletePolicy(component, vhost, name, acting_user=acting_user)
    return DeleteParameter(component, vhost, name, acting_user=acting_user)


@route("GET", "/global-parameters")
async def list_global_parameters(call: Call) -> Any:
    """All global parameters."""
    call.require_policymaker()
    found = call.facade.parameters.of(GLOBAL)
    return [{"name": text(name), "value": value} for _, name, value in found]


@route("GET", "/global-parameters/{name}")
async def show_global_parameter(call: Call) -> Any:
    """One global parameter."""
    call.require_policymaker()
    name = call.path("name")
    value = call.facade.parameters.get(GLOBAL, NO_VHOST, name)
    if value is None:
        raise not_found()
    return {"name": text(name), "value": value}


@route("PUT", "/global-parameters/{name}")
async def set_global_parameter(call: Call) -> Any:
    """Add or replace a global parameter."""
    call.require_policymaker()
    name = call.path("name")
    body = await call.body("value")
    is_new = call.facade.parameters.get(GLOBAL, NO_VHOST, name) is None
    await call.declare(
        PutParameter(GLOBAL, NO_VHOST, name, body["value"], acting_user=call.identity.name)
    )
    return Created(is_new)


@route("DELETE", "/global-parameters/{name}")
async def clear_global_parameter(call: Call) -> Any:
    """Delete a global parameter."""
    call.require_policymaker()
    name = call.path("name")
    if call.facade.parameters.get(GLOBAL, NO_VHOST, name) is None:
        raise not_found()
    await call.declare(DeleteParameter(GLOBAL, NO_VHOST, name, acting_user=call.identity.name))
    return NoContent()
