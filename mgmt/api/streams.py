"""Connections of the stream protocol, their publishers and consumers: on all nodes.

The routes are those of RabbitMQ's plugin rabbitmq_stream_management. Its connections are in the
lists of all connections, too.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from leveret.broker.queues.contract.status import PublisherFigures, SubscriptionFigures
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.clients import visible
from leveret.mgmt.api.errors import not_found
from leveret.mgmt.api.joint_listing import JointListing
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.routes import Answerer, NoContent, route
from leveret.mgmt.api.windows import window
from leveret.mgmt.node_facade.clients import OpenConnection
from leveret.mgmt.views.streams import publisher_view, stream_connection_view, subscription_view

STREAM = "stream"
"""RabbitMQ's name of the protocol."""


class ConnectedPublisher(NamedTuple):
    """A publisher, with its connection."""

    connection: OpenConnection
    publisher: PublisherFigures


class ConnectedSubscription(NamedTuple):
    """A consumer, with its connection."""

    connection: OpenConnection
    subscription: SubscriptionFigures


# Connections


def _connections(call: Call) -> list[OpenConnection]:
    """The connections of this node that the user may see, in the vhost of the path if any."""
    vhost = call.vhost(visible=True) if "vhost" in call.request.match_info else None
    return [
        one
        for one in visible(call)
        if one.protocol == STREAM and (vhost is None or one.vhost == vhost)
    ]


def _connection(call: Call) -> OpenConnection:
    name = call.path("name")
    for one in _connections(call):
        if one.name == name:
            return one
    raise not_found()


@route("GET", "/stream/connections", "/stream/connections/{vhost}")
async def list_stream_connections(call: Call) -> Any:
    """Open connections of the stream protocol."""
    data_window = window(call, "data_rates")
    listing: Listing[OpenConnection] = Listing(
        lambda one: one.name,
        lambda one: stream_connection_view(one, call.node.sampler, data_window),
        {"user": lambda one: one.user, "vhost": lambda one: one.vhost},
    )
    return await JointListing(listing).answer(call, _connections(call))


@route("GET", "/stream/connections/{vhost}/{name}", answered_by=Answerer.WHO_HAS_IT)
async def show_stream_connection(call: Call) -> Any:
    """One connection."""
    return stream_connection_view(_connection(call), call.node.sampler, window(call, "data_rates"))


@route("DELETE", "/stream/connections/{vhost}/{name}", answered_by=Answerer.WHO_HAS_IT)
async def close_stream_connection(call: Call) -> Any:
    """Close one connection; the header X-Reason says why."""
    connection = _connection(call)
    reason = call.request.headers.get("X-Reason") or "Closed via management plugin"
    text = f"Closing connection {connection.name} because '{reason}'"
    await call.note("connection.closed", "connection", connection.name, text, connection.vhost)
    connection.close(reason)
    return NoContent()


# Publishers


def _publisher_listing(call: Call) -> Listing[ConnectedPublisher]:
    return Listing(
        lambda one: one.publisher.reference,
        lambda one: publisher_view(one.connection, one.publisher, call.node.name),
        order=lambda one: (one.connection.name, f"{one.publisher.number:03}"),
    )


def _publishers(connections: Iterable[OpenConnection]) -> list[ConnectedPublisher]:
    return [ConnectedPublisher(each, one) for each in connections for one in each.publishers()]


@route("GET", "/stream/publishers", "/stream/publishers/{vhost}")
async def list_stream_publishers(call: Call) -> Any:
    """Publishers."""
    found = _publishers(_connections(call))
    return await JointListing(_publisher_listing(call)).answer(call, found)


@route("GET", "/stream/publishers/{vhost}/{queue}")
async def list_publishers_of_stream(call: Call) -> Any:
    """The publishers of one stream."""
    stream = call.path("queue")
    found = [one for one in _publishers(_connections(call)) if one.publisher.queue == stream]
    return await JointListing(_publisher_listing(call)).answer(call, found)


@route("GET", "/stream/connections/{vhost}/{name}/publishers", answered_by=Answerer.WHO_HAS_IT)
async def list_publishers_of_connection(call: Call) -> Any:
    """The publishers of one connection."""
    return await _publisher_listing(call).answer(call, _publishers([_connection(call)]))


# Consumers


def _consumer_listing(call: Call) -> Listing[ConnectedSubscription]:
    return Listing(
        lambda one: one.subscription.properties.get("name", ""),
        lambda one: subscription_view(one.connection, one.subscription, call.node.name),
        order=lambda one: (one.connection.name, f"{one.subscription.number:03}"),
    )


def _consumers(connections: Iterable[OpenConnection]) -> list[ConnectedSubscription]:
    return [
        ConnectedSubscription(each, one) for each in connections for one in each.subscriptions()
    ]


@route("GET", "/stream/consumers", "/stream/consumers/{vhost}")
async def list_stream_consumers(call: Call) -> Any:
    """Consumers."""
    found = _consumers(_connections(call))
    return await JointListing(_consumer_listing(call)).answer(call, found)


@route("GET", "/stream/consumers/{vhost}/{queue}")
async def list_consumers_of_stream(call: Call) -> Any:
    """The consumers of one stream."""
    stream = call.path("queue")
    found = [one for one in _consumers(_connections(call)) if one.subscription.queue == stream]
    return await JointListing(_consumer_listing(call)).answer(call, found)


@route("GET", "/stream/connections/{vhost}/{name}/consumers", answered_by=Answerer.WHO_HAS_IT)
async def list_consumers_of_connection(call: Call) -> Any:
    """The consumers of one connection."""
    return await _consumer_listing(call).answer(call, _consumers([_connection(call)]))
