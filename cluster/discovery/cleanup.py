"""Node clean-up: nodes that are down and no longer listed by the backend.

A node that was removed from the backend permanently, such as a virtual machine of an autoscaling
group, stays a member of the cluster until it is forgotten. `CleanUp.step` finds such nodes; its
caller removes them as `forget_cluster_node` does. By default they are only logged.

No node is removed if the backend cannot be asked, or lists no node at all. RabbitMQ counts a
failure to ask as an empty list and forgets every node that is down.
"""

import logging
from collections.abc import Iterable

from leveret.broker.config.formation_settings import FormationSettings
from leveret.cluster.discovery.discovery import Discovery, DiscoveryError

INTERVAL_SECONDS = 60
"""RabbitMQ's default, if node clean-up is switched on by its other setting."""

logger = logging.getLogger("leveret.peer_discovery")


def unknown_nodes(
    members: Iterable[str], running: Iterable[str], listed: Iterable[str]
) -> tuple[str, ...]:
    """The members that do not run and are not listed, in order; none if nothing is listed."""
    known = set(listed)
    return tuple(sorted(set(members) - set(running) - known)) if known else ()


class CleanUp:
    """interval_s: how often `step` is to be called; None: node clean-up is switched off."""

    def __init__(self, settings: FormationSettings, discovery: Discovery) -> None:
        self._discovery = discovery
        self._only_logs = settings.cleanup_only_logs is not False
        self.interval_s: int | None = settings.cleanup_interval_s
        if self.interval_s is None and settings.cleanup_only_logs is not None:
            self.interval_s = INTERVAL_SECONDS

    async def step(self, members: Iterable[str], running: Iterable[str]) -> tuple[str, ...]:
        """Check once. Returns the nodes to remove from the cluster."""
        down = set(members) - set(running)
        if not down:
            return ()
        try:
            listed = await self._discovery.list_nodes()
        except DiscoveryError as error:
            logger.warning("node clean-up failed to list the nodes: %s", error)
            return ()
        unknown = unknown_nodes(down, (), (node.name for node in listed.nodes))
        for name in unknown:
            if self._only_logs:
                logger.warning(
                    "node %s is down and not listed by %s; leveretctl forget_cluster_node removes "
                    "it from the cluster",
                    name,
                    self._discovery.name,
                )
            else:
                logger.warning(
                    "node %s is down and not listed by %s: it is removed from the cluster",
                    name,
                    self._discovery.name,
                )
        return () if self._only_logs else unknown
