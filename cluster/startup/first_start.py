"""The first start of a node: by peer discovery it joins the cluster of others, or forms one.

The decision is made in discovery/; this module asks the other nodes over links, and has the node
join or form a cluster. A node that has anything in its store does not look for others: it belongs
to its cluster, or stays alone until `join_cluster`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from leveret.broker.config import Config
from leveret.broker.config.formation_settings import CLASSIC_CONFIG, DISC
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.backends import discovery_of
from leveret.cluster.discovery.formation import PeerState
from leveret.cluster.discovery.forming import Forming, JoinRefusedError
from leveret.cluster.discovery.presence import Presence
from leveret.cluster.links.links import Links
from leveret.cluster.membership.membership_changes import (
    ClusterError,
    ClusterMembership,
    ask_to_join,
)
from leveret.cluster.rpc.rpc import NotAnswered, Rpc

STATE = "discovery.state"
"""The topic of the request for a node's state. The answer is the name of a `PeerState`."""
LINK_SECONDS_MAX, ANSWER_SECONDS_MAX = 3.0, 3.0


class FirstStart:
    """Peer discovery of one run of a node: the `Peers` of its decision.

    take_membership: joins the cluster that a member has taken this node into. begin_cluster: makes
    a cluster of this node. discovery: the backend.
    """

    def __init__(
        self,
        config: Config,
        links: Links,
        rpc: Rpc,
        take_membership: Callable[[ClusterMembership], Awaitable[None]],
        begin_cluster: Callable[[], Awaitable[None]],
    ) -> None:
        """Raises SettingError."""
        own = NodeAddress(config.node_name, config.cluster.port)
        self._settings = config.cluster_formation
        self._own = config.node_name
        self._links = links
        self._rpc = rpc
        self._take_membership = take_membership
        self._begin_cluster = begin_cluster
        self.discovery = discovery_of(config, own)
        self._presence = Presence(self.discovery, self._own)
        self._forming: Forming | None = None
        rpc.answer(STATE, self._state)

    @property
    def is_wanted(self) -> bool:
        """Whether the configuration says how other nodes are found."""
        settings = self._settings
        others = [node for node in settings.nodes if node.name != self._own]
        return settings.backend != CLASSIC_CONFIG or bool(others)

    async def run(self) -> None:
        """Join or form a cluster. Raises DiscoveryError and ClusterError."""
        self._forming = Forming(self._own, self._settings, self.discovery, self, self._presence)
        await self._forming.run()

    async def start_again(self) -> None:
        """Only renew the registration: the node is in a cluster already."""
        if self.is_wanted:
            await self._presence.start()

    async def stop(self) -> None:
        """Remove the registration."""
        if self.is_wanted:
            await self._presence.stop()
        await self.discovery.close()

    async def _state(self, node: str, text: bytes) -> bytes:
        """Another node asks for this one's state: it can be joined unless it is looking for others
        itself.
        """
        state = PeerState.MEMBER if self._forming is None else self._forming.state_for(node)
        return state.name.encode()

    # Actions of the decision

    async def ask(self, nodes: tuple[NodeAddress, ...]) -> Mapping[str, PeerState]:
        """The state of each node that answers."""
        for node in nodes:
            self._links.dial(node)
        await self._rpc.linked([node.name for node in nodes], LINK_SECONDS_MAX)
        states = await asyncio.gather(*(self._ask(node.name) for node in nodes))
        return {node.name: state for node, state in zip(nodes, states, strict=True)}

    async def _ask(self, node: str) -> PeerState:
        try:
            answer = await self._rpc.ask(node, STATE, b"", ANSWER_SECONDS_MAX)
            return PeerState[answer.decode()]
        except (NotAnswered, KeyError, UnicodeDecodeError):
            return PeerState.UNREACHABLE

    async def join(self, node: NodeAddress, node_type: str) -> None:
        """Join the cluster of a node."""
        self._links.dial(node)
        try:
            membership = await ask_to_join(self._rpc, node.name, node_type == DISC)
        except ClusterError as error:
            raise JoinRefusedError(str(error)) from None
        await self._take_membership(membership)

    async def form(self) -> None:
        """Form a cluster of this node alone."""
        await self._begin_cluster()
