"""Consumers: each node answers for those of its own channels.

If only one consumer of a queue is active at a time, the queue's node decides which. So these nodes
are asked before such consumers of their queues are shown. Consumers of the stream protocol, which
has no channels, are those of each node's connections.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.status import ConsumerFigures
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.joint_listing import JointListing
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.passed_requests import SILENCE_SECONDS_MAX
from leveret.mgmt.api.routes import route
from leveret.mgmt.node_facade.clients import refresh_activities
from leveret.mgmt.views.channels import consumer_view
from leveret.mgmt.views.streams import consumer_figures


class QueuesConsumer(NamedTuple):
    """A consumer, with the queue that it consumes from."""

    vhost: str
    queue: str
    consumer: ConsumerFigures

    @property
    def order(self) -> tuple[str, ...]:
        """Its place in a list that is not sorted otherwise, and its name between nodes."""
        one = self.consumer
        return self.vhost, one.tag, self.queue, one.channel_name, one.connection.name


@route("GET", "/consumers", "/consumers/{vhost}")
async def list_consumers(call: Call) -> Any:
    """Consumers: all for a monitor, those of the user's own connections for other users."""
    may_see_all, user = call.identity.is_monitor, text(call.identity.name)
    vhosts = call.listed_vhosts()
    found = [
        *await _of_own_queues(call, vhosts),
        *await _of_other_nodes_queues(call, set(vhosts)),
        *await _without_channels(call, set(vhosts)),
    ]
    listing: Listing[QueuesConsumer] = Listing(
        lambda one: one.consumer.tag,
        lambda one: consumer_view(one.consumer, one.vhost, one.queue, call.node.sampler),
        {"vhost": lambda one: one.vhost},
        order=lambda one: one.order,
    )
    visible = [one for one in found if may_see_all or one.consumer.user == user]
    return await JointListing(listing).answer(call, visible)


async def consumers_of_queue(call: Call, vhost: str, queue: str) -> list[dict[str, Any]]:
    """The consumers of a queue, on any node, that channels of this node have."""
    if call.facade.lives_here(vhost, queue):
        found = call.facade.consumers(vhost, queue)
    else:
        others = await _of_other_nodes_queues(call, {vhost})
        found = [one.consumer for one in others if one.queue == queue]
    subscribed = await _without_channels(call, {vhost})
    found += [one.consumer for one in subscribed if one.queue == queue]
    return [consumer_view(one, vhost, queue, call.node.sampler) for one in found]


async def _of_own_queues(call: Call, vhosts: Iterable[str]) -> list[QueuesConsumer]:
    """The consumers of this node's queues, without those of other nodes' channels."""
    found: list[QueuesConsumer] = []
    for vhost in vhosts:
        for queue, consumers in call.facade.own_consumers(vhost):
            found += [QueuesConsumer(vhost, queue, one) for one in consumers]
            await call.node.give_way()
    return found


async def _of_other_nodes_queues(call: Call, vhosts: set[str]) -> list[QueuesConsumer]:
    """The consumers of this node's channels that consume from queues on other nodes."""
    channels = [
        channel
        for connection in call.facade.connections()
        if connection.vhost in vhosts
        for channel in connection.channels()
        if channel.has_far_consumers
    ]
    await refresh_activities(channels, SILENCE_SECONDS_MAX)
    found: list[QueuesConsumer] = []
    for channel in channels:
        found += [
            QueuesConsumer(channel.vhost, one.queue, one.figures)
            for one in channel.consumers()
            if not one.is_own
        ]
        await call.node.give_way()
    return found


async def _without_channels(call: Call, vhosts: set[str]) -> list[QueuesConsumer]:
    """The consumers of this node's connections of a protocol without channels."""
    found: list[QueuesConsumer] = []
    for connection in call.facade.connections():
        if connection.vhost in vhosts:
            for one in connection.subscriptions():
                figures = consumer_figures(connection, one)
                found.append(QueuesConsumer(connection.vhost, one.queue, figures))
            await call.node.give_way()
    return found
