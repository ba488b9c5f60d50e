"""A node as a member of its cluster, from the start of its broker to the end.

It is the composition of the cluster's parts for one run: links to the other nodes, the replicated
declarations, the questions that nodes ask each other, and who belongs to the cluster. Its broker
calls it (broker/clustering.py).

    start:  the store is read ─► links ─► in no cluster: listen, and wait to be joined
                                        └► in one: replicate, link the others, wait in the order in
                                           which they stopped, join, and only then accept clients

A node joins by a question to any member, which declares it as a member (`join`). Membership is
declared like everything else (metadata/member_records.py): all members dial whom it names.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from leveret.broker.clock import Clock, Timer
from leveret.broker.config import Config, SettingError
from leveret.broker.config.cluster_settings import PAUSE_IF_ALL_DOWN, PAUSE_MINORITY
from leveret.broker.declarations import PutParameter
from leveret.broker.pending_in_task import in_task
from leveret.broker.policies.parameters import CLUSTER_NAME, GLOBAL, NO_VHOST
from leveret.broker.registry.declaration_log import LocalDeclarationLog
from leveret.broker.services import Services
from leveret.cluster.first_start import FirstStart
from leveret.cluster.links.configured_links import make_links
from leveret.cluster.links.links import Links
from leveret.cluster.links.services import METADATA_SERVICE
from leveret.cluster.membership.start_order import WAIT_MS, Joins, MayStart, StartOrder
from leveret.cluster.membership_changes import (
    ClusterError,
    Membership,
    MembershipChanges,
    check_membership,
)
from leveret.cluster.metadata.history import ENTRIES_KEPT, History, Saved, read
from leveret.cluster.metadata.member_records import (
    CLUSTER_NODE,
    cluster_id_of,
    members_of,
    put_cluster_id,
    put_member,
)
from leveret.cluster.metadata.messages import Entry, Member, ViewId, ViewStart
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.replicated_declarations import ReplicatedDeclarations
from leveret.cluster.metadata.replication import Replication
from leveret.cluster.partitions.rules import PauseIfAllDown, PauseMinority
from leveret.cluster.questions import Questions
from leveret.cluster.queues.remote_queues import RemoteQueues
from leveret.storage.metadata_rows import Definitions
from leveret.storage.metadata_sync import MetadataSync

TICK_MS = 250
FORGET_MS = 5_000
CHECK_MEMBERSHIP_MS = 5_000
"""How long a running node takes a starting one in, before that asks whether it is a member."""

logger = logging.getLogger("leveret.cluster")


class StartAs(NamedTuple):
    """How a node starts.

    is_forced: without waiting for others (force_boot). is_patient: it waits for them without a time
    limit, since it paused. takes_from: it takes everything from one of these, and what it has of
    its own is discarded.
    """

    is_forced: bool = False
    is_patient: bool = False
    takes_from: tuple[str, ...] = ()


NORMALLY = StartAs()


class ClusterNode:
    """See `Clustering`.

    start_as: see `StartAs`. restart_wanted: called when the node has to stop its broker and start
    it again, with how it then starts. failed: see `Clustering`.
    """

    def __init__(self, config: Config, data_dir: Path, start_as: StartAs = NORMALLY) -> None:
        self.restart_wanted: Callable[[StartAs], object] = lambda start_as: None
        self.failed: Callable[[Exception], object] = lambda error: None
        self.links: Links
        self.questions: Questions
        self.log: ReplicatedDeclarations
        self._config = config
        self._data_dir = data_dir
        self._start_as = start_as
        self._clock: Clock
        self._services: Services
        self._history: History
        self._changes: MembershipChanges
        self._queues: RemoteQueues
        self._first_start: FirstStart
        self._is_new = False
        self._beginning = asyncio.Lock()
        self._replication: Replication | None = None
        self._saved = Saved(OrderedLog(ENTRIES_KEPT), None, frozenset())
        self._timer: Timer | None = None
        self._ticked_at_ms = 0
        self._has_joined = asyncio.Event()
        self._failure: Exception | None = None
        self._partitions: tuple[str, ...] = ()

    # What the node knows of its cluster

    @property
    def name(self) -> str:
        """The name of this node."""
        return self.links.node

    @property
    def members(self) -> dict[str, bool]:
        """All nodes of the cluster, and whether each is a disc node; at least this one."""
        return members_of(self._services.parameters) or {self.name: True}

    @property
    def running(self) -> tuple[str, ...]:
        """The nodes of the view that this one is in."""
        view = self.log.view
        return (self.name,) if view is None else view.names

    @property
    def partitions(self) -> tuple[str, ...]:
        """The running nodes from which this one is partitioned."""
        return self._partitions

    # What the broker calls

    def declaration_log(
        self, services: Services, local: LocalDeclarationLog, sync: MetadataSync
    ) -> ReplicatedDeclarations:
        """See `Clustering`. Raises SettingError and OSError."""
        self._services, self._clock = services, services.clock
        links = make_links(self._config, self._data_dir, self._clock)
        assert links is not None, "without a port for links there is no cluster"
        self.links, self.questions = links, Questions(links)
        self._history = History(services.metadata)
        self.log = log = ReplicatedDeclarations(
            services.registry, services.declaration_writer, sync, self._history, services.events,
            local,
        )  # fmt: skip
        log.joined = self._has_joined.set
        log.failed = self._log_failed
        log.discarded = self._discarded
        log.members_changed = self._members_changed
        log.partitioned = self._partitioned
        log.restart_wanted = self._restart
        log.paused = self._pause
        self.links.register(METADATA_SERVICE, log)
        self._queues = RemoteQueues(self.name, services, links, self._config.cluster)
        self._changes = MembershipChanges(
            self.questions, services, self.name, lambda: self.running, self._begin_cluster
        )
        self._first_start = FirstStart(
            self._config, links, self.questions, self._take_membership, self._begin_cluster
        )
        return log

    def prepare(self, definitions: Definitions) -> None:
        """See `Clustering`."""
        self._is_new = not (definitions.vhosts or definitions.parameters or definitions.damaged)
        if any(row.component == CLUSTER_NODE for row in definitions.parameters):
            self._services.queue_places = self._queues

    async def start(self, definitions: Definitions) -> None:
        """See `Clustering`. Raises SettingError, DiscoveryError and ClusterError."""
        self._saved = read(definitions.parameters)
        members = members_of(self._services.parameters)
        self.links.set_cluster(cluster_id_of(self._services.parameters))
        try:
            await self.links.start()
        except SettingError as error:
            if members or self._first_start.is_wanted or self._config.cluster.port is not None:
                raise
            logger.warning("no node can be linked to this one: %s", error)
        if members:
            await self._run(members)
            await self._first_start.start_again()
        elif self._is_new and self._first_start.is_wanted:
            await self._first_start.run()

    async def stop(self) -> None:
        """See `Clustering`."""
        if self._timer is not None:
            self._timer.cancel()
        await self._first_start.stop()
        await self.links.stop()
        self.log.end("the node stops")

    # Joining

    async def forget(self, node: str) -> None:
        """Remove a node that does not run from the cluster. Raises ClusterError."""
        await self._changes.forget(node)

    async def _begin_cluster(self) -> None:
        """Make a cluster of this node alone: what it has declared so far is no entry of the log.

        The log begins with an entry that nobody has, so who joins gets a snapshot.
        """
        async with self._beginning:
            if self._replication is None:
                await self._begin_cluster_now()

    async def _begin_cluster_now(self) -> None:
        self._set_places()
        parameters = self._services.parameters
        name = parameters.get(GLOBAL, NO_VHOST, CLUSTER_NAME)
        await in_task(
            self.log.submit(
                put_cluster_id(secrets.token_hex(16)),
                put_member(self.name, True),
                # As in RabbitMQ, a cluster is named after its first node unless it has a name.
                PutParameter(
                    GLOBAL, NO_VHOST, CLUSTER_NAME, name or self._config.cluster_name or self.name
                ),
            )
        )
        start = ViewStart(ViewId(0, self.name, self.links.incarnation), 1)
        self._saved = Saved(OrderedLog(ENTRIES_KEPT, (start,), 1), None, frozenset())
        self._replicate({self.name: True})
        self.log.form()
        self.links.set_cluster(cluster_id_of(self._services.parameters))

    async def _take_membership(self, membership: Membership) -> None:
        """A member has taken this node, which has nothing of its own, into its cluster."""
        self._set_places()
        await in_task(
            self.log.submit(
                put_cluster_id(membership.cluster_id),
                *(put_member(name, is_disc) for name, is_disc in membership.members.items()),
            )
        )
        self.links.set_cluster(membership.cluster_id)
        await self._run(membership.members)

    def _set_places(self) -> None:
        """From now on queues may live on other nodes; those that are declared live here."""
        self._services.queue_places = self._queues
        for vhost in self._services.vhosts.values():
            vhost.set_places(self._queues)

    # Running

    async def _run(self, members: dict[str, bool]) -> None:
        """Replicate with these nodes, and wait until this one has all that is declared."""
        self._replicate(members)
        self._link(members)
        await self._wait_in_order(members)
        logger.info("node %s runs with %s", self.name, ", ".join(self.running))

    def _replicate(self, members: dict[str, bool]) -> None:
        saved = self._saved
        self._replication = Replication(
            Member(self.name, self.links.incarnation, members.get(self.name, True)),
            saved.log,
            saved.view,
            frozenset(members),
            takes_from=self._start_as.takes_from,
            may_go_on=self._may_go_on,
            companions=saved.companions,
        )
        self.log.begin(self._replication)
        self._ticked_at_ms = self._clock.now_ms()
        self._tick()

    def _may_go_on(self, names: frozenset[str]) -> bool:
        """Whether the rule for partitions lets these nodes go on without the others."""
        settings = self._config.cluster
        if settings.partition_handling == PAUSE_MINORITY:
            return PauseMinority(frozenset(self.members))(names)
        if settings.partition_handling == PAUSE_IF_ALL_DOWN:
            return PauseIfAllDown(
                frozenset(node.name for node in settings.pause_if_all_down_nodes)
            )(names)
        return True

    async def _wait_in_order(self, members: dict[str, bool]) -> None:
        """Wait for a node that ran after this one, unless there is none. Raises ClusterError."""
        replication = self._replication
        assert replication is not None
        saved, start_as = self._saved, self._start_as
        order = StartOrder(
            replication.views.status(),
            saved.companions or frozenset(name for name, is_disc in members.items() if is_disc),
            is_forced=start_as.is_forced,
        )
        deadline_ms = self._clock.now_ms()
        asks_at_ms = self._clock.now_ms() + CHECK_MEMBERSHIP_MS
        while not self._has_joined.is_set():
            decision = order.decide(replication.heard)
            if isinstance(decision, Joins) and self._clock.now_ms() >= asks_at_ms:
                if decision.name in self.questions.nodes:
                    await check_membership(self.questions, decision.name, self.name, members)
                asks_at_ms = self._clock.now_ms() + CHECK_MEMBERSHIP_MS
            # A node that was in no view yet has nothing to start from.
            if isinstance(decision, MayStart) and saved.view is not None:
                self.log.form()
            elif not isinstance(decision, Joins) and self._clock.now_ms() >= deadline_ms:
                goes_on, line = order.waited()
                if not goes_on and not start_as.is_patient:
                    raise ClusterError(line)
                logger.warning("%s", line)
                deadline_ms = self._clock.now_ms() + WAIT_MS
            try:
                async with asyncio.timeout(TICK_MS / 1000):
                    await self._has_joined.wait()
            except TimeoutError:
                continue
        if self._failure is not None:
            raise ClusterError(f"node {self.name} did not join its cluster: {self._failure}")

    def _tick(self) -> None:
        self._timer = self._clock.call_later_ms(TICK_MS, self._tick)
        now_ms = self._clock.now_ms()
        if now_ms - self._ticked_at_ms > self._config.cluster.tick_time_s * 1000:
            logger.warning("this node did not run for a while: it asks the others for its place")
            self.log.suspended()
        self._ticked_at_ms = now_ms
        self.log.tick()

    def _link(self, members: dict[str, bool]) -> None:
        for name in members:
            if name != self.name:
                self.links.dial(name)

    def _members_changed(self) -> None:
        """A node was declared to be a member, or no longer to be one."""
        members = members_of(self._services.parameters)
        self.log.admit(frozenset(members))
        self._link(members)
        # Later: a node that leaves waits for the answer to its question.
        self._clock.call_later_ms(FORGET_MS, self._forget_others)

    def _forget_others(self) -> None:
        """Close links to nodes that are no members."""
        if self._replication is None:
            return
        for name in tuple(self.links.peers):
            if name not in self.members:
                self.links.forget(name, f"node {name} is not a member of the cluster")

    def _partitioned(self, names: tuple[str, ...]) -> None:
        self._partitions = names
        if names:
            logger.error(
                "the cluster is partitioned: node %s and %s have gone on without each other",
                self.name, ", ".join(names),
            )  # fmt: skip

    def _log_failed(self, error: Exception) -> None:
        """What the others have applied cannot be applied here: the node stops."""
        logger.error("what is declared in the cluster cannot be applied on this node: %s", error)
        self._failure = error
        # Whoever waits for the node to join learns of it.
        self._has_joined.set()
        self.failed(error)

    def _discarded(self, entries: Sequence[Entry]) -> None:
        logger.error(
            "%d changes of declarations that only node %s had are replaced by those of the others",
            len(entries), self.name,
        )  # fmt: skip

    def _restart(self, takes_from: tuple[str, ...]) -> None:
        names = ", ".join(takes_from)
        logger.warning("node %s starts again, with the metadata of %s", self.name, names)
        self.restart_wanted(StartAs(is_patient=True, takes_from=takes_from))

    def _pause(self, members: tuple[str, ...]) -> None:
        logger.error(
            "node %s pauses: it can reach %s of the cluster, which is not enough to go on "
            "(cluster_partition_handling is %s). It starts again when it can reach more",
            self.name, ", ".join(members), self._config.cluster.partition_handling,
        )  # fmt: skip
        self.restart_wanted(StartAs(is_patient=True))
