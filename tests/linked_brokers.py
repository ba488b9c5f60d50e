"""Two brokers in one event loop, as two nodes: unless a test says so, clients are connected to the
first one, and all queues live on the other.

What is declared is applied on both. The link hands over what was sent in the next turn.
"""

import asyncio

from leveret.broker.config import Config, Listener, TcpSettings
from leveret.broker.config.cluster_settings import ClusterSettings
from leveret.broker.node.broker import Broker
from leveret.broker.registry.contents import contents
from leveret.cluster.node_status.limited_counts import LimitedCounts
from leveret.cluster.remote_queues.placed_factory import serve_placed
from leveret.cluster.remote_queues.remote_queue import RemoteQueue
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.cluster.rpc.direct_replies import RemoteReplies
from tests.linked_nodes import LinkEnd, LinkServices

RANDOM = ClusterSettings(queue_master_locator="random", queue_leader_locator="random")
NEAR, FAR = "a@host", "b@host"


class LoopLink(LinkEnd):
    """A `Peer` whose frames arrive in the next turn of the loop."""

    def connect(self, receivers, back):
        """What is sent here reaches the services, which send back through the other end."""
        self._receivers, self._back, self.is_stopped = receivers, back, False
        self._loop = asyncio.get_running_loop()

    def send(self, service, *pieces):
        if self.is_up:
            self.sent.append((service, b"".join(pieces)))
        if len(self.sent) == 1:
            self._loop.call_soon(self._arrive)

    def _arrive(self):
        while self.sent and self.is_up and not self.is_stopped:
            service, payload = self.sent.popleft()
            self._receivers.services[service].received(self._back, payload)


class LinkedBrokers:
    """near: the broker that clients are connected to; far: where its queues live."""

    def __init__(self, near, far_listens=False):
        """far_listens: clients can be connected to the other node, too, at `far_port`."""
        self.near = near
        listeners = (Listener("127.0.0.1", 0),) if far_listens else ()
        config = Config(node_name=FAR, tcp=TcpSettings(listeners=listeners))
        self.far = Broker(config, clock=near.services.clock)
        self.links = {NEAR: LinkServices(), FAR: LinkServices()}

    @property
    def far_port(self):
        return self.far.listening_on[0].port

    async def start(self):
        """Make a cluster of a broker that runs."""
        near, far = self.near, self.far
        # Of two nodes, the second one is chosen.
        self.places = {
            node: RemoteQueues(
                node, broker.services, self.links[node], RANDOM, lambda count: count - 1
            )
            for node, broker in ((NEAR, near), (FAR, far))
        }
        for node, broker in ((NEAR, near), (FAR, far)):
            replies, links = broker.services.replies, self.links[node]
            replies.node = node
            replies.others = RemoteReplies(replies, links, self.places[node].untaken)
            LimitedCounts(links, broker.services)
        serve_placed(far.services.queue_kinds, self.places[FAR])
        far.services.declarations = near.services.declarations
        await far.start()
        registry, other = near.services.registry, far.services.registry
        for declaration in contents(registry):
            other.apply(declaration)
        serve_placed(near.services.queue_kinds, self.places[NEAR])
        applying = registry.applying

        def applying_on_both(declaration):
            yield from applying(declaration)
            other.apply(declaration)
            for consumer in other.take_cancelled():
                consumer.tell_cancelled()

        registry.applying = applying_on_both
        self.link()

    def link(self):
        """The link comes up."""
        to_far, to_near = LoopLink(FAR), LoopLink(NEAR)
        to_far.connect(self.links[FAR], to_near)
        to_near.connect(self.links[NEAR], to_far)
        self.ends = to_far, to_near
        self.links[NEAR].tell("peer_up", to_far)
        self.links[FAR].tell("peer_up", to_near)

    def unlink(self):
        """The link goes down."""
        to_far, to_near = self.ends
        to_far.is_up = to_near.is_up = False
        self.links[NEAR].tell("peer_down", to_far, "the test has cut it")
        self.links[FAR].tell("peer_down", to_near, "the test has cut it")

    def stop_delivering(self):
        """From now on, frames to the other node are lost."""
        self.ends[0].is_stopped = True

    @property
    def is_waiting(self):
        """Something was sent to the other node and does not arrive."""
        return bool(self.ends[0].sent)

    def queue(self, name, vhost="/"):
        """The queue on the node where it lives."""
        assert isinstance(self.near.services.vhosts[vhost].queues[name], RemoteQueue)
        return self.far.services.vhosts[vhost].queues[name]
