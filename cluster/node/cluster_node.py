"""A node as a member of its cluster, from the start of its broker to the end.

It composes the cluster's parts for one run: links to the other nodes, the replicated declarations,
the requests between nodes, and the membership. Its broker calls it
(broker/services/clustering.py).

    start:  the store is read ─► links ─► in no cluster: listen, and wait to be joined
                                        └► in one: replicate, link the others, wait in the order in
                                           which they stopped, join, and only then accept clients

A node joins by a request to any member, which declares it as a member (`join`). Membership is
declared like everything else (metadata/member_records.py): all members dial the nodes it names.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from leveret.broker.config import Config, SettingError
from leveret.broker.declarations.values import Declaration, PutParameter
from leveret.broker.policies.parameters import CLUSTER_NAME, GLOBAL, NO_VHOST
from leveret.broker.registry.declaration_log import LocalDeclarationLog
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task, in_task
from leveret.broker.services.services import Services
from leveret.cluster.deduplication.seen_elsewhere import SeenOnOtherNodes
from leveret.cluster.discovery.cleanup import CleanUp
from leveret.cluster.links.addresses import ADDRESSES_FILE
from leveret.cluster.links.configured_links import make_links
from leveret.cluster.links.links import Links
from leveret.cluster.links.services import METADATA_SERVICE
from leveret.cluster.membership.declared_members import DeclaredMembers
from leveret.cluster.membership.members import check_removal
from leveret.cluster.membership.membership_changes import (
    ClusterError,
    ClusterMembership,
    MembershipChanges,
    ask_to_rename,
)
from leveret.cluster.membership.node_clean_up import NodeCleanUp
from leveret.cluster.metadata.history import ENTRIES_KEPT, History, Saved
from leveret.cluster.metadata.log_listener import LogListener
from leveret.cluster.metadata.member_records import (
    CLUSTER_NODE,
    cluster_id_of,
    put_cluster_id,
    put_member,
)
from leveret.cluster.metadata.messages import ViewId, ViewMember, ViewStart
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.outputs import Discarded
from leveret.cluster.metadata.replicated_declarations import ReplicatedDeclarations
from leveret.cluster.metadata.replication import MetadataReplication
from leveret.cluster.mirrors.mirrored_queues import MirroredQueues
from leveret.cluster.node.node_features import FEATURES
from leveret.cluster.node.nodes_of_quorum_queues import NodesOfQuorumQueues
from leveret.cluster.node.partition_handling import PartitionHandling
from leveret.cluster.node.replicated_kinds import NodeParts, serve_kinds
from leveret.cluster.node_status import feature_flags
from leveret.cluster.node_status.clients_elsewhere import ClientsElsewhere
from leveret.cluster.node_status.limited_counts import LimitedCounts
from leveret.cluster.node_status.node_states import NodeStates
from leveret.cluster.partitions import configured_rules
from leveret.cluster.partitions.leftovers.keeping import Keeping
from leveret.cluster.partitions.suspension import Suspension
from leveret.cluster.placement.replicated_kind import ReplicatedKinds
from leveret.cluster.quorum.conversion.conversions import Conversions
from leveret.cluster.quorum.conversion.held_factory import HeldFactory
from leveret.cluster.quorum.conversion.node_holds import NodeHolds
from leveret.cluster.quorum.conversion.parts import Parts
from leveret.cluster.quorum.machine import commands
from leveret.cluster.quorum.queue_groups.quorum_queues import QuorumQueues
from leveret.cluster.remote_queues.placed_factory import serve_placed
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.client.sender_numbers import SenderNumbers
from leveret.cluster.replicated_queues.client.timed_request import answer_ms
from leveret.cluster.retained.retained_copies import RetainedCopies
from leveret.cluster.rpc.absent_owners import AbsentOwnersElsewhere
from leveret.cluster.rpc.direct_replies import RemoteReplies
from leveret.cluster.rpc.rpc import Rpc
from leveret.cluster.startup import next_start
from leveret.cluster.startup.first_start import FirstStart
from leveret.cluster.startup.ordered_start import MEET_MS_MAX, OrderedStart
from leveret.cluster.startup.start_as import NORMALLY, StartAs
from leveret.storage.disk.disk import StoreError
from leveret.storage.metadata.metadata import MetadataError
from leveret.storage.metadata.metadata_rows import Definitions
from leveret.storage.metadata.metadata_sync import MetadataSync
from leveret.storage.store.store import Store

TICK_MS = 250
logger = logging.getLogger("leveret.cluster")


class ClusterNode(LogListener):
    """The `Clustering` of one run of a node.

    restart_wanted: called when the node has to stop its broker and start it again, with the way in
    which it then starts.
    """

    def __init__(self, config: Config, data_dir: Path, start_as: StartAs = NORMALLY) -> None:
        self.restart_wanted: Callable[[StartAs], object] = lambda start_as: None
        self.failed: Callable[[Exception], object] = lambda error: None
        self.running_changed: Callable[[tuple[str, ...]], object] = lambda running: None
        self.links: Links
        self.rpc: Rpc
        self.log: ReplicatedDeclarations
        self.states: NodeStates
        self.mirrored_queues: MirroredQueues
        self.kinds = ReplicatedKinds()
        self.conversions: Conversions | None = None
        self.suspension: Suspension
        self._config = config
        self._data_dir = data_dir
        self._start_as = start_as
        self._said = next_start.NOTHING_SAID
        self._clock: Clock
        self._services: Services
        self._history: History
        self._changes: MembershipChanges
        self._queues: RemoteQueues
        self._seen: SeenOnOtherNodes
        self._first_start: FirstStart
        self._clean_up: NodeCleanUp
        self._members: DeclaredMembers
        self._ordered_start: OrderedStart
        self._partition_handling: PartitionHandling
        self._keeping: Keeping
        self._is_new = self._is_restarting = self._is_stopping = False
        self._beginning = asyncio.Lock()
        self._replication: MetadataReplication | None = None
        self._saved = Saved(OrderedLog(ENTRIES_KEPT), None, frozenset())
        self._takes_from: tuple[str, ...] = ()
        self._timer: Timer | None = None

    # The node's knowledge of its cluster

    @property
    def name(self) -> str:
        """The name of this node."""
        return self.links.node

    @property
    def members(self) -> dict[str, bool]:
        """All nodes of the cluster, and whether each is a disc node; at least this one."""
        return dict(self._members.all)

    @property
    def running(self) -> tuple[str, ...]:
        """The nodes of the view that this one is in."""
        view = self.log.view
        return (self.name,) if view is None else view.names

    @property
    def is_clustered(self) -> bool:
        """Whether the node is in a cluster, perhaps of itself alone."""
        return self._replication is not None

    @property
    def alive(self) -> frozenset[str]:
        """The nodes that run, and those that one of them has a link with.

        A node that starts is a member before it runs, and before discovery backends list it.
        """
        reached = () if self._replication is None else self._replication.reached
        return frozenset((*self.running, *reached))

    @property
    def features(self) -> dict[str, str]:
        """The state of each feature flag."""
        return feature_flags.states(peer.features for peer in self.links.peers.values())

    @property
    def partitions(self) -> tuple[str, ...]:
        """The running nodes from which this one is partitioned."""
        return self._partition_handling.partitioned_from

    @property
    def late_confirms_count(self) -> int:
        """How many mirrored queues have waited here long: for members, or for the leader."""
        return self.mirrored_queues.replicas.late_count

    async def leaders_handed_over(self) -> bool:
        """Wait until other nodes lead the queues of this node, which is under maintenance.

        Returns whether all of them could be handed over.
        """
        return all([await kind.hand_over() for kind in self.kinds])

    # What the broker calls

    def tell_static_shovels(self, names: tuple[str, ...]) -> None:
        """Tell the other nodes the names of this node's static shovels."""
        self.states.set_static_shovels(names)

    def others_with_static_shovel(self, name: str) -> frozenset[str]:
        """The other nodes whose configuration has a static shovel of this name."""
        return self.states.with_static_shovel(name)

    def declaration_log(
        self, services: Services, local: LocalDeclarationLog, sync: MetadataSync
    ) -> ReplicatedDeclarations:
        """Make the replicated log of declarations. Raises SettingError and OSError."""
        configured_rules.check(self._config.cluster)
        self._services, self._clock = services, services.clock
        services.shared_features.lacking = self._lacking
        links = make_links(self._config, self._data_dir, self._clock, features=FEATURES)
        assert links is not None, "without a port for links there is no cluster"
        self.links, self.rpc = links, Rpc(links)
        self._history = History(services.metadata)
        self.log = log = ReplicatedDeclarations(
            services.registry, services.declaration_writer, sync, self._history, services.events,
            local, services.turns, self,
        )  # fmt: skip
        self._members = DeclaredMembers(services, links)
        self._ordered_start = OrderedStart(self._config.cluster, links, self.rpc, self._clock, log)
        self.links.register(METADATA_SERVICE, log)
        self.states = NodeStates(
            links, services.alarms, services.client_addresses, services.mqtt_addresses,
            services.amqp10_addresses,
        )  # fmt: skip
        self.states.static_shovels_changed = lambda: self.running_changed(self.running)
        self._share(services, links)
        self._queues = RemoteQueues(
            self.name, services, links, self._config.cluster,
            not_to_choose=lambda: self.states.under_maintenance, incarnation=links.incarnation,
        )  # fmt: skip
        self.mirrored_queues = MirroredQueues(
            self.name, links.incarnation, services, links, self._queues, log, self.states,
            int(self._clock.wall_time_s() * 1000) - self._clock.now_ms(),
        )  # fmt: skip
        self.kinds.add(self.mirrored_queues)
        services.replies.others = RemoteReplies(services.replies, links, self._queues.untaken)
        self._make_membership(services, links)
        self._make_partition_handling(services, sync)
        return log

    def _share(self, services: Services, links: Links) -> None:
        """What nodes tell each other beside declarations and messages."""
        LimitedCounts(links, services)
        RetainedCopies(links, services.retained, self._clock)
        ClientsElsewhere(links, services.client_ids, self._clock, services.turns)
        self._seen = SeenOnOtherNodes(links, services.seen_places, self._clock, services.turns)
        owners = services.registry.exclusive_owners
        AbsentOwnersElsewhere(self.rpc, services.absent_owners, owners)

    def _make_membership(self, services: Services, links: Links) -> None:
        """How nodes join and leave the cluster."""
        self._changes = MembershipChanges(
            self.rpc, services, self.name, lambda: self.running, self._begin_cluster,
            lambda: self.log.view is not None,
        )  # fmt: skip
        self._first_start = FirstStart(
            self._config, links, self.rpc, self._take_membership, self._begin_cluster
        )
        self._clean_up = NodeCleanUp(
            CleanUp(self._config.cluster_formation, self._first_start.discovery), self._clock,
            lambda: tuple(self.members), lambda: self.alive, self.forget,
        )  # fmt: skip

    def _make_partition_handling(self, services: Services, sync: MetadataSync) -> None:
        """What the node does when it loses others, or has been suspended itself."""
        self.suspension = Suspension(
            services.turns, self._config.cluster.tick_time_s, self.log.suspended,
            self._knows_its_place,
        )  # fmt: skip
        self._keeping = Keeping(
            self._data_dir, self.name, services.registry, lambda: tuple(sorted(self.links.peers))
        )
        self._partition_handling = PartitionHandling(
            self._config.cluster, services, self.rpc, self.name, self._members,
            self._keeping, self._history, sync, self._restart,
        )  # fmt: skip

    async def prepare(self, definitions: Definitions, store: Store | None) -> Definitions:
        """Before declarations are restored: let queues of a clustered node live on other nodes."""
        assert store is not None, "a node with links has a data directory"
        queues, all_have = self._queues, self._services.shared_features.all_have
        node = OwnNode(
            queues.node, answer_ms(self._config.channel_operation_timeout_ms),
            SenderNumbers(queues.node, queues.incarnation), queues.addresses, queues.untaken,
            self._services.counts.given_by_quorum_queues, not self._config.is_as_rabbitmq_4,
            self._config.is_as_rabbitmq_4_3, partial(all_have, commands.ANNOTATIONS_FEATURE),
            partial(all_have, commands.DEDUPLICATION_FEATURE),
            partial(all_have, commands.ON_TIME_FEATURE),
            partial(all_have, commands.QUORUM_TIMES_FEATURE),
        )  # fmt: skip
        cluster = NodesOfQuorumQueues(self, self.links, self.states)
        parts = NodeParts(node, self._services, self.links, store, cluster)
        is_alone = all(row.component != CLUSTER_NODE for row in definitions.parameters)
        definitions = await serve_kinds(parts, self.kinds, definitions, is_alone=is_alone)
        self._services.queue_kinds.add_undeclared(HeldFactory(self._services.queue_kinds))
        holds = NodeHolds(self._services, self.rpc)
        quorum_queues = self.kinds.find(QuorumQueues)
        assert quorum_queues is not None, "each node serves quorum queues"
        find_member = quorum_queues.groups.members.get
        mirrors = self.mirrored_queues.planned
        self.conversions = Conversions(
            Parts(self._services, self.rpc, queues, holds, self, find_member, mirrors)
        )
        self.states.maintenance_changed = self._maintenance_changed
        self._is_new = not (definitions.vhosts or definitions.parameters or definitions.damaged)
        if not is_alone:
            self._serve_cluster()
        return definitions

    def _lacking(self, feature: str) -> list[str]:
        """The other nodes that lack a feature, those that have gone down included."""
        return [node for node, has in self.links.features.items() if feature not in has]

    async def start(self, definitions: Definitions) -> None:
        """Join the other nodes. Raises SettingError, DiscoveryError and ClusterError."""
        for kind in self.kinds:
            kind.restored()
        if self.conversions is not None:
            self.conversions.hold_decided()
        self._saved = self._history.read(definitions.parameters)
        self._keeping.takes_from = self._takes_from = (
            self._start_as.takes_from or self._saved.takes_from
        )
        try:
            self._said = next_start.read(self._data_dir)
        except ValueError as error:
            raise ClusterError(str(error)) from None
        members = self._members.declared
        if definitions.damaged and not members and self.links.known_addresses:
            raise ClusterError(self._cluster_is_lost())
        self.links.set_cluster(cluster_id_of(self._services.parameters))
        try:
            await self.links.start()
        except SettingError as error:
            if members or self._first_start.is_wanted or self._config.cluster.port is not None:
                raise
            logger.warning("no node can link to this one: %s", error)
        if members:
            await self._run(members)
            await self._first_start.start_again()
        else:
            if not definitions.damaged:
                self._has_declarations()
            if self._is_new and self._first_start.is_wanted:
                await self._first_start.run()
        await given_in_task(self._seen.caught_up())
        next_start.forget(self._data_dir)
        self._clean_up.start()

    def _cluster_is_lost(self) -> str:
        """Why it does not start: alone, it would refuse the others and lack their queues."""
        others = ", ".join(sorted(self.links.known_addresses))
        return (
            f"node {self.name} has lost its last declarations, and is in no cluster by those that "
            f"are left, but knows {others}. Move its data directory away, remove it from its "
            "cluster with leveretctl forget_cluster_node on another node, and join it again. If it "
            f"was in no cluster, remove {self._data_dir / ADDRESSES_FILE}"
        )

    async def stop(self) -> None:
        """Leave the running nodes; the clients' connections are closed."""
        self._is_stopping = True
        view = self.log.view
        if not self._is_restarting and view is not None and len(view.names) > 1:
            # The others give this node no new mirrors while it stops.
            self.states.set_under_maintenance(True)
            for kind in self.kinds:
                await kind.leave()
        if self._timer is not None:
            self._timer.cancel()
        await self._clean_up.stop()
        self.suspension.stop()
        await self._partition_handling.stop()
        await self._first_start.stop()
        for kind in self.kinds:
            kind.close()
        # Before the links go down: the node must not note that it ran on without the others.
        self.log.end("the node stops")
        await self.links.stop()
        await self._keeping.stop()

    # Joining

    async def forget(self, node: str) -> None:
        """Remove a node that does not run from the cluster. Raises ClusterError."""
        await self._changes.forget(node)

    async def _begin_cluster(self) -> None:
        """Make a cluster of this node alone: its declarations so far are no entries of the log.

        The log begins with an entry that no node has, so a node that joins gets a snapshot.
        """
        async with self._beginning:
            if self._replication is None:
                await self._begin_cluster_now()

    async def _begin_cluster_now(self) -> None:
        self._serve_cluster()
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

    async def _take_membership(self, membership: ClusterMembership) -> None:
        """A member has taken this node, which has nothing of its own, into its cluster."""
        self._serve_cluster()
        await in_task(
            self.log.submit(
                put_cluster_id(membership.cluster_id),
                *(put_member(name, is_disc) for name, is_disc in membership.members.items()),
            )
        )
        self.links.set_cluster(membership.cluster_id)
        await self._run(membership.members)

    def _serve_cluster(self) -> None:
        """From now on queues may live on other nodes; the ones declared so far live here."""
        kinds = self._services.queue_kinds
        serve_placed(kinds, self._queues)
        for kind in self.kinds:
            kinds.add(kind.factory)
        for vhost in self._services.vhosts.values():
            vhost.joined_cluster()

    # Running

    async def _run(self, members: dict[str, bool]) -> None:
        """Replicate with these nodes, and wait until this one has all declarations."""
        if self._said.was:
            await self._tell_new_name(members)
        left = {name: kind for name, kind in members.items() if name not in self._said.forgets}
        replication = self._replicate(left)
        self._members.link(left)
        await self._ordered_start.meet(replication, left)
        await self._ordered_start.wait(
            replication,
            left,
            self._saved.companions,
            is_forced=self._said.is_forced,
            is_patient=self._start_as.is_patient,
        )
        for name in self._said.forgets:
            if name in self.members:
                await self.forget(name)
        logger.info("node %s runs with %s", self.name, ", ".join(self.running))

    def _replicate(self, members: dict[str, bool]) -> MetadataReplication:
        self._members.number_messages(members)
        saved = self._saved
        self._replication = replication = MetadataReplication(
            ViewMember(self.name, self.links.incarnation, members.get(self.name, True)),
            saved.log,
            saved.view,
            frozenset(members),
            takes_from=self._takes_from,
            may_go_on=self._partition_handling.may_go_on,
            companions=saved.companions,
            promised=saved.promised,
        )
        self._partition_handling.begin(replication)
        self.log.begin(replication)
        self.suspension.start()
        self._tick()
        return replication

    async def _tell_new_name(self, members: dict[str, bool]) -> None:
        """Have the other nodes, if they run, know this node by its new name.

        Their declarations count then: their logs have the old name. Raises ClusterError.
        """
        self._members.link(members)
        others = [name for name in members if name != self.name]
        await self.rpc.linked(others, MEET_MS_MAX / 1000)
        renamed_by = await ask_to_rename(self.rpc, others, self._said.was)
        if renamed_by is not None:
            self._takes_from = (renamed_by,)

    def _tick(self) -> None:
        self._timer = self._clock.call_later_ms(TICK_MS, self._tick)
        self.suspension.tick()
        self.log.tick()
        self._partition_handling.tick()
        for kind in self.kinds:
            kind.tick()

    def _knows_its_place(self) -> bool:
        """Whether this node may answer its clients: it is in its view, or about to leave it."""
        views = None if self._replication is None else self._replication.views
        return views is None or not views.fence.is_up or views.ending is not None

    def _restart(self, start_as: StartAs) -> None:
        self._is_restarting = True
        self.restart_wanted(start_as)

    # What the log of declarations calls

    def before_input(self) -> None:
        """A suspension of the process comes before the input that follows it."""
        self.suspension.look()

    def joined(self) -> None:
        """The node has all declarations, so its start goes on."""
        self._ordered_start.joined()
        self._has_declarations()

    def _has_declarations(self) -> None:
        """Remove what was left of queues that are gone."""
        for kind in self.kinds:
            kind.has_declarations()
        if self.conversions is not None:
            self.conversions.remove_left_over()
            if self._replication is None:
                self.conversions.carry_out_decided(is_coordinator=True)

    def members_changed(self) -> None:
        """A node was declared to be a member, or no longer to be one."""
        self.log.admit(frozenset(self._members.declared))
        self._members.changed()
        for kind in self.kinds:
            kind.members_changed()

    def view_changed(self) -> None:
        """The node is in another view: other leaders and mirrors may be wanted."""
        for kind in self.kinds:
            kind.view_changed()
        self._carry_out_decided()
        self.running_changed(self.running)

    def _carry_out_decided(self) -> None:
        """The node that decided the replacement of a queue may have died before it was made."""
        if self.conversions is not None:
            self.conversions.hold_decided()
            self.conversions.carry_out_decided(self.log.is_coordinator)

    def queue_changed(self, vhost: str, name: str) -> None:
        """A queue was deleted, or has another home: another node may have converted it."""
        if self.conversions is not None:
            self.conversions.queue_changed(vhost, name)

    def replacements_changed(self) -> None:
        """The replacement of a queue was decided, was made, or is given up."""
        if self.conversions is not None:
            self.conversions.hold_decided()

    def _maintenance_changed(self) -> None:
        """A node is put under maintenance, or comes back: leaders move."""
        for kind in self.kinds:
            kind.maintenance_changed(self.states.is_under_maintenance)

    def check_removal(self, name: str, running: frozenset[str]) -> None:
        """A node that runs stays a member."""
        check_removal(name, running=running)

    def replacing(self, lost: Sequence[Declaration], discarded: Discarded | None) -> Answer[None]:
        """What only this node has is written to a file first."""
        return self._keeping.replacing(lost, discarded)

    def partitioned(self, names: tuple[str, ...]) -> None:
        """Report the partition."""
        self._partition_handling.partitioned(names)

    def gives_way(self, takes_from: tuple[str, ...]) -> None:
        """Restart, and take everything from one of these nodes."""
        # A node that stops loses all others, which must not make it start again.
        if not self._is_stopping:
            self._partition_handling.give_way(takes_from)

    def pauses(self, members: tuple[str, ...]) -> None:
        """Stop serving clients until more nodes can be reached."""
        if not self._is_stopping:
            self._partition_handling.pause(members)

    def entry_failed(self, error: Exception) -> None:
        """An entry that the other nodes have applied cannot be applied here: the node stops."""
        is_of_the_disk = isinstance(error, (OSError, MetadataError, StoreError))
        logger.error(
            "failed to apply a declaration of the cluster on this node: %s",
            error, exc_info=None if is_of_the_disk else error,
        )  # fmt: skip
        self._ordered_start.failed(error)
        self.failed(error)
