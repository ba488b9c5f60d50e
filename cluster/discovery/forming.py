"""Carries out the decisions of formation.py: the first start of a node that is in no cluster.

The node first acquires the lock, or waits for the random delay if the backend has no lock. Then it
lists and asks nodes in rounds until it has joined or formed a cluster. Then it registers, still
under the lock, so that the next node finds it.

If the backend's lock cannot be acquired `lock_retry_limit` times, the start ends, as in RabbitMQ.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Protocol

from leveret.broker.config.formation_settings import DISC, FormationSettings
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.discovery import (
    Discovered,
    Discovery,
    DiscoveryError,
    StartupLock,
)
from leveret.cluster.discovery.formation import (
    Action,
    AskPeers,
    Discover,
    Formation,
    FormCluster,
    JoinCluster,
    PeerState,
    Stop,
)
from leveret.cluster.discovery.presence import Presence, Renewal, Sleep

logger = logging.getLogger("leveret.peer_discovery")


class JoinRefusedError(Exception):
    """A node cannot be joined; the text says why."""


class Peers(Protocol):
    """The requests to the links to other nodes and to the membership of this one."""

    async def ask(self, nodes: tuple[NodeAddress, ...]) -> Mapping[str, PeerState]:
        """The states of these nodes, by name; unreachable ones may be left out.

        The request reaches `Forming.state_for` on the other side.
        """

    async def join(self, node: NodeAddress, node_type: str) -> None:
        """Join the cluster of a node. Raises JoinRefusedError."""

    async def form(self) -> None:
        """Make a cluster of this node alone."""


class Forming:
    """The first start of a node. own: its name.

    sleep, delay_between: replaced in tests; delay_between chooses a number of seconds.
    """

    def __init__(
        self,
        own: str,
        settings: FormationSettings,
        discovery: Discovery,
        peers: Peers,
        presence: Presence,
        sleep: Sleep = asyncio.sleep,
        delay_between: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._own = own
        self._settings = settings
        self._discovery = discovery
        self._peers = peers
        self._presence = presence
        self._sleep = sleep
        self._delay_between = delay_between
        self._formation = Formation(
            own, settings.discovery_retry_limit, has_lock=discovery.lock is not None
        )
        self._node_type = DISC
        self._is_member = False
        self._has_warned = False

    def state_for(self, peer: str) -> PeerState:
        """The answer to a node that asks for the state of this one."""
        if self._is_member:
            return PeerState.MEMBER
        self._formation.asked_by(peer)
        return PeerState.BLANK

    async def run(self) -> None:
        """Join or form a cluster, and register. Raises DiscoveryError: the node must not start."""
        logger.info("peer discovery backend: %s", self._discovery.name)
        lock = self._discovery.lock
        if lock is None:
            await self._delay()
            await self._run()
            return
        await self._acquire(lock)
        renewal = Renewal(lock.renewal_interval_s, lock.renew, "the startup lock", self._sleep)
        renewal.start()
        try:
            await self._run()
        finally:
            await renewal.stop()
            await _release(lock)

    async def _run(self) -> None:
        action = self._formation.start()
        while not self._is_member:
            action = await self._carry_out(action)
        await self._presence.start()

    async def _carry_out(self, action: Action) -> Action:
        match action:
            case Discover():
                return await self._discover(action)
            case AskPeers(peers):
                return self._formation.answered(await self._peers.ask(peers))
            case JoinCluster(node):
                return await self._join(node)
            case FormCluster(reason):
                logger.info("node %s forms a new cluster: %s", self._own, reason)
                # A node that asks from here on finds a member: nothing is awaited before.
                self._is_member = True
                await self._peers.form()
                return action
            case Stop(reason):
                raise DiscoveryError(
                    f"node {self._own} neither forms nor joins a cluster and stops: {reason}"
                )

    async def _discover(self, action: Discover) -> Action:
        if action.is_delayed:
            interval_ms = self._settings.discovery_retry_interval_ms
            logger.info("peer discovery retries in %d ms: %s", interval_ms, action.reason)
            await self._sleep(interval_ms / 1000)
        try:
            found = await self._discovery.list_nodes()
        except DiscoveryError as error:
            return self._formation.listing_failed(str(error))
        self._note(found)
        return self._formation.listed(found.nodes)

    def _note(self, found: Discovered) -> None:
        self._node_type = found.node_type
        names = sorted(str(node) for node in found.nodes)
        logger.info("nodes that %s lists: %s", self._discovery.name, ", ".join(names) or "none")
        has_peers_only = found.nodes and self._own not in {node.name for node in found.nodes}
        # The nodes of a backend with a registration register after they have formed or joined.
        if has_peers_only and self._discovery.registration is None and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "node %s is not among the nodes that %s lists: nodes that start together may form "
                "several clusters; the list must have every node, by the name that it starts with",
                self._own,
                self._discovery.name,
            )

    async def _join(self, node: NodeAddress) -> Action:
        logger.info("node %s joins the cluster of %s", self._own, node)
        try:
            await self._peers.join(node, self._node_type)
        except JoinRefusedError as refusal:
            return self._formation.join_failed(node, str(refusal))
        self._is_member = True
        return JoinCluster(node)

    async def _delay(self) -> None:
        longest_s = self._settings.startup_delay_max_s
        shortest_s = min(self._settings.startup_delay_min_s, longest_s)
        if longest_s:
            delay_s = self._delay_between(shortest_s, longest_s)
            logger.info("peer discovery begins after a random delay of %.1f seconds", delay_s)
            await self._sleep(delay_s)

    async def _acquire(self, lock: StartupLock) -> None:
        for attempts_left in reversed(range(self._settings.lock_retry_limit)):
            try:
                await lock.acquire()
                return
            except DiscoveryError as error:
                if not attempts_left:
                    raise DiscoveryError(
                        f"node {self._own} did not get the startup lock and stops: {error}"
                    ) from None
                interval_ms = self._settings.lock_retry_timeout_ms
                logger.warning(
                    "retrying to get the startup lock in %d ms (%d attempts left): %s",
                    interval_ms,
                    attempts_left,
                    error,
                )
                await self._sleep(interval_ms / 1000)


async def _release(lock: StartupLock) -> None:
    try:
        await lock.release()
    except DiscoveryError as error:
        logger.warning("failed to release the startup lock, which will expire: %s", error)
