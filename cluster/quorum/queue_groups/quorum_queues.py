"""The replicated quorum queues of one node (replicated_queues/group_kind.py).

Beside what all kinds do, leaders tell the machine the states of nodes, dead letters are published,
and queues that have expired are deleted.
"""

import logging
from random import random

from leveret.broker.policies.policy_table import merged
from leveret.broker.queues.contract.queue_factory import PeekedMessage
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.services.services import Services
from leveret.cluster.groups.group_machine import Effect
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.group_storage import GroupStorage
from leveret.cluster.groups.groups import Groups
from leveret.cluster.links.services import ServiceRegistry
from leveret.cluster.quorum.client.group_service import GroupService
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.group_sizes import group_size, target_size
from leveret.cluster.quorum.machine.effects import DelaysEnded, Expired
from leveret.cluster.quorum.machine.peeking import peek
from leveret.cluster.quorum.queue_groups.dead_letters import LeaderDeadLetters
from leveret.cluster.quorum.queue_groups.declared_group import (
    DeclaredGroup,
    machine_of,
)
from leveret.cluster.quorum.queue_groups.machine_options import QueueRules
from leveret.cluster.quorum.queue_groups.message_reading import read_message
from leveret.cluster.quorum.queue_groups.node_states import node_commands
from leveret.cluster.quorum.queue_groups.retries_of_group import RetriesOfGroup
from leveret.cluster.quorum.queue_groups.taking_over import TakingOver
from leveret.cluster.quorum.queue_machines import QueueMachines
from leveret.cluster.quorum.quorum_factory import QuorumFactory
from leveret.cluster.replicated_queues.client.own_node import OwnNode
from leveret.cluster.replicated_queues.cluster_state import ClusterState
from leveret.cluster.replicated_queues.group_kind import GroupKind
from leveret.cluster.replicated_queues.membership_record import MembersRecord
from leveret.cluster.replicated_queues.reconciliation import Reconciliation
from leveret.cluster.replicated_queues.replicated_queue import ReplicatedQueue
from leveret.storage.group_log.memory_groups import MemoryGroupStore
from leveret.storage.metadata.metadata_rows import Definitions
from leveret.storage.store.store import Store

GROUP_SIZE = 3
"""RabbitMQ's default size of a new group."""

logger = logging.getLogger("leveret.cluster")


class QuorumQueues(GroupKind[DeclaredGroup]):
    """The quorum queues of one node: the `Groups` of quorum_factory.py.

    It is also the `NodesAndTargets` of reconciliation.py.
    """

    def __init__(
        self, node: OwnNode, services: Services, links: ServiceRegistry,
        store: GroupStorage | None, cluster: ClusterState,
    ) -> None:  # fmt: skip
        """store: the log was read; None if the node has no files. Raises StoreError."""
        groups = Groups(
            node.name, links, store or MemoryGroupStore(), QueueMachines(), services.clock, random
        )
        super().__init__(services, groups, cluster, has_files=store is not None)
        self._reconciliation = Reconciliation(
            services.config.cluster.membership_reconciliation, services.clock, self, self.membership
        )
        groups.leads = self._lead
        # What expires dies by the options of its queue, which are not known before.
        groups.holds_ticks = True
        groups.begin()
        self.factory = QuorumFactory(node, self, self)
        self._addresses = node.addresses

    async def take_over(
        self, definitions: Definitions, store: Store, *, is_alone: bool
    ) -> Definitions:
        """Make groups of the queues that a version without groups has stored."""
        services = self._services
        taking_over = TakingOver(self.groups, store, services.metadata, services.clock)
        return await taking_over.run(definitions, is_alone)

    def close(self) -> None:
        """The node stops."""
        self._reconciliation.close()
        super().close()

    # The `Nodes` of the factory

    def group_size(self, specification: QueueSpecification) -> int:
        """How many members a new queue gets."""
        return group_size(specification.arguments, self._policy(specification), None, GROUP_SIZE)

    def led_here(self) -> list[DeclaredGroup]:
        """The queues that this node leads."""
        serving = {group for group, member in self.groups.members.items() if member.is_serving}
        return [one for group, one in self.declared.items() if group in serving]

    def target_size(self, declared: ReplicatedQueue) -> int:
        """How many members a queue should have by its policies and arguments; 0: any number."""
        queue = declared.queue
        return target_size(queue.arguments, merged(queue.policy, queue.operator_policy))

    # The `Groups` of the factory

    def made(self, specification: QueueSpecification, record: MembersRecord) -> GroupService:
        """The service for the client of a queue, which is about to be created."""
        group = specification.placement.identity
        config = self._services.config
        declared = self.declared[group] = DeclaredGroup(
            group,
            specification.vhost,
            f"quorum {resource(QUEUE, specification.name, specification.vhost)}",
            QueueRules(config.compat),
            record,
            self.groups,
            self._ended,
            is_new=not self._own_members.is_restoring,
            consumer_timeout_ms=config.consumer_timeout_ms,
            features=self._services.shared_features,
        )
        return declared.new_service()

    def added(self, queue: QuorumQueueClient, record: MembersRecord) -> None:
        """Add a queue that was declared, or that a restart has found."""
        group = queue.placement.identity
        declared = self.declared[group]
        vhost = self._services.vhosts[queue.vhost_name]
        letters = LeaderDeadLetters(vhost, queue, self.groups, self._addresses)
        declared.begin(queue, self.groups.use(group, record.nodes, queue), letters)
        self._declare(declared)

    def policies_changed(self) -> None:
        """The policies of a queue have changed."""
        self._reconciliation.trigger()

    def peek(
        self, queue: QuorumQueueClient, place: int, answer: Answer[PeekedMessage | None]
    ) -> None:
        """Answer with the message at a place; None if there is none, or no leader here."""
        member = self.groups.members.get(queue.placement.identity)
        run = None
        if member is not None and member.is_serving:
            run = peek(machine_of(member), place)
        if member is None or run is None:
            answer.give(None)
        else:
            read_message(member, run, self._addresses, answer)

    def retries_here(self, queue: QuorumQueueClient) -> RetriesOfGroup | None:
        """The delayed messages of a queue that this node leads."""
        group = queue.placement.identity
        member, declared = self.groups.members.get(group), self.declared.get(group)
        if member is None or declared is None or not member.is_serving:
            return None
        return RetriesOfGroup(declared, member, self._addresses, self._services.turns)

    # Events of the cluster and of members

    def view_changed(self) -> None:
        """Nodes have started or stopped: tell the queues, and look for missing members."""
        self._reconciliation.trigger()
        self._tell_states("")

    def _link_changed(self, node: str) -> None:
        super()._link_changed(node)
        self._tell_states(node)

    def _tell_states(self, changed: str) -> None:
        """Tell the queues with the leader on this node which nodes are down or cut off."""
        for group, declared in self.declared.items():
            member = self.groups.members.get(group)
            if member is not None and member.is_serving:
                declared.nodes_changed(member)
                self._tell_states_to(declared, member, changed)

    def _tell_states_to(self, declared: DeclaredGroup, member: GroupMember, changed: str) -> None:
        runs = self._cluster.runs
        if runs is not None:
            senders = machine_of(member).senders.known.values()
            commands = node_commands(senders, runs, changed)
            if commands:
                declared.propose(member, commands)

    def _begins_to_lead(self, declared: DeclaredGroup, member: GroupMember) -> None:
        self._tell_states_to(declared, member, "")
        super()._begins_to_lead(declared, member)

    def _lead(self, member: GroupMember, effects: list[Effect]) -> None:
        """Carry out the effects of a queue for its leader's node."""
        declared = self.declared.get(member.group)
        if declared is None:
            return
        for effect in effects:
            if isinstance(effect, Expired):
                queue = declared.queue
                vhost = self._services.vhosts.get(queue.vhost_name)
                if vhost is not None:  # Otherwise it is deleted with its queues.
                    vhost.delete_unused(queue, is_urgent=False)
            elif isinstance(effect, DelaysEnded):
                declared.delays_ended(effect.count)
            else:
                declared.letters.take(effect)
