"""The start of a member of a cluster: it waits, in the order in which nodes stopped, and joins.

    meet:  the first status of the other members, or that they cannot be reached
    wait:  for a node that ran after this one, unless there is none; then for all declarations

membership/start_order.py makes the decisions. The wait ends when the replication has joined a view
(`joined`), or cannot go on (`failed`).
"""

import asyncio
import logging
from collections.abc import Collection, Mapping

from leveret.broker.config.cluster_settings import ClusterSettings
from leveret.broker.runtime.clock import Clock
from leveret.cluster.links.links import Links
from leveret.cluster.membership.membership_changes import ClusterError, check_membership
from leveret.cluster.membership.start_order import Joins, MayStart, StartOrder
from leveret.cluster.metadata.replicated_declarations import ReplicatedDeclarations
from leveret.cluster.metadata.replication import MetadataReplication
from leveret.cluster.partitions.configured_rules import majority
from leveret.cluster.rpc.rpc import Rpc

CHECK_MEMBERSHIP_MS = 5_000
"""Time for a running node to take this one in, before this one asks whether it is a member."""
POLL_SECONDS = 0.25
"""How often a waiting node checks which nodes have appeared."""

MEET_MS_MAX, MEET_POLL_SECONDS = 3_000, 0.02
"""How long a node that starts waits for others that neither answer nor refuse, and how often it
looks."""

logger = logging.getLogger("leveret.cluster")


class OrderedStart:
    """One start of one node, which replicates already. log, replication: the node's."""

    def __init__(
        self,
        settings: ClusterSettings,
        links: Links,
        rpc: Rpc,
        clock: Clock,
        log: ReplicatedDeclarations,
    ) -> None:
        self._settings = settings
        self._links = links
        self._rpc = rpc
        self._clock = clock
        self._log = log
        self._has_joined = asyncio.Event()
        self._failure: Exception | None = None

    def joined(self) -> None:
        """The node has all declarations."""
        self._has_joined.set()

    def failed(self, error: Exception) -> None:
        """The node cannot go on: the wait for it to join ends with the error."""
        self._failure = error
        self._has_joined.set()

    async def meet(self, replication: MetadataReplication, members: Collection[str]) -> None:
        """Wait for the first status of the other members, or until they cannot be reached.

        Otherwise a node that may start alone would do so before it learns that the others run and
        have removed it.
        """
        deadline_ms = self._clock.now_ms() + MEET_MS_MAX
        while self._clock.now_ms() < deadline_ms:
            heard = {status.member.name for status in replication.heard}
            unknown = set(members) - heard - {self._links.node}
            if all(self._links.problem_with(name) for name in unknown):
                return
            await asyncio.sleep(MEET_POLL_SECONDS)

    async def wait(
        self,
        replication: MetadataReplication,
        members: Mapping[str, bool],
        companions: frozenset[str],
        *,
        is_forced: bool,
        is_patient: bool,
    ) -> None:
        """Wait for a node that ran after this one, unless there is none. Raises ClusterError.

        companions: as written last. is_forced, is_patient: see `NextStart` and `StartAs`.
        """
        name, own = self._links.node, replication.views.status()
        has_run = bool(own.members)
        disc_nodes = frozenset(one for one, is_disc in members.items() if is_disc)
        order = StartOrder(
            own,
            companions if companions and members.get(name, True) else disc_nodes,
            is_forced=is_forced,
            is_majority=majority(self._settings, members),
            waits_max=None if is_patient else self._settings.start_waits_max,
            wait_ms=self._settings.start_wait_ms,
        )
        deadline_ms = self._clock.now_ms()
        asks_at_ms = self._clock.now_ms() + CHECK_MEMBERSHIP_MS
        while not self._has_joined.is_set():
            decision = order.decide(replication.heard)
            if isinstance(decision, Joins) and self._clock.now_ms() >= asks_at_ms:
                if decision.name in self._rpc.nodes:
                    await check_membership(self._rpc, decision.name, name, members)
                asks_at_ms = self._clock.now_ms() + CHECK_MEMBERSHIP_MS
            # A node that was in no view yet has nothing to start from.
            if isinstance(decision, MayStart) and has_run:
                self._log.form(decision.names)
            elif not isinstance(decision, Joins) and self._clock.now_ms() >= deadline_ms:
                goes_on, line = order.waited()
                if not goes_on:
                    raise ClusterError(line)
                logger.warning("%s", line)
                deadline_ms = self._clock.now_ms() + self._settings.start_wait_ms
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._has_joined.wait()
            except TimeoutError:
                continue
        if self._failure is not None:
            raise ClusterError(f"node {name} did not join its cluster: {self._failure}")
