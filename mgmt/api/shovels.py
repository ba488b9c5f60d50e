"""Shovels: the API of RabbitMQ's shovel management plugin.

Each shovel runs on one node of the cluster, so a list is made of all nodes' shovels. A request to
restart one goes to all nodes; the node that runs the shovel restarts it.

Static shovels have no vhost, so only administrators see them, and they cannot be restarted or
deleted one by one, as in RabbitMQ.
"""

from typing import Any

from leveret.broker.amqp.json_form import text
from leveret.broker.declarations.values import DeleteParameter
from leveret.broker.moving.shovels.forwarding import DYNAMIC, STATIC
from leveret.broker.moving.shovels.shovel_events import way_of
from leveret.broker.moving.shovels.shovels import COMPONENT
from leveret.broker.moving.shovels.status import STARTING, TERMINATED, WAITING, ShovelStatus
from leveret.broker.moving.transfers.local_time import local_time
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import not_found
from leveret.mgmt.api.joint_listing import JointListing
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.routes import Answerer, NoContent, route


def _view(status: ShovelStatus, node: str) -> dict[str, Any]:
    progress = status.progress
    view: dict[str, Any] = {
        "node": node,
        "timestamp": local_time(status.since_s),
        "name": text(status.name),
        **({} if status.vhost is None else {"vhost": text(status.vhost)}),
        "type": DYNAMIC if status.vhost is not None else STATIC,
        "state": status.state,
    }
    if status.state == TERMINATED:
        return {**view, "reason": status.reason}
    if status.state in (STARTING, WAITING):
        return view
    return {
        **view,
        **({"reason": status.reason} if status.reason else {}),
        **{name: text(value) for name, value in way_of(status).items()},
        "blocked_status": status.state,
        "forwarded": progress.forwarded,
        "pending": progress.pending,
        "remaining": "unlimited" if progress.remaining is None else progress.remaining,
        "remaining_unacked": (
            "unlimited" if progress.remaining_unacked is None else progress.remaining_unacked
        ),
    }


def _of(call: Call, vhost: str, name: str) -> ShovelStatus | None:
    """A shovel that runs on this node."""
    for status in call.facade.shovels.statuses:
        if (status.vhost, status.name) == (vhost, name):
            return status
    return None


@route("GET", "/shovels", "/shovels/{vhost}")
async def list_shovels(call: Call) -> Any:
    """Shovels in all vhosts, or in one, and what they do."""
    call.require_monitor()
    vhosts: set[str | None] = set(call.listed_vhosts())
    if call.identity.is_administrator and "vhost" not in call.request.match_info:
        vhosts.add(None)
    found = [status for status in call.facade.shovels.statuses if status.vhost in vhosts]
    listing: Listing[ShovelStatus] = Listing(
        lambda status: f"{status.vhost or ''}/{status.name}",
        lambda status: _view(status, call.node.name),
        {"state": lambda status: status.state},
    )
    return await JointListing(listing).answer(call, found)


@route("GET", "/shovels/vhost/{vhost}/{name}", answered_by=Answerer.WHO_HAS_IT)
async def show_shovel(call: Call) -> Any:
    """One shovel, and what it does."""
    call.require_monitor()
    status = _of(call, call.vhost(), call.path("name"))
    if status is None:
        raise not_found()
    return _view(status, call.node.name)


@route("DELETE", "/shovels/vhost/{vhost}/{name}")
async def delete_shovel(call: Call) -> Any:
    """Delete a shovel: its parameter."""
    vhost, name = call.vhost(), call.path("name")
    call.require_policymaker(vhost)
    if call.facade.parameters.get(COMPONENT, vhost, name) is None:
        raise not_found()
    await call.declare(DeleteParameter(COMPONENT, vhost, name, acting_user=call.identity.name))
    return NoContent()


@route("DELETE", "/shovels/vhost/{vhost}/{name}/restart", answered_by=Answerer.WHO_HAS_IT)
async def restart_shovel(call: Call) -> Any:
    """Close the connections of a shovel, and restart it."""
    vhost, name = call.vhost(), call.path("name")
    call.require_policymaker(vhost)
    if not call.facade.shovels.restart(vhost, name):
        raise not_found()
    said = f"Restarting shovel '{name}' in vhost '{vhost}'"
    await call.note("shovel.restarted", COMPONENT, name, said, vhost)
    return NoContent()
