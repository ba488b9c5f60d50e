"""Policies, operator policies, limits, runtime parameters and global parameters."""

from typing import Any

from broker.limits import LimitError
from broker.parameters import FREE_COMPONENTS, GLOBAL, NO_VHOST, OPERATOR_POLICY, POLICY
from broker.policies import Policy
from broker.policy_keys import PolicyError
from mgmt.api.call import Call
from mgmt.api.errors import ApiError, bad_request, not_found
from mgmt.api.routes import Created, NoContent, route
from mgmt.views.values import text

KINDS = {"policies": POLICY, "operator-policies": OPERATOR_POLICY}


def _kind(call: Call) -> str:
    return KINDS[call.request.path.split("/api/", 1)[1].split("/")[0]]


def failed_validation(reason: object) -> ApiError:
    """As RabbitMQ says it."""
    escaped = str(reason).replace("<", "&lt;").replace(">", "&gt;")
    return bad_request(f"Validation failed\n\n{escaped}\n")


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
    policy = call.broker.services.policies.get(_kind(call), call.vhost().name, call.path("name"))
    if policy is None:
        raise not_found()
    return policy.to_json()


def policy_of(vhost: str, name: str, body: dict[str, Any], *, is_operator: bool) -> Policy:
    """The policy that a body stands for; whether it makes sense is another matter."""
    apply_to = body.get("apply-to") or ("queues" if is_operator else "all")
    priority = body.get("priority", 0)
    return Policy(
        vhost, name, str(body["pattern"]), str(apply_to), body["definition"],
        0 if priority is None else priority,
    )  # fmt: skip


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
        policies.set(kind, policy_of(vhost, name, body, is_operator=kind == OPERATOR_POLICY))
    except PolicyError as error:
        raise failed_validation(error) from None
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
        raise bad_request(f"Validation failed\n\n{error}\n") from None
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
    call.require_monitor()
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
    call.require_monitor()
    user = _user(call)
    value = call.broker.services.limits.of_user(user)
    return [{"user": text(user), "value": value}] if value else []


@route("PUT", "/user-limits/{user}/{name}")
async def set_user_limit(call: Call) -> Any:
    """Set one limit of a user."""
    call.require_administrator()
    body = await call.body("value")
    try:
        call.broker.services.limits.set_for_user(_user(call), {call.path("name"): body["value"]})
    except LimitError as error:
        raise bad_request(f"Validation failed\n\n{error}\n") from None
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
    info = call.request.match_info
    if "component" in info and call.path("component") not in FREE_COMPONENTS:
        return []
    components = (call.path("component"),) if "component" in info else FREE_COMPONENTS
    parameters = call.broker.services.parameters
    return [
        _parameter_view(vhost.name, component, name, value)
        for component in components
        for vhost in call.listed_vhosts()
        for _, name, value in parameters.of(component, vhost.name)
    ]


@route("GET", "/parameters/{component}/{vhost}/{name}")
async def show_parameter(call: Call) -> Any:
    """One parameter."""
    vhost, component, name = call.vhost().name, call.path("component"), call.path("name")
    call.require_policymaker(vhost)
    value = call.broker.services.parameters.get(component, vhost, name)
    if value is None or component not in FREE_COMPONENTS:
        raise not_found()
    return _parameter_view(vhost, component, name, value)


@route("PUT", "/parameters/{component}/{vhost}/{name}")
async def set_parameter(call: Call) -> Any:
    """Add or replace a parameter."""
    vhost, component, name = call.vhost().name, call.path("component"), call.path("name")
    call.require_policymaker(vhost)
    body = await call.body("value")
    if component not in FREE_COMPONENTS:
        raise failed_validation(f"component {component} not found")
    parameters = call.broker.services.parameters
    is_new = parameters.get(component, vhost, name) is None
    parameters.set(component, vhost, name, body["value"])
    return Created(is_new)


@route("DELETE", "/parameters/{component}/{vhost}/{name}")
async def clear_parameter(call: Call) -> Any:
    """Take a parameter away."""
    vhost, component = call.vhost().name, call.path("component")
    call.require_policymaker(vhost)
    parameters = call.broker.services.parameters
    if component not in FREE_COMPONENTS or not parameters.clear(
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
