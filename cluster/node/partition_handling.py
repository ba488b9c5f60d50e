"""The handling of partitions by one node: `cluster_partition_handling` on a running node.

The replication finds a partition, and asks whether the node may go on without others; the decisions
are in partitions/. This module reports partitions, takes part in an autoheal (healing.py), and has
the node restart or pause, after everything that only it has was written (discarded/keeping.py). The
decision to give way is on disk before the restart (HY2 of metadata/history.py): it also binds a
start after a crash, or by an operator.
"""

import logging
from collections.abc import Callable

from msgspec.structs import astuple

from leveret.broker.config.cluster_settings import ClusterSettings
from leveret.broker.services.services import Services
from leveret.cluster.membership.declared_members import DeclaredMembers
from leveret.cluster.metadata.history import History
from leveret.cluster.metadata.replication import MetadataReplication
from leveret.cluster.partitions.autoheal import PartitionReport
from leveret.cluster.partitions.configured_rules import may_go_on
from leveret.cluster.partitions.healing import Healing
from leveret.cluster.partitions.leftovers.keeping import Keeping
from leveret.cluster.rpc.rpc import Rpc
from leveret.cluster.startup.start_as import StartAs
from leveret.storage.metadata.metadata_sync import MetadataSync

logger = logging.getLogger("leveret.cluster")


class PartitionHandling:
    """restart_wanted: called when the node has to stop its broker and start it again.

    partitioned_from: the running nodes from which this one is partitioned.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        services: Services,
        rpc: Rpc,
        name: str,
        members: DeclaredMembers,
        keeping: Keeping,
        history: History,
        sync: MetadataSync,
        restart_wanted: Callable[[StartAs], object],
    ) -> None:
        self.partitioned_from: tuple[str, ...] = ()
        self._settings = settings
        self._services = services
        self._name = name
        self._members = members
        self._keeping = keeping
        self._history = history
        self._sync = sync
        self._restart_wanted = restart_wanted
        self._replication: MetadataReplication | None = None
        self._healing: Healing | None = None
        if settings.heals_by_itself:
            self._healing = Healing(
                rpc, services.clock, name, lambda: frozenset(members.all), self._report,
                self.give_way,
            )  # fmt: skip

    def begin(self, replication: MetadataReplication) -> None:
        """The node replicates from now on."""
        self._replication = replication

    def tick(self) -> None:
        """A fraction of a second has passed."""
        if self._healing is not None:
            self._healing.tick()

    async def stop(self) -> None:
        """End the work under way, and request no restart from now on."""
        self._restart_wanted = lambda start_as: None
        if self._healing is not None:
            await self._healing.stop()

    def may_go_on(self, names: frozenset[str]) -> bool:
        """Whether the rule for partitions lets these nodes go on without the others."""
        return may_go_on(self._settings, self._members.all)(names)

    def partitioned(self, names: tuple[str, ...]) -> None:
        """The node is partitioned from these nodes; from none if there are none."""
        self.partitioned_from = names
        if names:
            logger.error(
                "the cluster is partitioned: node %s and %s have continued without each other",
                self._name, ", ".join(names),
            )  # fmt: skip

    def give_way(self, takes_from: tuple[str, ...]) -> None:
        """Restart, and take everything from one of these nodes."""
        names = ", ".join(takes_from)
        logger.warning("node %s restarts and takes over the metadata of %s", self._name, names)
        self._keeping.gives_way_to = takes_from
        self._history.give_way(takes_from)

        def written(error: Exception | None) -> None:
            if error is not None:
                logger.error(
                    "failed to record on disk that node %s takes over the metadata of %s: %s; if "
                    "the node crashes before it has done so, restart it while one of these runs",
                    self._name, names, error,
                )  # fmt: skip
            self._restart_wanted(StartAs(is_patient=True, takes_from=takes_from))

        self._sync.when_synced(written)

    def pause(self, members: tuple[str, ...]) -> None:
        """Stop serving clients until more nodes than these can be reached."""
        logger.error(
            "node %s pauses: it can reach only %s of the cluster, which is not enough to continue "
            "(cluster_partition_handling is %s). It starts again when it can reach more",
            self._name, ", ".join(members), self._settings.partition_handling,
        )  # fmt: skip
        self._restart_wanted(StartAs(is_patient=True))

    def _report(self) -> PartitionReport | None:
        """The node's report for an autoheal; None while it is in no view."""
        replication = self._replication
        if replication is None or not replication.views.is_in_service:
            return None
        view, counts = replication.views.view, self._services.counts
        return PartitionReport(
            self._name, view.names, astuple(view.id), self.partitioned_from,
            counts.connections_opened - counts.connections_closed,
        )  # fmt: skip
