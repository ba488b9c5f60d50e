"""The replication of definitions from an upstream: its setting, its state, and operators' actions.

Any node of the standby's cluster accepts an action, which is a declaration. The following node
reports the result of the sync and the state that an operator may accept; without its answer, the
node that got the request reports the rest.
"""

from typing import Any

from leveret.broker.policies.parameter_validation import ParameterError
from leveret.broker.policies.schema_replication import COMPONENT
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request, conflict
from leveret.mgmt.api.other_nodes import pass_on
from leveret.mgmt.api.routes import NoContent, route
from leveret.mgmt.standby.actions import ActionError, ReplicationActions

SAID = {
    "set": "Asked to follow the definitions of an upstream",
    "clear": "Asked to stop following the upstream, and to forget it",
    "promote": "Asked to promote this standby",
    "enable": "Asked to enable schema replication",
    "disable": "Asked to disable schema replication",
    "restart": "Asked to follow the definitions of the upstream now",
    "accept": "Asked to follow the upstream although it lacks most objects of this cluster",
}
"""The audit log's name of each action."""
ACTIONS = ("promote", "enable", "disable", "restart", "accept")


@route("GET", "/schema-replication")
async def show_schema_replication(call: Call) -> Any:
    """Whether this cluster is a standby, of which upstream, and how far it follows."""
    call.require_monitor()
    node = _following_node(call)
    if node is not None:
        try:
            return await pass_on(call, node)
        except ApiError as error:
            if error.status < 500:
                raise
    follower = call.node.follower
    return {**follower.shown(), "node": follower.chosen_node}


def _following_node(call: Call) -> str | None:
    """The node to pass the request on to; None if this one has to answer."""
    node = call.node.follower.chosen_node
    return None if call.passed is not None or node == call.node.name else node


@route("PUT", "/schema-replication")
async def set_schema_replication(call: Call) -> Any:
    """Follow an upstream from now on: this cluster becomes its standby."""
    call.require_administrator()
    value = await call.body("endpoints", "username", "password")
    if call.request.remote and value.get("local_users") is None:
        # The requester can still log in when this cluster has the upstream's users.
        value["local_users"] = [call.identity.name]
    await _note(call, "set")
    try:
        await ReplicationActions(call.facade, call.requester).set_upstream(value)
    except ParameterError as error:
        raise bad_request(str(error)) from None
    except ActionError as error:
        raise conflict(str(error)) from None
    return NoContent()


@route("DELETE", "/schema-replication")
async def clear_schema_replication(call: Call) -> Any:
    """Stop following an upstream, and forget the setting."""
    call.require_administrator()
    await _note(call, "clear")
    await _act(call, "clear")
    return NoContent()


@route("POST", *(f"/schema-replication/{action}" for action in ACTIONS))
async def act_on_schema_replication(call: Call) -> Any:
    """Promote, enable or disable it, restart it (sync now), or accept what the upstream lacks."""
    call.require_administrator()
    action = call.route.rpartition("/")[2]
    node = _following_node(call) if action == "accept" else None
    if node is not None:
        return await pass_on(call, node)
    await _note(call, action)
    await _act(call, action)
    return NoContent()


async def _note(call: Call, action: str) -> None:
    await call.note(f"schema_replication.{action}", COMPONENT, "", SAID[action])


async def _act(call: Call, action: str) -> None:
    """Take an action. Raises 409."""
    actions = ReplicationActions(call.facade, call.requester)
    try:
        if action == "accept":
            await actions.accept(call.node.follower.held_digest)
        else:
            await getattr(actions, action)()
    except ActionError as error:
        raise conflict(str(error)) from None
