"""The replicated quorum queues of one node. Connects their parts:

    factory     QuorumFactory   the broker's interface to the records
    groups      Groups          the members of this node, and the service of links
    declared    DeclaredGroup   one for each declared queue

Members that a restart finds are started before the declarations are restored. When the node has all
declarations of its cluster, members of deleted queues are removed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Set
from random import random
from typing import Any

from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_table import Definition, merged
from leveret.broker.queues.contract.placement import QueueMembers
from leveret.broker.queues.contract.queue_factory import PeekedMessage
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.status import RaftFigures
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.services.services import Services
from leveret.cluster.groups.group_machine import Effect
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.group_storage import GroupStorage
from leveret.cluster.groups.groups import Groups, number_as_name
from leveret.cluster.links.services import ServiceRegistry
from leveret.cluster.placement.leader_location import locator_of
from leveret.cluster.placement.replicated_kind import ReplicatedKind
from leveret.cluster.quorum.client.group_service import GroupService
from leveret.cluster.quorum.client.quorum_queue_client import OwnNode, QuorumQueueClient
from leveret.cluster.quorum.machine.effects import Expired
from leveret.cluster.quorum.machine.peeking import peek
from leveret.cluster.quorum.member_placement import NodeLoad, group_size, target_size
from leveret.cluster.quorum.membership_record import QuorumRecord
from leveret.cluster.quorum.queue_groups.cluster_state import ClusterState
from leveret.cluster.quorum.queue_groups.dead_letters import LeaderDeadLetters
from leveret.cluster.quorum.queue_groups.declared_group import (
    DeclaredGroup,
    machine_of,
)
from leveret.cluster.quorum.queue_groups.leadership import Leadership
from leveret.cluster.quorum.queue_groups.machine_options import Rules
from leveret.cluster.quorum.queue_groups.member_states import raft, raft_figures
from leveret.cluster.quorum.queue_groups.membership import Membership
from leveret.cluster.quorum.queue_groups.message_reading import read_message
from leveret.cluster.quorum.queue_groups.node_states import node_commands
from leveret.cluster.quorum.queue_groups.own_members import OwnMembers
from leveret.cluster.quorum.queue_groups.reconciliation import Reconciliation
from leveret.cluster.quorum.queue_groups.taking_over import TakingOver
from leveret.cluster.quorum.queue_machines import QueueMachines
from leveret.cluster.quorum.quorum_factory import QuorumFactory
from leveret.storage.group_log.memory_groups import MemoryGroupStore
from leveret.storage.metadata.metadata_rows import Definitions
from leveret.storage.store.store import Store

GROUP_SIZE = 3
"""RabbitMQ's default size of a new group."""

logger = logging.getLogger("leveret.cluster")


class QuorumQueues(ReplicatedKind):
    """The quorum queues of one node: the `Nodes` and the `Groups` of quorum_factory.py.

    It is also the `NodesAndTargets` of reconciliation.py.
    """

    def __init__(
        self, node: OwnNode, services: Services, links: ServiceRegistry,
        store: GroupStorage | None, cluster: ClusterState,
    ) -> None:  # fmt: skip
        """store: the log was read; None if the node has no files. Raises StoreError."""
        self.declared: dict[int, DeclaredGroup] = {}
        self._cluster = cluster
        self._services = services
        self._has_files = store is not None
        self.groups = Groups(
            node.name, links, store or MemoryGroupStore(), QueueMachines(), services.clock, random
        )
        self.groups.call_soon = services.turns.before_batch
        self.groups.changed = self._changed
        self.groups.name_of = self._name_of
        self.membership = Membership(
            node.name, self.declared, self.groups.members, services, cluster
        )
        self._own_members = OwnMembers(
            self.groups, self.declared, cluster, services.clock, self.membership.replace
        )
        self._reconciliation = Reconciliation(
            services.config.cluster.membership_reconciliation, services.clock, self, self.membership
        )
        self.groups.removed = lambda member: self._own_members.removed(member.group)
        self.groups.leads = self._lead
        self.groups.link_changed = self._link_changed
        self.groups.begin()
        self.factory = QuorumFactory(node, self, self)
        self.leadership = Leadership(
            self.groups, self.declared, cluster, services.declarations.submit, services.clock
        )
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
        self._own_members.close()
        self.groups.close()

    # The `Nodes` of the factory

    @property
    def is_alone(self) -> bool:
        """Whether this node is in no cluster."""
        return not self._services.queue_kinds.node

    def loads(self) -> list[NodeLoad]:
        """All nodes of the cluster."""
        members: Counter[str] = Counter()
        leaders: Counter[str] = Counter()
        for declared in self.declared.values():
            members.update(declared.record.nodes)
            leaders[declared.queue.placement.node] += 1
        able = self._cluster.running - self._cluster.under_maintenance
        return [
            NodeLoad(node, node in able, members[node], leaders[node])
            for node in sorted(self._cluster.nodes)
        ]

    def group_size(self, specification: QueueSpecification) -> int:
        """How many members a new queue gets."""
        return group_size(specification.arguments, self._policy(specification), None, GROUP_SIZE)

    def locator(self, specification: QueueSpecification) -> str:
        """How the queue's leader is chosen."""
        kind = specification.kind
        configured = self._services.config.cluster.queue_locators[kind.locator]
        return locator_of(kind, specification.arguments, self._policy(specification), configured)

    def led_here(self) -> list[DeclaredGroup]:
        """The queues that this node leads."""
        serving = {group for group, member in self.groups.members.items() if member.is_serving}
        return [one for group, one in self.declared.items() if group in serving]

    def target_size(self, declared: DeclaredGroup) -> int:
        """How many members a queue should have by its policies and arguments; 0: any number."""
        queue = declared.queue
        return target_size(queue.arguments, merged(queue.policy, queue.operator_policy))

    def _policy(self, specification: QueueSpecification) -> Definition:
        policy, operator_policy = (
            self._services.policies.of_queue(
                component, specification.vhost, specification.name, specification.kind
            )
            for component in (POLICY, OPERATOR_POLICY)
        )
        return merged(policy, operator_policy)

    # The `Groups` of the factory

    def made(self, specification: QueueSpecification, record: QuorumRecord) -> GroupService:
        """The service for the client of a queue, which is about to be created."""
        group = specification.placement.identity
        declared = self.declared[group] = DeclaredGroup(
            group,
            f"quorum {resource(QUEUE, specification.name, specification.vhost)}",
            Rules(self._services.config.compat),
            record,
            self.groups,
            self._ended,
            is_new=not self._own_members.is_restoring,
        )
        return declared.new_service()

    def added(self, queue: QuorumQueueClient, record: QuorumRecord) -> None:
        """Add a queue that was declared, or that a restart has found."""
        group = queue.placement.identity
        declared = self.declared[group]
        vhost = self._services.vhosts[queue.vhost_name]
        letters = LeaderDeadLetters(vhost, queue, self.groups, self._addresses)
        declared.begin(queue, self.groups.use(group, record.nodes, queue), letters)
        self._own_members.added(declared)
        self._reconciliation.trigger()
        self.groups.tell_all(group)
        if group in self.groups.members:
            self._changed(self.groups.members[group])

    def record_changed(self, queue: QuorumQueueClient, record: QuorumRecord) -> None:
        """The record of a queue has changed."""
        declared = self.declared[queue.placement.identity]
        is_forced = record.forced_from != declared.record.forced_from
        declared.set_record(record)
        declared.use.set_nodes(list(record.nodes))
        if is_forced:
            declared.use.forget_leader()
        self._own_members.settle(declared)
        self.leadership.placed(declared.group)

    def policies_changed(self) -> None:
        """The policies of a queue have changed."""
        self._reconciliation.trigger()

    def members_of(self, queue: QuorumQueueClient, record: QuorumRecord) -> QueueMembers:
        """The members of a queue, for operators."""
        leader = self.declared[queue.placement.identity].use.leader
        named = queue.placement.node
        if leader and named in record.nodes and self.groups.reaches(named):
            # It is the leader, or will be in a moment, so all nodes show the same leader.
            leader = named
        running = self.answering(self._cluster.running)
        online = tuple([node for node in record.nodes if node in running])
        return QueueMembers(leader=leader, nodes=record.nodes, online=online, synchronised=online)

    def answering(self, running: Set[str]) -> Set[str]:
        """The running nodes that are not silent, for example because they are suspended."""
        return running - self.groups.silent_nodes

    def leader_of(self, queue: QuorumQueueClient) -> str:
        """The node with the leader of a queue; empty if unknown."""
        return self.declared[queue.placement.identity].use.leader

    def voters_of(self, queue: QuorumQueueClient, record: QuorumRecord) -> tuple[str, ...]:
        """The nodes whose members may vote, from the knowledge of this node."""
        member = self.groups.members.get(queue.placement.identity)
        if member is None or member.damage:
            return record.nodes
        named = map(record.named, member.raft.state.log.configuration.voters)
        return tuple([one.node for one in named if one is not None])

    def is_catching_up(self, queue: QuorumQueueClient) -> bool:
        """Whether the member on this node may not vote until it has caught up."""
        member = self.groups.members.get(queue.placement.identity)
        return member is not None and member.me in member.raft.state.log.configuration.promotable

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

    def reclaim(self, queue: QuorumQueueClient, answer: Answer[None]) -> None:
        """Free disk space of the member here by taking a snapshot."""
        if not self._has_files:
            answer.give(None)
            return
        freeing = self.groups.rounds.free_space([queue.placement.identity])
        task = asyncio.get_running_loop().create_task(freeing)

        def done(task: "asyncio.Task[bool]") -> None:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                answer.refuse(error)
            else:
                answer.give(None)

        task.add_done_callback(done)

    def raft_of(self, queue: QuorumQueueClient) -> RaftFigures | None:
        """The figures of the member on this node; None if it has none."""
        declared = self.declared[queue.placement.identity]
        member = self.groups.members.get(declared.group)
        return None if member is None else raft_figures(member, declared.record, declared.use)

    def details_of(self, queue: QuorumQueueClient, record: QuorumRecord) -> dict[str, Any]:
        """The members of a queue from the knowledge of this node, as JSON."""
        declared = self.declared[queue.placement.identity]
        member = self.groups.members.get(declared.group)
        machine = None if member is None else machine_of(member)
        running = self.answering(self._cluster.running)
        is_stuck = declared.stuck_since_ms < 0
        return {"raft": raft(record, declared.use, member, machine, running, is_stuck=is_stuck)}

    def _ended(self, group: int, is_deleted: bool) -> None:
        """The client of a group has ended."""
        del self.declared[group]
        if is_deleted:
            self.groups.nodes.forget(group)
            self._remove(group)

    def _name_of(self, group: int) -> str:
        declared = self.declared.get(group)
        return number_as_name(group) if declared is None else declared.name

    def _remove(self, group: int) -> None:
        if group in self.groups.members:
            self.groups.remove(group)

    # Events of the cluster and of members

    def restored(self) -> None:
        """The queues that a restart has found are restored."""
        self._own_members.restored()

    def has_declarations(self) -> None:
        """The node has all declarations: remove the members of queues that are not declared."""
        for group in [one for one in self.groups.members if one not in self.declared]:
            logger.info("removing a member of quorum queue group %d, which was deleted", group)
            self._remove(group)

    def members_changed(self) -> None:
        """Nodes were added to the cluster, or removed."""
        self._own_members.look()
        self._reconciliation.trigger()

    def view_changed(self) -> None:
        """Nodes have started or stopped: tell the queues, and look for missing members."""
        self._reconciliation.trigger()
        self._tell_states("")

    def maintenance_changed(self, is_under_maintenance: bool) -> None:
        """A node was put under maintenance, or has come back: leaders move."""
        self.leadership.set_leaving(is_under_maintenance)

    async def hand_over(self) -> bool:
        """Hand over all leaders of this node. Returns whether none are left."""
        return await self.leadership.hand_over_all()

    async def leave(self) -> None:
        """The node stops while others run: hand over all leaders."""
        await self.leadership.hand_over_all()

    def _link_changed(self, node: str) -> None:
        self._own_members.look()
        self._tell_states(node)

    def _tell_states(self, changed: str) -> None:
        """Tell the queues with the leader on this node which nodes are down or cut off."""
        for group, declared in self.declared.items():
            member = self.groups.members.get(group)
            if member is not None and member.is_serving:
                self._tell_states_to(declared, member, changed)

    def _tell_states_to(self, declared: DeclaredGroup, member: GroupMember, changed: str) -> None:
        runs = self._cluster.runs
        if runs is not None:
            senders = machine_of(member).senders.known.values()
            commands = node_commands(senders, runs, changed)
            if commands:
                declared.propose(member, commands)

    def _changed(self, member: GroupMember) -> None:
        """The leader, or the members, of a group may have changed."""
        declared = self.declared.get(member.group)
        if declared is None:
            return
        if member.damage or member.changes.wanted is not declared.wanted:
            self._own_members.settle(declared)
        if not member.is_serving:
            declared.leads_no_more(member)
            return
        if declared.begins_to_lead(member):
            self._tell_states_to(declared, member, "")
            self.leadership.begins(member)

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
            else:
                declared.letters.take(effect)
