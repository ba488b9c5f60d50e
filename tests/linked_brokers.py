"""Two brokers in one event loop: clients are connected to one, and all queues live on the other.

What is declared is applied on both. The link hands over what was sent in the next turn.
"""

import asyncio

from leveret.broker.config import Config, TcpSettings
from leveret.broker.config.cluster_settings import ClusterSettings
from leveret.broker.registry.contents import contents
from leveret.broker.server import Broker
from leveret.cluster.queues.remote_queue import RemoteQueue
from leveret.cluster.queues.remote_queues import RemoteQueues
from tests.linked_nodes import LinkEnd, NoLinks

RANDOM = ClusterSettings(queue_master_locator="random", queue_leader_locator="random")
NEAR, FAR = "a@host", "b@host"


class LoopLink(LinkEnd):
    """A `Peer` whose frames arrive in the next turn of the loop."""

    def connect(self, receiver, back):
        """What is sent here reaches the service, which sends back through the other end."""
        self._receiver, self._back, self.is_stopped = receiver, back, False
        self._loop = asyncio.get_running_loop()

    def send(self, service, *pieces):
        super().send(service, *pieces)
        self.log.clear()
        if len(self.sent) == 1:
            self._loop.call_soon(self._arrive)

    def _arrive(self):
        while self.sent and self.is_up and not self.is_stopped:
            self._receiver.received(self._back, self.sent.popleft())


class LinkedBrokers:
    """near: the broker that clients are connected to; far: where its queues live."""

    def __init__(self, near):
        self.near = near
        self.far = Broker(Config(tcp=TcpSettings(listeners=())), clock=near.services.clock)

    async def start(self):
        """Make a cluster of a broker that runs."""
        near, far = self.near, self.far
        # Of two nodes, the second one is chosen.
        self.places = {
            node: RemoteQueues(node, broker.services, NoLinks(), RANDOM, lambda count: count - 1)
            for node, broker in ((NEAR, near), (FAR, far))
        }
        far.services.queue_places = self.places[FAR]
        far.services.declarations = near.services.declarations
        await far.start()
        registry, other = near.services.registry, far.services.registry
        for declaration in contents(registry):
            other.apply(declaration)
        near.services.queue_places = self.places[NEAR]
        for vhost in near.services.vhosts.values():
            vhost.places = self.places[NEAR]
        applying = registry.applying

        def applying_on_both(declaration):
            yield from applying(declaration)
            other.apply(declaration)
            other.take_cancelled()

        registry.applying = applying_on_both
        self.link()

    def link(self):
        """The link comes up."""
        to_far, to_near = LoopLink(FAR), LoopLink(NEAR)
        to_far.connect(self.places[FAR], to_near)
        to_near.connect(self.places[NEAR], to_far)
        self.ends = to_far, to_near
        self.places[NEAR].peer_up(to_far)
        self.places[FAR].peer_up(to_near)

    def unlink(self):
        """The link goes down."""
        to_far, to_near = self.ends
        to_far.is_up = to_near.is_up = False
        self.places[NEAR].peer_down(to_far, "the test has cut it")
        self.places[FAR].peer_down(to_near, "the test has cut it")

    def stop_delivering(self):
        """Nothing that is sent to the other node arrives any more."""
        self.ends[0].is_stopped = True

    @property
    def is_waiting(self):
        """Something was sent to the other node and does not arrive."""
        return bool(self.ends[0].sent)

    def queue(self, name, vhost="/"):
        """The queue on the node where it lives."""
        assert isinstance(self.near.services.vhosts[vhost].queues[name], RemoteQueue)
        return self.far.services.vhosts[vhost].queues[name]
