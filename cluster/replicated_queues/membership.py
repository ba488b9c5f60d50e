"""Changes of the members of quorum queues, for operators.

A change is declared: all nodes have the record of the queue, and the leader of the group follows it
(own_members.py). So if the leader is lost, the next one completes the change. An operator's change
is made only while the queue has a leader, and is finished when the group has committed it. The
texts of refusals are RabbitMQ's.
"""

import asyncio
import logging
from collections.abc import Mapping

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations.values import ChangePlacement
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task, in_task
from leveret.broker.services.services import Services
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.member_question import (
    MEMBERS,
    CurrentMembers,
    MembersError,
    decode_members,
)
from leveret.cluster.replicated_queues.cluster_state import ClusterState
from leveret.cluster.replicated_queues.membership_record import (
    UNREADABLE,
    AddMember,
    Change,
    KeepOnly,
    RecordedMember,
    RemoveMember,
    ReplaceMember,
    encode,
)
from leveret.cluster.replicated_queues.replicated_queue import ReplicatedQueue
from leveret.storage.metadata.metadata import MetadataError

CHANGE_SECONDS_MAX = 20.0
"""RabbitMQ's limit for one change."""
ELECTION_SECONDS_MAX = 5.0
"""If a queue has no leader for this long, the reason is not just an election."""
POLL_SECONDS = 0.02
NO_LEADER = "the queue has no leader: most of its members do not run, or cannot reach each other"

logger = logging.getLogger("leveret.cluster")


class ChangeRefused(Exception):
    """The members are not changed, or not yet. The text says why."""


class QueueMembership:
    """Changes the members of the quorum queues that are declared on a node.

    declared: the queues, by group. own: the members of this node.
    """

    def __init__(
        self, node: str, declared: Mapping[int, ReplicatedQueue], own: Mapping[int, GroupMember],
        services: Services, cluster: ClusterState,
    ) -> None:  # fmt: skip
        self._node = node
        self._own = own
        self._declared = declared
        self._services = services
        self._cluster = cluster
        self._replacing: set[str] = set()

    async def add(self, vhost: str, name: str, node: str, *, is_voter: bool = True) -> int:
        """Add a member on a node. Returns how many there are. Raises ChangeRefused."""
        queue = self._of(vhost, name)
        if node not in self._cluster.running:
            raise ChangeRefused("node_not_running")
        if queue.record.of_node(node) is None:
            await self._change(queue, AddMember(node, is_voter), node)
            logger.info("%r has a new member on node %s", queue.queue, node)
        return len(queue.record.members)

    async def remove(self, vhost: str, name: str, node: str) -> int:
        """Remove the member on a node. Returns how many are left. Raises ChangeRefused."""
        queue = self._of(vhost, name)
        if queue.record.of_node(node) is not None:
            if len(queue.record.members) == 1:
                raise ChangeRefused("last_node")
            await self._change(queue, RemoveMember(node), node)
            logger.info("%r no longer has a member on node %s", queue.queue, node)
        return len(queue.record.members)

    async def keep_only(self, vhost: str, name: str) -> None:
        """Recover a queue without a leader from the member on this node. Raises ChangeRefused.

        The members on all other nodes are removed, and messages that only they have are lost.
        """
        queue, node = self._of(vhost, name), self._node
        member = self._own.get(queue.group)
        nodes = ", ".join(queue.record.nodes)
        if member is None or queue.record.of_node(node) is None:
            raise ChangeRefused(f"node {node} has no member of the queue: they are on {nodes}")
        if member.damage:
            raise ChangeRefused(f"the member on node {node} cannot be used: {member.damage}")
        others = ", ".join(one for one in queue.record.nodes if one != node)
        if member.is_catching_up and others:
            raise ChangeRefused(
                f"the member on node {node} is new and lacks messages: recover the queue from its "
                f"member on {others}"
            )
        now_s = asyncio.get_running_loop().time
        if await self._is_led(queue, now_s() + ELECTION_SECONDS_MAX):
            raise ChangeRefused(f"the queue has a leader, on node {queue.use.leader}, and works")
        logger.error(
            "%r will continue with only its member on node %s: its members on %s are removed, and "
            "messages that only these have are lost", queue.queue, node, others or "no other nodes",
        )  # fmt: skip
        deadline_s = now_s() + CHANGE_SECONDS_MAX
        try:
            await in_task(self._declare(queue, KeepOnly(node)))
        except (Fault, MetadataError) as error:
            raise ChangeRefused(str(error)) from None
        if not await self._is_led(queue, deadline_s):
            raise ChangeRefused("timeout: the member is not the leader yet; see the node's log")

    async def _is_led(self, queue: ReplicatedQueue, deadline_s: float) -> bool:
        """Whether a leader that reaches a majority of the members answers before the deadline."""
        while (members := await self._members(queue, deadline_s)) is not None:
            if members.reaches_majority:
                return True
            await asyncio.sleep(POLL_SECONDS)
        return False

    def queues_without_leader(self) -> list[tuple[str, str]]:
        """The vhosts and names of the queues that have a member on this node but no leader.

        A leader that does not reach a majority of the members does not count.
        """
        return [
            (one.vhost, one.queue.name) for group, one in self._declared.items()
            if group in self._own and not (
                one.use.leader and self._own[group].raft.state.reaches_majority
            )
        ]  # fmt: skip

    def replace(self, queue: ReplicatedQueue, lost: RecordedMember) -> None:
        """Let a new member replace a node's member that has lost its data."""
        key = f"{queue.group} {lost.name}"
        if key in self._replacing:
            return
        logger.warning(
            "the member of %r on node %s has lost its data: a new member replaces it, and gets all "
            "messages again", queue.queue, lost.node,
        )  # fmt: skip
        self._replacing.add(key)
        answer = self._declare(queue, ReplaceMember(lost.node, lost.number))

        def declared() -> None:
            self._replacing.discard(key)
            try:
                answer.result()
            except (Fault, MetadataError) as error:
                logger.warning("cannot replace the member of %r: %s", queue.queue, error)

        answer.when_given(declared)

    def _of(self, vhost: str, name: str) -> ReplicatedQueue:
        host = self._services.vhosts.get(vhost)
        queue = None if host is None else host.queues_named_like(name).get(name)
        declared = None if queue is None else self._declared.get(queue.placement.identity)
        if declared is None:
            raise ChangeRefused("not_found")
        if not declared.record.members:
            raise ChangeRefused(UNREADABLE)
        return declared

    def _declare(self, queue: ReplicatedQueue, change: Change) -> Answer[None]:
        client = queue.queue
        declaration = ChangePlacement(queue.vhost, client.name, queue.group, encode(change))
        answer: Answer[None] = Answer()
        try:
            self._services.declarations.submit(declaration, answer=answer)
        except Fault as error:
            answer.refuse(error)
        return answer

    async def _change(self, queue: ReplicatedQueue, change: Change, node: str) -> None:
        """Declare a change, and wait until the group has committed it. Raises ChangeRefused."""
        deadline_s = asyncio.get_running_loop().time() + CHANGE_SECONDS_MAX
        if await self._members(queue, deadline_s) is None:
            raise ChangeRefused(NO_LEADER)
        before = queue.record.of_node(node)
        try:
            await in_task(self._declare(queue, change))
        except (Fault, MetadataError) as error:
            raise ChangeRefused(str(error)) from None
        after = queue.record.of_node(node)
        while (members := await self._members(queue, deadline_s)) is not None:
            names = members.configuration.members
            is_added = after is None or after.name in names
            is_removed = before is None or before == after or before.name not in names
            if members.is_committed and is_added and is_removed:
                return
            await asyncio.sleep(POLL_SECONDS)
        raise ChangeRefused("timeout: the queue makes the change as soon as it has a leader")

    async def _members(self, queue: ReplicatedQueue, deadline_s: float) -> CurrentMembers | None:
        """The leader's answer, once there is a leader; None if there is none until the deadline."""
        loop = asyncio.get_running_loop()
        while loop.time() < deadline_s and self._declared.get(queue.group) is queue:
            answer: Answer[bytes | None] = Answer()
            queue.use.ask(MEMBERS, answer.give)
            data = await given_in_task(answer)
            if data is not None:
                try:
                    return decode_members(data)
                except MembersError as error:
                    raise ChangeRefused(str(error)) from None
            await asyncio.sleep(POLL_SECONDS)
        return None
