"""Consumers: each node answers for those of its own channels.

The node of a queue decides which of its consumers is active, where that is one at a time. So those
nodes are asked before such consumers of their queues are shown.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.status import ConsumerFigures
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.status import consumers_of
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.joint_listing import JointListing
from leveret.mgmt.api.listing import Listing
from leveret.mgmt.api.passed_requests import SILENCE_SECONDS_MAX
from leveret.mgmt.api.routes import route
from leveret.mgmt.views.channels import consumer_view
from leveret.mgmt.views.connections import open_connections


class QueuesConsumer(NamedTuple):
    """A consumer, with the queue that it consumes from."""

    vhost: str
    queue: str
    consumer: ConsumerFigures


@route("GET", "/consumers", "/consumers/{vhost}")
async def list_consumers(call: Call) -> Any:
    """Consumers: all for a monitor, those of the user's own connections for other users."""
    may_see_all, user = call.identity.is_monitor, text(call.identity.name)
    vhosts = call.listed_vhosts()
    found = [
        *await _of_own_queues(call, vhosts),
        *await _of_other_nodes_queues(call, {vhost.name for vhost in vhosts}),
    ]
    listing: Listing[QueuesConsumer] = Listing(
        lambda one: one.consumer.tag,
        lambda one: consumer_view(one.consumer, one.vhost, one.queue, call.node.sampler),
        {"vhost": lambda one: one.vhost},
        order=lambda one: (one.vhost, one.consumer.tag, one.queue, one.consumer.channel_name),
    )
    visible = [one for one in found if may_see_all or one.consumer.user == user]
    return await JointListing(listing).answer(call, visible)


async def consumers_of_queue(
    call: Call, vhost: VirtualHost, queue: QueueClient
) -> list[dict[str, Any]]:
    """The consumers of a queue, wherever it lives, that channels of this node have."""
    if vhost.lives_here(queue):
        found = [one for one in queue.figures.consumers() if not one.node]
    else:
        others = await _of_other_nodes_queues(call, {vhost.name})
        found = [one.consumer for one in others if one.queue == queue.name]
    sampler = call.node.sampler
    return [consumer_view(one, vhost.name, queue.name, sampler) for one in found]


async def _of_own_queues(call: Call, vhosts: Iterable[VirtualHost]) -> list[QueuesConsumer]:
    """The consumers of this node's queues, but not those of other nodes' channels."""
    found: list[QueuesConsumer] = []
    for vhost in vhosts:
        for queue in tuple(vhost.queues.values()):
            if vhost.lives_here(queue):
                found += [
                    QueuesConsumer(vhost.name, queue.name, consumer)
                    for consumer in queue.figures.consumers()
                    if not consumer.node
                ]
            await call.node.give_way()
    return found


async def _of_other_nodes_queues(call: Call, vhosts: set[str]) -> list[QueuesConsumer]:
    """The consumers of this node's channels that consume from queues on other nodes."""
    channels = [
        channel
        for connection in open_connections(call.node.sampler)
        if connection.vhost.name in vhosts
        for channel in connection.channels.values()
        if _far_queues(channel)
    ]
    await refresh_activities(call, channels)
    found: list[QueuesConsumer] = []
    for channel in channels:
        vhost = channel.vhost
        found += [
            QueuesConsumer(vhost.name, queue.name, consumer)
            for queue, consumer in consumers_of(channel)
            if not vhost.lives_here(queue)
        ]
        await call.node.give_way()
    return found


def _far_queues(channel: Session) -> set[QueueClient]:
    """The queues of a channel's consumers that live on other nodes."""
    queues = {consumer.queue for consumer in channel.consumers.values()}
    return {queue for queue in queues if not channel.vhost.lives_here(queue)}


async def refresh_activities(call: Call, channels: Iterable[Session]) -> None:
    """Ask for the active consumers of queues on other nodes, for a short time at most."""
    queues = {
        queue
        for channel in channels
        for queue in _far_queues(channel)
        if queue.options.single_active_consumer
    }
    if queues:
        with suppress(TimeoutError):
            async with asyncio.timeout(SILENCE_SECONDS_MAX):
                await asyncio.gather(*map(_refresh, queues))


async def _refresh(queue: QueueClient) -> None:
    refreshed: Answer[None] = Answer()
    queue.figures.refresh(refreshed)
    with suppress(Fault):
        # Without a link to its node, the view shows the last known state.
        await given_in_task(refreshed)
