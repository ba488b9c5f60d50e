"""Federation links: the API of RabbitMQ's federation management plugin.

Each link runs on one node of the cluster, so a list is made of all nodes' links. The node of a link
is in the path of its restart. A user that may set policies in a vhost may restart its links, as in
newer versions of RabbitMQ; in older ones every monitor may.
"""

from typing import Any

from leveret.broker.amqp.json_form import text
from leveret.broker.moving.federation.link_events import facts_of
from leveret.broker.moving.federation.status import RUNNING, STARTING, LinkStatus
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import not_found
from leveret.mgmt.api.joint_listing import JointListing
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.overview import require_this_node
from leveret.mgmt.api.routes import Answerer, NoContent, route
from leveret.mgmt.api.windows import window
from leveret.mgmt.node_facade.clients import OpenChannel
from leveret.mgmt.views.channels import channel_view

Publishing = dict[str, OpenChannel]
"""The channels of links to this node, by the names of their connections, which have one each."""


def _publishing(call: Call, links: list[LinkStatus]) -> Publishing:
    names = {link.local_connection for link in links}
    found = {}
    for connection in call.facade.connections():
        channels = connection.channels() if connection.name in names else []
        if len(channels) == 1:
            found[connection.name] = channels[0]
    return found


def _listing(call: Call, links: list[LinkStatus]) -> JointListing[LinkStatus]:
    message_window = window(call, "msg_rates")
    publishing = _publishing(call, links)

    def view(status: LinkStatus) -> dict[str, Any]:
        facts = {name: text(value) for name, value in facts_of(status).items()}
        shown: dict[str, Any] = {"node": call.node.name, **facts}
        if status.local_connection in publishing:
            local = publishing[status.local_connection]
            shown["local_channel"] = channel_view(local, call.node.sampler, message_window)
        return shown

    listing: Listing[LinkStatus] = Listing(
        lambda status: status.name,
        view,
        {"vhost": lambda status: status.vhost, "status": lambda status: status.state},
        lambda one: (one.vhost, one.kind, one.name, one.upstream, one.upstream_name),
    )
    return JointListing(listing)


async def _answer(call: Call, *, only_down: bool) -> Any:
    """The links in all vhosts of the user, or in the one of the path."""
    call.require_monitor()
    vhosts = set(call.own_vhosts())
    if "vhost" in call.request.match_info:
        vhosts &= {call.vhost(visible=True)}
    found = [
        status
        for status in call.facade.federation.statuses
        if status.vhost in vhosts and not (only_down and status.state in (RUNNING, STARTING))
    ]
    return await _listing(call, found).answer(call, found)


@route("GET", "/federation-links", "/federation-links/{vhost}")
async def list_links(call: Call) -> Any:
    """Federation links in all vhosts, or in one, and what they do."""
    return await _answer(call, only_down=False)


@route("GET", "/federation-links/state/down", "/federation-links/{vhost}/state/down")
async def list_links_that_are_down(call: Call) -> Any:
    """Federation links that have failed, in all vhosts, or in one, and why."""
    return await _answer(call, only_down=True)


@route(
    "DELETE",
    "/federation-links/vhost/{vhost}/{id}/{node}/restart",
    answered_by=Answerer.NODE_IN_PATH,
)
async def restart_link(call: Call) -> Any:
    """Close the connections of a federation link, and restart it."""
    vhost, link_id = call.vhost(), call.path("id")
    call.require_policymaker(vhost)
    require_this_node(call)
    link = call.facade.federation.find(vhost, link_id)
    if link is None:
        raise not_found()
    said = (
        f"Restarting federation link '{link_id}' of {link.kind} '{link.name}' "
        f"to upstream '{link.upstream}' in vhost '{vhost}'"
    )
    await call.note("federation.link.restarted", "federation-link", link_id, said, vhost)
    call.facade.federation.restart(link)
    return NoContent()
