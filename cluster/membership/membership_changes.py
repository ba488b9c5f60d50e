"""How nodes join and leave a cluster: by requests to a running member.

The broker of a node that joins or leaves is stopped, or starting, so the node asks a running member
to declare the change; every node learns of it like of any declaration. A node requests only changes
of itself. `forget` is for a node that is gone.

The member passes the request on to the coordinator of the view, which makes one change at a time.
So two changes that are allowed one by one cannot leave a cluster without a disc node.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

import msgspec

from leveret.broker.declarations.values import Declaration
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.services.services import Services
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.membership import members
from leveret.cluster.membership.members import Members, MembershipRefused
from leveret.cluster.metadata.member_records import (
    cluster_id_of,
    delete_member,
    members_of,
    put_member,
)
from leveret.cluster.rpc.rpc import NotAnswered, Rpc
from leveret.storage.metadata.metadata import MetadataError

JOIN, LEAVE, FORGET = "membership.join", "membership.leave", "membership.forget"
CHANGE_TYPE, IS_MEMBER = "membership.change-type", "membership.is-member"
MEMBERS, CHANGE = "membership.members", "membership.change"
RENAME = "membership.rename"
"""The topics of the requests."""
ANSWER_SECONDS_MAX, CHANGE_SECONDS_MAX = 15.0, 600.0
"""Time limit for a member's answer; a node that leaves may have very many queues to delete."""
QUEUES_AT_ONCE = 100
"""The number of queues whose deletion, or move, is one operation."""
YES, NO = b"1", b"0"


class ClusterError(Exception):
    """The node cannot join or leave a cluster; the text has the reason and the remedy."""


class ClusterMembership(msgspec.Struct, frozen=True):
    """A cluster, and its nodes: their names, and whether each is a disc node."""

    cluster_id: str
    members: dict[str, bool]


class MembershipChange(msgspec.Struct, frozen=True):
    """A requested change of the members.

    kind: JOIN, CHANGE_TYPE, LEAVE, FORGET or RENAME. node: the node that changes. is_disc: whether
    it becomes a disc node. asked: the member that got the request. was: the node's earlier name.
    """

    kind: str
    node: str
    asked: str
    is_disc: bool = True
    was: str = ""


class MembershipChanges:
    """The answers of one node to these requests.

    name: this node's name. running: the names of the running nodes. begin_cluster: makes a cluster
    of this node, if it is not in one. is_in_view: whether this node is in a view.
    """

    def __init__(
        self,
        rpc: Rpc,
        services: Services,
        name: str,
        running: Callable[[], tuple[str, ...]],
        begin_cluster: Callable[[], Awaitable[None]],
        is_in_view: Callable[[], bool],
    ) -> None:
        self._is_in_view = is_in_view
        self._rpc = rpc
        self._services = services
        self._name = name
        self._running = running
        self._begin_cluster = begin_cluster
        self._one_at_a_time = asyncio.Lock()
        rpc.answer(JOIN, self._joins)
        rpc.answer(CHANGE_TYPE, self._changes_type)
        rpc.answer(LEAVE, self._leaves)
        rpc.answer(RENAME, self._is_renamed)
        rpc.answer(CHANGE, self._passed_on)
        rpc.answer(IS_MEMBER, self._is_member)
        rpc.answer(MEMBERS, self._tell_members)

    @property
    def _members(self) -> dict[str, bool]:
        return members_of(self._services.parameters)

    # Requests of other nodes

    async def _joins(self, node: str, text: bytes) -> bytes:
        """Add a node that asks to join; the text states whether it is a disc node."""
        await self._begin_cluster()
        return await self._ask_for(MembershipChange(JOIN, node, self._name, text == YES))

    async def _changes_type(self, node: str, text: bytes) -> bytes:
        """Change the type of a member that asks for it; the text states whether to a disc node."""
        return await self._ask_for(MembershipChange(CHANGE_TYPE, node, self._name, text == YES))

    async def _leaves(self, node: str, text: bytes) -> bytes:
        """Remove a member that asks to leave the cluster."""
        return await self._ask_for(MembershipChange(LEAVE, node, self._name))

    async def _is_renamed(self, node: str, text: bytes) -> bytes:
        """Rename a member that asks for it; the text is its old name.

        The answer is no if this node does not run yet: either its files were changed to the new
        name, too, or the asking node will not find its old name.
        """
        if not self._is_in_view():
            return NO
        await self._ask_for(MembershipChange(RENAME, node, self._name, was=text.decode()))
        return YES

    async def _tell_members(self, node: str, text: bytes) -> bytes:
        """Answer a node that asks for the members of the cluster."""
        parameters = self._services.parameters
        return msgspec.msgpack.encode(ClusterMembership(cluster_id_of(parameters), self._members))

    async def _is_member(self, node: str, text: bytes) -> bytes:
        return YES if node in self._members else NO

    async def forget(self, node: str) -> None:
        """Remove a node that does not run, with its queues. Raises ClusterError."""
        try:
            await self._ask_for(MembershipChange(FORGET, node, self._name))
        except (MembershipRefused, NotAnswered) as error:
            raise ClusterError(str(error)) from None

    # One change after the other

    async def _ask_for(self, change: MembershipChange) -> bytes:
        """Have the coordinator make a change. Raises MembershipRefused and NotAnswered."""
        coordinator = self._running()[0]
        if coordinator == self._name:
            return await self._make(change)
        text = msgspec.msgpack.encode(change)
        return await self._rpc.ask(coordinator, CHANGE, text, CHANGE_SECONDS_MAX)

    async def _passed_on(self, node: str, text: bytes) -> bytes:
        """Make a change that another member passes on."""
        return await self._make(msgspec.msgpack.decode(text, type=MembershipChange))

    async def _make(self, change: MembershipChange) -> bytes:
        """Make a change as the coordinator; answer with the resulting members."""
        async with self._one_at_a_time:
            running = self._running()
            if running[0] != self._name:
                raise MembershipRefused(
                    f"node {self._name} has ceased to coordinate the cluster: try again"
                )
            await self._make_now(change, frozenset(running))
        return await self._tell_members(change.node, b"")

    async def _make_now(self, change: MembershipChange, running: frozenset[str]) -> None:
        node, is_disc, present = change.node, change.is_disc, self._members
        if change.kind == JOIN:
            members.join(present, node, is_disc, own={})
            if node in present:
                await self._tell_emptied(node)
            await self._declare(put_member(node, is_disc))
        elif change.kind == CHANGE_TYPE:
            members.change_type(present, node, is_disc, running=running - {node})
            await self._declare(put_member(node, is_disc))
        elif change.kind == FORGET:
            members.forget(present, node, asked=change.asked, running=running)
            await self._remove(node, running)
        elif change.kind == RENAME and change.was in present:
            members.rename(present, change.was, node, running=running)
            await self._move_queues(change.was, node)
            await self._declare(put_member(node, present[change.was]), delete_member(change.was))
        elif change.kind == LEAVE and node in present:
            members.leave(present, node)
            await self._remove(node, running)

    async def _move_queues(self, old: str, new: str) -> None:
        await self._declare_all(
            vhost.kinds.of(queue.kind).node_renamed(vhost.name, queue, old, new)
            for vhost, queue in self._queues()
        )

    async def _tell_emptied(self, node: str) -> None:
        """A member joins again: it has nothing of what it had."""
        await self._declare_all(
            vhost.kinds.of(queue.kind).node_emptied(vhost.name, queue, node)
            for vhost, queue in self._queues()
        )

    async def _remove(self, node: str, running: frozenset[str]) -> None:
        """Remove a member and the queues that only it has."""
        left = running - {node}
        await self._declare_all(
            vhost.kinds.of(queue.kind).node_removed(vhost.name, queue, node, left)
            for vhost, queue in self._queues()
        )
        await self._declare(delete_member(node))

    def _queues(self) -> Iterator[tuple[VirtualHost, QueueClient]]:
        for vhost in self._services.vhosts.values():
            for queue in vhost.all_queues():
                yield vhost, queue

    async def _declare_all(self, declarations: Iterable[Declaration | None]) -> None:
        left = [one for one in declarations if one is not None]
        while left:
            await self._declare(*left[:QUEUES_AT_ONCE])
            del left[:QUEUES_AT_ONCE]

    async def _declare(self, *declarations: Declaration) -> None:
        answer = self._services.declarations.submit(*declarations)
        try:
            await in_task(answer)
            await in_task(answer.synced())
        except MetadataError as error:
            raise MembershipRefused(str(error)) from None


async def ask_to_join(rpc: Rpc, member: str, is_disc: bool) -> ClusterMembership:
    """Ask a linked node to make this one a member. Raises ClusterError."""
    answer = await _ask(rpc, member, JOIN, YES if is_disc else NO)
    return msgspec.msgpack.decode(answer, type=ClusterMembership)


async def ask_to_change_type(rpc: Rpc, member: str, is_disc: bool) -> ClusterMembership:
    """Ask a linked node to make this one a disc node or a RAM node. Raises ClusterError."""
    answer = await _ask(rpc, member, CHANGE_TYPE, YES if is_disc else NO)
    return msgspec.msgpack.decode(answer, type=ClusterMembership)


async def ask_for_members(rpc: Rpc, member: str, name: str) -> ClusterMembership:
    """Ask a linked node for its cluster's members. Raises ClusterError if this node is not one.

    name: this node's name.
    """
    membership = msgspec.msgpack.decode(
        await _ask(rpc, member, MEMBERS, b""), type=ClusterMembership
    )
    if name not in membership.members:
        raise ClusterError(
            f"node {name} is not in the cluster of node {member}: use reset and join_cluster"
        )
    return membership


async def ask_to_rename(rpc: Rpc, members: Iterable[str], old: str) -> str | None:
    """Ask the first of these nodes that is linked and runs to rename this one from `old`.

    Returns that node; None if there is none. Raises ClusterError if it refuses.
    """
    for member in members:
        if member not in rpc.nodes:
            continue
        if await _ask(rpc, member, RENAME, old.encode(), CHANGE_SECONDS_MAX) == YES:
            return member
    return None


async def ask_to_leave(rpc: Rpc, member: str) -> None:
    """Ask a linked node to remove this one from the cluster. Raises ClusterError."""
    await _ask(rpc, member, LEAVE, YES, CHANGE_SECONDS_MAX)


async def check_membership(rpc: Rpc, member: str, name: str, own: Members) -> None:
    """Raise ClusterError if a linked node does not count this one as a member.

    name: this node's name. own: the members that it knows.
    """
    if await _ask(rpc, member, IS_MEMBER, YES) == YES:
        return
    try:
        members.check_start(name, own=own, theirs={}, other=member)
    except MembershipRefused as error:
        raise ClusterError(str(error)) from None


async def _ask(
    rpc: Rpc,
    member: str,
    topic: str,
    text: bytes,
    seconds_max: float = ANSWER_SECONDS_MAX,
) -> bytes:
    try:
        return await rpc.ask(member, topic, text, seconds_max)
    except NotAnswered as error:
        raise ClusterError(f"node {member} did not carry out the request: {error}") from None
