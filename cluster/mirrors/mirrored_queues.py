"""The mirrored queues of one node: connects their parts.

    factory     MirroredFactory the broker's interface to the records
    replicas    Replicas        the members of this node, and their frames
    planned     PlannedChanges  the changes that policies and views call for
    leaving     Leaving         the handover before the node stops

Changes are submitted after the round, since records change while a declaration is applied. While
the cluster cannot declare anything, they are submitted again, as long as the member that requested
them lives. A refused change was based on an older record.
"""

import logging
from collections.abc import Iterable
from typing import cast

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations.values import ChangePlacement
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.services.services import Services
from leveret.broker.sessions.held_entries import HoldingConnection, held_of
from leveret.cluster.gm.group import Change as RingChange
from leveret.cluster.gm.group import Member, Renewed
from leveret.cluster.links.services import ServiceRegistry
from leveret.cluster.metadata.replicated_declarations import ReplicatedDeclarations
from leveret.cluster.mirrors.late_confirms import LOOKS_IN_TICK_TIME
from leveret.cluster.mirrors.leaving import Leaving
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.mirrored_factory import MirroredFactory
from leveret.cluster.mirrors.planned_changes import PlannedChanges, RunningView
from leveret.cluster.mirrors.record_changes import Change, InRing, Synchronised, encode
from leveret.cluster.mirrors.replica import Replica
from leveret.cluster.mirrors.replica_host import ReplicaHost
from leveret.cluster.mirrors.replicas import Replicas
from leveret.cluster.node_status.node_states import NodeStates
from leveret.cluster.placement.replicated_kind import ReplicatedKind
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.messages.message import Entry
from leveret.storage.metadata.metadata import MetadataError

AGAIN_MS = 500
"""A change that could not be declared is submitted again after this time."""

logger = logging.getLogger("leveret.cluster")


class MirroredQueues(ReplicatedKind):
    """The mirrored queues of one node, as the `Listener` of mirrored_factory.py."""

    def __init__(
        self,
        node: str,
        incarnation: int,
        services: Services,
        links: ServiceRegistry,
        remote_queues: RemoteQueues,
        log: ReplicatedDeclarations,
        states: NodeStates,
        wall_offset_ms: int,
    ) -> None:
        """wall_offset_ms: the wall clock minus the broker's clock."""
        self.factory = MirroredFactory(
            services.queue_kinds.of(CLASSIC_QUEUE), remote_queues, services.policies, self,
            services.config.cluster.sync_batch_size,
        )  # fmt: skip
        view = RunningView(log, states, node)
        host = ReplicaHost(
            node, incarnation, services, remote_queues, log.when_stable,
            self.factory.mirroring_of, wall_offset_ms, view.is_apart,
        )  # fmt: skip
        self.replicas = Replicas(
            host, links, self._ring_changes, self._is_synchronised, self._held_by_clients
        )
        self.planned = PlannedChanges(
            node, services.vhosts, log.submit, services.turns, self.factory.mirroring_of,
            view, self._has_copy,
        )  # fmt: skip
        self._node = node
        self._leaving = Leaving(
            self.replicas.by_identity.values, log.submit, lambda: states.under_maintenance
        )
        self._services = services
        self._remote_queues = remote_queues
        self._log = log
        self._looks_at_ms = 0.0

    def tick(self) -> None:
        """Look for what waits too long, if it is time; called every fraction of a second."""
        now_ms = self._services.clock.now_ms()
        if now_ms >= self._looks_at_ms:
            tick_s = self._services.config.cluster.tick_time_s
            self._looks_at_ms = now_ms + 1000 * tick_s / LOOKS_IN_TICK_TIME
            self._remote_queues.look(self.replicas.host.apart)
            self.replicas.look()

    def maintenance_changed(self, is_under_maintenance: bool) -> None:
        """A node was put under maintenance, or has come back: other leaders may be wanted."""
        self.planned.look_at_all()

    async def leave(self) -> None:
        """Hand over and leave: the node is stopped while others run (leaving.py)."""
        self.planned.is_over = True
        await self._leaving.leave()

    # Records

    def make_queue(self, specification: QueueSpecification, record: MirrorRecord) -> QueueClient:
        """The client of a queue that is declared with a record."""
        return self.replicas.make_queue(specification, record)

    def record_changed(
        self, vhost: str, queue: QueueClient, record: MirrorRecord | None, storage_id: int
    ) -> None:
        """A queue was declared with a record, has another one, or no longer has one."""
        self.replicas.record_changed(vhost, queue, record, storage_id)
        self.planned.look_at(vhost, queue.name)

    def policies_changed(self, vhost: str, queue: QueueClient) -> None:
        """Other policies are in force for a queue, or it was just declared and has some."""
        self.replicas.policies_changed(vhost, queue)
        self.planned.look_at(vhost, queue.name)

    def replica_of(self, record: MirrorRecord) -> Replica | None:
        """The part of this node in a mirrored queue; None if it has none."""
        return self.replicas.by_identity.get(record.group.identity)

    def led_messages(self, queue: QueueClient) -> BackingQueue | None:
        """The messages of a mirrored queue that this node leads, or led last."""
        return self.replicas.led_messages(queue)

    def view_changed(self) -> None:
        """The node's view has changed, or the node is no longer in one."""
        view = self._log.view
        self.replicas.view_changed(view is not None and self._node in view.names)
        self.planned.look_at_all()

    def _has_copy(self, identity: int) -> bool:
        replica = self.replicas.by_identity.get(identity)
        return replica is None or replica.copy is not None

    # Requests of replicas

    def _held_by_clients(self, queue: QueueClient) -> list[Entry]:
        connections = cast("Iterable[HoldingConnection]", self._services.open_counts.connections)
        return held_of(connections, queue)

    def _ring_changes(self, replica: Replica, change: RingChange) -> None:
        assert not isinstance(change, Renewed), "no ring renews itself"
        self._submit_later(replica, InRing(change))

    def _is_synchronised(self, replica: Replica, mirror: Member) -> None:
        record = replica.record
        if record is not None and record.leader is not None:
            self._submit_later(replica, Synchronised(mirror, record.leader))

    def _submit_later(self, replica: Replica, change: Change) -> None:
        member = replica.member
        self._services.turns.after_round(lambda: self._submit(replica, change, member))

    def _submit(self, replica: Replica, change: Change, member: Member | None) -> None:
        if replica.member != member or replica.is_over:
            return

        def try_again() -> None:
            self._submit(replica, change, member)

        if self._log.view is None:
            # A stopping node would change its own record only.
            self._services.clock.call_later_ms(AGAIN_MS, try_again)
            return
        queue, vhost = replica.queue, replica.vhost
        declaration = ChangePlacement(
            vhost.name, queue.name, queue.placement.identity, encode(change)
        )
        answer: Answer[None] = Answer()

        def answered() -> None:
            try:
                answer.result()
            except Fault as error:
                what = resource(QUEUE, queue.name, vhost.name)
                logger.info("the mirrors of %s are not changed: %s", what, error)
            except MetadataError:
                self._services.clock.call_later_ms(AGAIN_MS, try_again)

        answer.when_given(answered)
        self._log.submit(declaration, answer=answer)
