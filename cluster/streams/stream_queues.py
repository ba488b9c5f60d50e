"""The replicated streams of one node (replicated_queues/group_kind.py).

Beside what all kinds do, members keep their logs up to date (log_upkeep.py), and clients ask those
of other nodes.
"""

import asyncio
import logging
from random import random
from typing import Any

from leveret.broker.amqp.field_table import Table
from leveret.broker.policies.policy_table import Definition
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.services.services import Services
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.groups import Groups
from leveret.cluster.links.services import STREAMS_SERVICE, ServiceRegistry
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.cluster_state import ClusterState
from leveret.cluster.replicated_queues.group_kind import GroupKind
from leveret.cluster.replicated_queues.membership_record import MembersRecord
from leveret.cluster.streams.client.stream_queue_client import StreamQueueClient
from leveret.cluster.streams.client_questions import ClientQuestions
from leveret.cluster.streams.declared_stream import (
    FIGURES,
    DeclaredStream,
    StreamGroupUser,
    StreamService,
)
from leveret.cluster.streams.log_upkeep import LogUpkeep
from leveret.cluster.streams.stream_factory import StreamFactory
from leveret.cluster.streams.stream_machines import StreamGroupMachines
from leveret.storage.disk.disk import StoreError
from leveret.storage.stream_groups.memory_streams import MemoryStreamStore
from leveret.storage.stream_groups.stream_group_store import StreamGroupStore

SIZE_ARGUMENT, SIZE_POLICY = "x-initial-cluster-size", "initial-cluster-size"

logger = logging.getLogger("leveret.cluster")


class StreamQueues(GroupKind[DeclaredStream]):
    """The streams of one node: the `Streams` of stream_factory.py."""

    def __init__(
        self, node: OwnNode, services: Services, links: ServiceRegistry,
        store: StreamGroupStore | None, cluster: ClusterState,
    ) -> None:  # fmt: skip
        """store: the log was read; None if the node has no files. Raises StoreError."""
        stored = store or MemoryStreamStore()
        groups = Groups(
            node.name, links, stored, StreamGroupMachines(), services.clock, random,
            STREAMS_SERVICE,
        )  # fmt: skip
        super().__init__(services, groups, cluster, has_files=store is not None)
        self._stored = stored
        self._streams = stored.streams
        self._streams.call_soon = services.turns.before_batch
        self._streams.name_of = groups.name_of
        self._questions = ClientQuestions(groups, self._client_of)
        self._saving: dict[int, LogUpkeep] = {}
        self._save: asyncio.Task[None] | None = None
        groups.removed = self._removed
        groups.begin()
        self.factory = StreamFactory(node, self, self)

    def group_size(self, specification: QueueSpecification) -> int:
        """How many members a new stream gets: by default, one on each node."""
        nodes = len(self._cluster.nodes)
        return initial_size(specification.arguments, self._policy(specification), nodes)

    def made(self, specification: QueueSpecification, record: MembersRecord) -> StreamService:
        """The service for the client of a stream, which is about to be created."""
        group = specification.placement.identity
        declared = self.declared[group] = DeclaredStream(
            group, specification.vhost,
            f"stream {resource(QUEUE, specification.name, specification.vhost)}", record,
            self.groups, self._streams, self._questions, self, self._ended,
            is_new=not self._own_members.is_restoring,
        )  # fmt: skip
        return StreamService(declared)

    def added(self, queue: StreamQueueClient, record: MembersRecord) -> None:
        """Add a stream that was declared, or that a restart has found."""
        group = queue.placement.identity
        declared = self.declared[group]
        declared.begin(queue, self.groups.use(group, record.nodes, StreamGroupUser(queue)))
        self._declare(declared)

    def details_of(self, queue: QueueClient, record: MembersRecord) -> dict[str, Any]:
        """The members of a stream, and the figures of the one on this node."""
        shown = super().details_of(queue, record)
        own = self.declared[queue.placement.identity].figures()
        for member in shown["raft"]["members"]:
            is_own = member["node"] == self.groups.node
            member.update(own if is_own else dict.fromkeys(FIGURES))
        return shown

    def _changed(self, member: GroupMember) -> None:
        declared = self.declared.get(member.group)
        if declared is not None and declared.is_begun:
            declared.look_at_member()
            super()._changed(member)

    def _removed(self, member: GroupMember) -> None:
        self._own_members.removed(member.group)
        declared = self.declared.get(member.group)
        if declared is not None:
            declared.look_at_member()

    def _link_changed(self, node: str) -> None:
        super()._link_changed(node)
        if not self.groups.reaches(node):
            self._questions.link_lost(node)

    def _client_of(self, group: int) -> StreamQueueClient | None:
        declared = self.declared.get(group)
        return declared.queue if declared is not None and declared.is_begun else None

    # Snapshots

    def save(self, upkeep: LogUpkeep) -> None:
        """Take a snapshot of a member."""
        self._saving[upkeep.group] = upkeep
        if self._save is None:
            self._save = asyncio.get_running_loop().create_task(self._save_all())

    async def _save_all(self) -> None:
        try:
            while self._saving:
                saving, self._saving = self._saving, {}
                try:
                    await self._stored.save(saving)
                except StoreError as error:
                    logger.error("cannot save the state of %d streams: %s", len(saving), error)
                for upkeep in saving.values():
                    upkeep.saved()
        finally:
            self._save = None

    def close(self) -> None:
        """The node stops."""
        if self._save is not None:
            self._save.cancel()
        super().close()


def initial_size(arguments: Table, policy: Definition, nodes: int) -> int:
    """How many members a new stream gets. nodes: of the cluster."""
    argument = arguments.get(SIZE_ARGUMENT)
    for size in (None if argument is None else argument[1], policy.get(SIZE_POLICY)):
        if isinstance(size, int) and size > 0:
            return size
    return nodes
