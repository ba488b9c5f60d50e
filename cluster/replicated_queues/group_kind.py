"""The queues of one kind on one node whose messages are in groups. Connects their parts:

    factory     GroupFactory       the broker's interface to the records
    groups      Groups             the members of this node, and the service of links
    declared    ReplicatedQueue    one for each declared queue

Members that a restart finds are started before the declarations are restored. When the node has all
declarations of its cluster, members of deleted queues are removed.
"""

import asyncio
import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Set
from typing import Any, Generic, TypeVar

from leveret.broker.policies.parameters import OPERATOR_POLICY, POLICY
from leveret.broker.policies.policy_table import Definition, merged
from leveret.broker.queues.contract.placement import QueueMembers
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.contract.status import RaftFigures
from leveret.broker.runtime.names import is_delaying
from leveret.broker.runtime.pending import Answer
from leveret.broker.services.services import Services
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.groups import Groups
from leveret.cluster.placement.leader_location import locator_of
from leveret.cluster.placement.replicated_kind import ReplicatedKind
from leveret.cluster.replicated_queues.cluster_state import ClusterState
from leveret.cluster.replicated_queues.leadership import Leadership
from leveret.cluster.replicated_queues.member_placement import NodeLoad
from leveret.cluster.replicated_queues.member_states import raft, raft_figures
from leveret.cluster.replicated_queues.membership import QueueMembership
from leveret.cluster.replicated_queues.membership_record import MembersRecord
from leveret.cluster.replicated_queues.own_members import OwnMembers
from leveret.cluster.replicated_queues.replicated_queue import ReplicatedQueue

Q = TypeVar("Q", bound=ReplicatedQueue)

logger = logging.getLogger("leveret.cluster")


class GroupKind(ReplicatedKind, Generic[Q]):
    """The queues of one kind: the `Nodes` and the `GroupsOfKind` of group_factory.py.

    declared: by group. A kind calls `begin` when it is complete.
    """

    def __init__(
        self, services: Services, groups: Groups, cluster: ClusterState, *, has_files: bool
    ) -> None:
        self.declared: dict[int, Q] = {}
        self.groups = groups
        self._cluster = cluster
        self._services = services
        self._has_files = has_files
        groups.call_soon = services.turns.before_batch
        groups.changed = self._changed
        groups.name_of = self._name_of
        self.membership = QueueMembership(
            groups.node, self.declared, groups.members, services, cluster
        )
        self._own_members = OwnMembers(
            groups, self.declared, cluster, services.clock, self.membership.replace
        )
        groups.removed = lambda member: self._own_members.removed(member.group)
        groups.link_changed = self._link_changed
        self.leadership = Leadership(
            groups, self.declared, cluster, services.declarations.submit, services.clock
        )

    def close(self) -> None:
        """The node stops."""
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

    @abstractmethod
    def group_size(self, specification: QueueSpecification) -> int:
        """How many members a new queue gets."""

    def locator(self, specification: QueueSpecification) -> str:
        """How the queue's leader is chosen."""
        kind = specification.kind
        configured = self._services.config.cluster.queue_locators[kind.locator]
        return locator_of(kind, specification.arguments, self._policy(specification), configured)

    def _policy(self, specification: QueueSpecification) -> Definition:
        if is_delaying(specification.name):
            return {}
        policy, operator_policy = (
            self._services.policies.of_queue(
                component, specification.vhost, specification.name, specification.kind
            )
            for component in (POLICY, OPERATOR_POLICY)
        )
        return merged(policy, operator_policy)

    # The `GroupsOfKind` of the factory

    def _declare(self, declared: Q) -> None:
        """A queue was declared: begin with its member here."""
        self._own_members.added(declared)
        self.policies_changed()
        self.groups.tell_all(declared.group)
        member = declared.member
        if member is not None:
            self._changed(member)

    def record_changed(self, queue: QueueClient, record: MembersRecord) -> None:
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
        """The policies of a queue have changed, or queues or nodes: some may need members."""

    def members_of(self, queue: QueueClient, record: MembersRecord) -> QueueMembers:
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

    def leader_of(self, queue: QueueClient) -> str:
        """The node with the leader of a queue; empty if unknown."""
        return self.declared[queue.placement.identity].use.leader

    def voters_of(self, queue: QueueClient, record: MembersRecord) -> tuple[str, ...]:
        """The nodes whose members may vote, from the knowledge of this node."""
        member = self.groups.members.get(queue.placement.identity)
        if member is None or member.damage:
            return record.nodes
        named = map(record.named, member.raft.state.log.configuration.voters)
        return tuple([one.node for one in named if one is not None])

    def is_catching_up(self, queue: QueueClient) -> bool:
        """Whether the member on this node may not vote until it has caught up."""
        member = self.groups.members.get(queue.placement.identity)
        return member is not None and member.me in member.raft.state.log.configuration.promotable

    def reclaim(self, queue: QueueClient, answer: Answer[None]) -> None:
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

    def raft_of(self, queue: QueueClient) -> RaftFigures | None:
        """The figures of the member on this node; None if it has none."""
        declared = self.declared[queue.placement.identity]
        member = declared.member
        return None if member is None else raft_figures(member, declared.record, declared.use)

    def details_of(self, queue: QueueClient, record: MembersRecord) -> dict[str, Any]:
        """The members of a queue from the knowledge of this node, as JSON."""
        declared = self.declared[queue.placement.identity]
        running = self.answering(self._cluster.running)
        lost, is_stuck = declared.lost_by_others, declared.stuck_since_ms < 0
        shown = raft(
            record,
            declared.use,
            declared.member,
            declared.lacked,
            running,
            lost,
            is_stuck=is_stuck,
        )
        return {"raft": shown}

    def _ended(self, group: int, is_deleted: bool) -> None:
        """The client of a group has ended."""
        del self.declared[group]
        if is_deleted:
            self.groups.nodes.forget(group)
            self._remove(group)

    def _name_of(self, group: int) -> str:
        declared = self.declared.get(group)
        return self.groups.number_as_name(group) if declared is None else declared.name

    def _remove(self, group: int) -> None:
        if group in self.groups.members:
            self.groups.remove(group)

    # Events of the cluster and of members

    def restored(self) -> None:
        """The queues that a restart has found are restored."""
        self._own_members.restored()
        self.groups.holds_ticks = False
        for member in self.groups.members.values():
            if member.is_serving:
                member.plan_tick()

    def has_declarations(self) -> None:
        """The node has all declarations: remove the members of queues that are not declared."""
        for group in [one for one in self.groups.members if one not in self.declared]:
            name = self.groups.number_as_name(group)
            logger.info("removing a member of %s, which was deleted", name)
            self._remove(group)

    def members_changed(self) -> None:
        """Nodes were added to the cluster, or removed."""
        self._own_members.look()
        self.policies_changed()

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

    def _changed(self, member: GroupMember) -> None:
        """The leader, or the members, of a group may have changed."""
        declared = self.declared.get(member.group)
        if declared is None:
            return
        if member.damage or member.changes.wanted is not declared.wanted:
            self._own_members.settle(declared)
        if not member.is_serving:
            declared.leads_no_more(member)
        elif declared.begins_to_lead(member):
            self._begins_to_lead(declared, member)

    def _begins_to_lead(self, declared: Q, member: GroupMember) -> None:
        """The member of a queue here has started to serve clients."""
        self.leadership.begins(member)
