"""Queues on other nodes: the service of the links, and the choice of nodes for new queues.

For each other node there is a `HomeNode`, through which this node uses the queues that live there,
and while there is a link a `QueueHost`, through which the other node uses the queues of this one.

Promises:
- A queue on another node keeps the promises of every queue (Q1 to Q5 in queue_client.py).
- When a node goes down, the entries that its clients held here are requeued, their consumers are
  cancelled, and the exclusive queues of its connections that live here are deleted.
Not promised: that a run refused because its node went down is not published; that a consumer with a
global prefetch limit locks no more messages than the limit on other nodes (each consumer of its
channel may be sent that number; the client gets no more than the limit).
"""

import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from leveret.broker.config.cluster_settings import ClusterSettings
from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_table import merged
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.remote_owner import RemoteOwner
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.links.services import REMOTE_QUEUES_SERVICE, Peer, ServiceRegistry
from leveret.cluster.placement.leader_location import choose_node, locator_of
from leveret.cluster.remote_queues import queue_frames as frames
from leveret.cluster.remote_queues.home_node import HomeNode
from leveret.cluster.remote_queues.queue_frames import QueueFrameError
from leveret.cluster.remote_queues.queue_host import QueueHost
from leveret.cluster.remote_queues.remote_hold import UntakenBytes
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Entry

FROM_HOME_MIN = frames.DELIVER
"""Frames of this kind and above come from a home node; lower kinds go to one."""

logger = logging.getLogger("leveret.cluster")


class RemoteQueues:
    """The queues of other nodes that this one uses, and its own that they use: a `Service`.

    node, incarnation: this node's name, and the number of its run. not_to_choose: other nodes that
    get no new queues. untaken: the bytes sent to other nodes and not taken.
    """

    def __init__(
        self,
        node: str,
        services: Services,
        links: ServiceRegistry,
        settings: ClusterSettings,
        choose: Callable[[int], int] = secrets.randbelow,
        not_to_choose: Callable[[], frozenset[str]] = frozenset,
        incarnation: int = 0,
    ) -> None:
        self.node = node
        self.incarnation = incarnation
        self.turns = services.turns
        self.addresses = Addresses()
        self._services = services
        self._settings = settings
        self._choose = choose
        self._not_to_choose = not_to_choose
        self.untaken = UntakenBytes(services.flow.set_nodes_behind)
        self._homes: dict[str, HomeNode] = {}
        self._hosts: dict[Peer, QueueHost] = {}
        services.flow.listen(self._flow_changed)
        links.register(REMOTE_QUEUES_SERVICE, self)

    # Places

    def choose(self, specification: QueueSpecification) -> Placement:
        """Choose the node for a queue that is about to be declared on this node.

        The arguments, the policies and the configuration determine the choice.
        """
        vhost, name, kind = specification.vhost, specification.name, specification.kind
        policies = self._services.policies
        policy, operator_policy = (
            policies.of_queue(component, vhost, name, kind)
            for component in (POLICY, OPERATOR_POLICY)
        )
        definition = merged(policy, operator_policy)
        configured = self._settings.queue_locators[kind.locator]
        locator = locator_of(kind, specification.arguments, definition, configured)
        node = choose_node(locator, self.node, self._queue_counts, self._choose)
        return Placement(node, 1 + secrets.randbits(62))

    def _queue_counts(self) -> Mapping[str, int]:
        """The number of queues on each node that may get new ones."""
        counts = Counter(
            queue.placement.node
            for vhost in self._services.vhosts.values()
            for queue in vhost.queues.values()
        )
        others = {peer.name for peer in self._hosts} - self._not_to_choose()
        return {node: counts[node] for node in (self.node, *others)}

    def added(self, queue: QueueClient) -> None:
        """Let other nodes use a queue that was declared here, or is led here from now on."""
        if queue.placement.node == self.node:
            for host in self._hosts.values():
                host.declared(queue)

    def replaced(self, before: QueueClient, queue: QueueClient) -> None:
        """Replace the object that stands for a queue of this node."""
        for host in self._hosts.values():
            host.replaced(before, queue)

    def left(self, queue: QueueClient) -> None:
        """Leave a queue of this node that another node leads from now on."""
        for host in self._hosts.values():
            host.left(queue)

    def held_of(self, queue: QueueClient) -> list[Entry]:
        """The entries of a queue of this node that clients of other nodes hold."""
        return [entry for host in self._hosts.values() for entry in host.held_of(queue)]

    def hold(self, node: str, queue: QueueClient, entries: Sequence[Entry]) -> int | None:
        """Take entries of a queue of this node for delivered to another one, which has them.

        Returns the first tag; None if the other node has not opened the queue.
        """
        for peer, host in self._hosts.items():
            if peer.name == node:
                return host.hold(queue, entries)
        return None

    def _home(self, node: str) -> HomeNode:
        home = self._homes.get(node)
        if home is None:
            clock = self._services.clock
            home = HomeNode(node, self.turns, clock, self.addresses, self.untaken)
            self._homes[node] = home
        return home

    def home_node(self, node: str) -> HomeNode:
        """Another node, as the home of queues that clients of this one use."""
        return self._home(node)

    def host(self, peer: Peer) -> QueueHost:
        """The queues of this node that a linked node uses."""
        return self._hosts[peer]

    def look(self, apart: Set[str]) -> None:
        """Give up what only nodes on other sides of a partition know; called every quarter of a
        net_ticktime. apart: the linked ones of these nodes.
        """
        for peer, host in self._hosts.items():
            host.look(is_apart=peer.name in apart)

    # The queues of this node (queue_host.py)

    @property
    def is_held(self) -> bool:
        """Whether publishers of this node wait for its store.

        Waiting for other nodes does not count, as two nodes would wait for each other.
        """
        return self._services.flow.is_store_behind

    def _flow_changed(self) -> None:
        if not self.is_held:
            for host in self._hosts.values():
                host.resume()

    def find(self, vhost: str, name: str, identity: int) -> QueueClient | None:
        """The queue of this declaration; None if there is none, or none yet."""
        found = self._services.vhosts.get(vhost)
        queue = None if found is None else found.queues.get(name)
        if queue is None or queue.placement.node != self.node:
            return None
        return queue if queue.placement.identity == identity else None

    # Links

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""
        self._hosts[peer] = QueueHost(peer, self)
        self._home(peer.name).up(peer)
        self._routes_changed()

    def peer_down(self, peer: Peer, reason: str) -> None:
        """Requeue the entries that the other node held: the link is down."""
        self._home(peer.name).down()
        self._routes_changed()
        self._hosts.pop(peer).release()
        for vhost in self._services.vhosts.values():
            lost = [queue for queue in vhost.queues.values() if self._is_left_by(peer.name, queue)]
            if lost:
                vhost.delete_queues(lost, f"deleting the exclusive queues of node {peer.name}")

    def _is_left_by(self, node: str, queue: QueueClient) -> bool:
        """Whether a queue of this node belongs to a connection of another one."""
        owner = queue.owner_connection
        is_here = queue.placement.node == self.node
        return is_here and isinstance(owner, RemoteOwner) and owner.node == node

    def _routes_changed(self) -> None:
        """Invalidate routes: messages are routed to the queues of a node only while it runs."""
        vhosts: Iterable[VirtualHost] = self._services.vhosts.values()
        for vhost in vhosts:
            vhost.routes_changed()

    def received(self, peer: Peer, payload: bytes) -> None:
        """Handle the payload of one frame. Raises ValueError if it is damaged."""
        if not payload:
            raise QueueFrameError("a frame is empty")
        kind = payload[0]
        if kind >= FROM_HOME_MIN:
            self._homes[peer.name].received(kind, payload)
        else:
            self._hosts[peer].received(kind, payload)

    def drained(self, peer: Peer) -> None:
        """A peer is no longer congested."""
        self._homes[peer.name].drained()
        self._hosts[peer].drained()
