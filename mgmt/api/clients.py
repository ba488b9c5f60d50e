"""Connections, channels and sessions: of all nodes, or of the one that has them."""

from typing import Any

from leveret.broker.queues.contract.link_status import SessionStatus
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request, not_found
from leveret.mgmt.api.joint_listing import JointListing
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.other_nodes import ask_others
from leveret.mgmt.api.passed_requests import SILENCE_SECONDS_MAX
from leveret.mgmt.api.routes import Answerer, NoContent, route
from leveret.mgmt.api.windows import window
from leveret.mgmt.node_facade.clients import OpenChannel, OpenConnection, refresh_activities
from leveret.mgmt.views.channels import channel_view, single_channel_view
from leveret.mgmt.views.connections import connection_view
from leveret.mgmt.views.sessions import session_view

CLOSED_BY_MANAGEMENT = "Closed via management plugin"


def visible(call: Call) -> list[OpenConnection]:
    """All connections of this node for a monitor, the user's own for other users."""
    found = call.facade.connections()
    if call.identity.is_monitor:
        return found
    return [one for one in found if one.user == call.identity.name]


def _listing(call: Call) -> JointListing[OpenConnection]:
    data_window = window(call, "data_rates")
    listing: Listing[OpenConnection] = Listing(
        lambda one: one.name,
        lambda one: connection_view(one, call.node.sampler, data_window),
        {"user": lambda one: one.user, "vhost": lambda one: one.vhost,
         "channels": lambda one: one.channel_count, "state": lambda one: one.state},
    )  # fmt: skip
    return JointListing(listing)


@route("GET", "/connections")
async def list_connections(call: Call) -> Any:
    """Open connections."""
    return await _listing(call).answer(call, visible(call))


@route("GET", "/vhosts/{vhost}/connections")
async def list_connections_of_vhost(call: Call) -> Any:
    """Open connections to one vhost."""
    vhost = call.vhost(visible=True)
    return await _listing(call).answer(call, [one for one in visible(call) if one.vhost == vhost])


@route("GET", "/connections/username/{user}")
async def list_connections_of_user(call: Call) -> Any:
    """Open connections of one user."""
    user = call.path("user")
    call.require_owner(user)
    found = [one for one in call.facade.connections() if one.user == user]
    return await _listing(call).answer(call, found)


@route("DELETE", "/connections/username/{user}")
async def close_connections_of_user(call: Call) -> Any:
    """Close all connections of one user."""
    user = call.path("user")
    call.require_owner(user)
    reason = _reason(call)
    text = f"Closing all connections of user '{user}' because '{reason}'"
    await call.note("connection.closed", "user", user, text)
    for connection in call.facade.connections():
        if connection.user == user:
            connection.close(reason)
    await ask_others(call)
    return NoContent()


def _reason(call: Call) -> str:
    return call.request.headers.get("X-Reason") or CLOSED_BY_MANAGEMENT


def _find(call: Call) -> OpenConnection:
    name = call.path("connection")
    for connection in call.facade.connections():
        if connection.name == name:
            call.require_owner(connection.user)
            return connection
    raise not_found()


@route("GET", "/connections/{connection}", answered_by=Answerer.WHO_HAS_IT)
async def show_connection(call: Call) -> Any:
    """One connection."""
    return connection_view(_find(call), call.node.sampler, window(call, "data_rates"))


@route("DELETE", "/connections/{connection}", answered_by=Answerer.WHO_HAS_IT)
async def close_connection(call: Call) -> Any:
    """Close one connection; the header X-Reason says why."""
    connection, reason = _find(call), _reason(call)
    text = f"Closing connection {connection.name} because '{reason}'"
    await call.note("connection.closed", "connection", connection.name, text, connection.vhost)
    connection.close(reason)
    return NoContent()


@route("GET", "/connections/{connection}/channels", answered_by=Answerer.WHO_HAS_IT)
async def list_channels_of_connection(call: Call) -> Any:
    """The channels of one connection."""
    return await _channel_listing(call).answer(call, _find(call).channels())


@route("GET", "/connections/{connection}/sessions", answered_by=Answerer.WHO_HAS_IT)
async def list_sessions_of_connection(call: Call) -> Any:
    """The sessions of one connection of AMQP 1.0, with their links."""
    sessions = _find(call).sessions_with_links()
    if sessions is None:
        raise bad_request("connection does not use AMQP 1.0")
    listing: Listing[SessionStatus] = Listing(
        lambda one: str(one.channel), session_view, order=lambda one: one.channel
    )
    return await listing.answer(call, sessions)


def _channel_listing(call: Call) -> Listing[OpenChannel]:
    message_window = window(call, "msg_rates")
    return Listing(
        lambda one: one.name,
        lambda one: channel_view(one, call.node.sampler, message_window),
        {"user": lambda one: one.user, "number": lambda one: one.number},
    )


@route("GET", "/channels")
async def list_channels(call: Call) -> Any:
    """Open channels."""
    found = [channel for one in visible(call) for channel in one.channels()]
    return await JointListing(_channel_listing(call)).answer(call, found)


@route("GET", "/vhosts/{vhost}/channels")
async def list_channels_of_vhost(call: Call) -> Any:
    """Open channels in one vhost."""
    vhost = call.vhost(visible=True)
    mine = [one for one in visible(call) if one.vhost == vhost]
    found = [channel for one in mine for channel in one.channels()]
    return await JointListing(_channel_listing(call)).answer(call, found)


@route("GET", "/channels/{channel}", answered_by=Answerer.WHO_HAS_IT)
async def show_channel(call: Call) -> Any:
    """One channel."""
    name = call.path("channel")
    for connection in call.facade.connections():
        for channel in connection.channels():
            if channel.name == name:
                call.require_owner(connection.user)
                await refresh_activities([channel], SILENCE_SECONDS_MAX)
                return single_channel_view(channel, call.node.sampler, window(call, "msg_rates"))
    raise not_found()
