"""How nodes become members of a cluster, and cease to be: questions to a running member.

A node that joins or leaves has its broker stopped, or is starting, so it asks: any running member
declares the change for it, and every node learns of it as of any declaration. What a member asks
for is about itself only. `forget` is for a node that is gone.
"""

from collections.abc import Awaitable, Callable

import msgspec

from leveret.broker.declarations import Declaration, DeleteQueue
from leveret.broker.pending_in_task import in_task
from leveret.broker.services import Services
from leveret.cluster.membership import members
from leveret.cluster.membership.members import Members, MembershipRefused
from leveret.cluster.metadata.member_records import (
    cluster_id_of,
    delete_member,
    members_of,
    put_member,
)
from leveret.cluster.questions import NotAnswered, Questions

JOIN, LEAVE = "membership.join", "membership.leave"
CHANGE_TYPE, IS_MEMBER = "membership.change-type", "membership.is-member"
"""The topics of the questions."""
ANSWER_SECONDS_MAX = 15.0
YES, NO = b"1", b"0"


class ClusterError(Exception):
    """The node cannot join its cluster, or leave it; the text says why and what to do."""


class Membership(msgspec.Struct, frozen=True):
    """A cluster, and the names of its nodes with whether each is a disc node."""

    cluster_id: str
    members: dict[str, bool]


class MembershipChanges:
    """What one node answers.

    name: of this node. running: the names of the nodes that run. begin_cluster: makes a cluster of
    this node, if it is in none.
    """

    def __init__(
        self,
        questions: Questions,
        services: Services,
        name: str,
        running: Callable[[], tuple[str, ...]],
        begin_cluster: Callable[[], Awaitable[None]],
    ) -> None:
        self._services = services
        self._name = name
        self._running = running
        self._begin_cluster = begin_cluster
        questions.answer(JOIN, self._joins)
        questions.answer(CHANGE_TYPE, self._changes_type)
        questions.answer(LEAVE, self._leaves)
        questions.answer(IS_MEMBER, self._is_member)

    @property
    def _members(self) -> dict[str, bool]:
        return members_of(self._services.parameters)

    async def _joins(self, node: str, text: bytes) -> bytes:
        """A node asks to be a member; whether as a disc node is the text."""
        await self._begin_cluster()
        members.join(self._members, node, text == YES, own={})
        return await self._put(node, text)

    async def _changes_type(self, node: str, text: bytes) -> bytes:
        """A member asks to be of another type; whether a disc node is the text."""
        running = frozenset(self._running()) - {node}
        members.change_type(self._members, node, text == YES, running=running)
        return await self._put(node, text)

    async def _put(self, node: str, text: bytes) -> bytes:
        await self._declare(put_member(node, text == YES))
        parameters = self._services.parameters
        return msgspec.msgpack.encode(Membership(cluster_id_of(parameters), self._members))

    async def _leaves(self, node: str, text: bytes) -> bytes:
        """A member asks to be one no longer."""
        if node in self._members:
            members.leave(self._members, node)
            await self._remove(node)
        return YES

    async def _is_member(self, node: str, text: bytes) -> bytes:
        return YES if node in self._members else NO

    async def forget(self, node: str) -> None:
        """Remove a node that does not run, with the queues that it has. Raises ClusterError."""
        running = frozenset(self._running())
        try:
            members.forget(self._members, node, asked=self._name, running=running)
        except MembershipRefused as error:
            raise ClusterError(str(error)) from None
        await self._remove(node)

    async def _remove(self, node: str) -> None:
        for vhost in self._services.vhosts.values():
            gone = [queue for queue in vhost.queues.values() if queue.home.node == node]
            if gone:
                await self._declare(*(DeleteQueue(vhost.name, queue.name) for queue in gone))
        await self._declare(delete_member(node))

    async def _declare(self, *declarations: Declaration) -> None:
        answer = self._services.declarations.submit(*declarations)
        await in_task(answer)
        await in_task(answer.synced())


async def ask_to_join(questions: Questions, member: str, is_disc: bool) -> Membership:
    """Ask a linked node to make this one a member. Raises ClusterError."""
    answer = await _ask(questions, member, JOIN, YES if is_disc else NO)
    return msgspec.msgpack.decode(answer, type=Membership)


async def ask_to_change_type(questions: Questions, member: str, is_disc: bool) -> Membership:
    """Ask a linked node to make this one a disc node or a RAM node. Raises ClusterError."""
    answer = await _ask(questions, member, CHANGE_TYPE, YES if is_disc else NO)
    return msgspec.msgpack.decode(answer, type=Membership)


async def ask_to_leave(questions: Questions, member: str) -> None:
    """Ask a linked node to remove this one from the cluster. Raises ClusterError."""
    await _ask(questions, member, LEAVE, YES)


async def check_membership(questions: Questions, member: str, name: str, own: Members) -> None:
    """Raise ClusterError if a linked node does not take this one for a member.

    name: of this node. own: the members that it knows.
    """
    if await _ask(questions, member, IS_MEMBER, YES) == YES:
        return
    try:
        members.check_start(name, own=own, theirs={}, other=member)
    except MembershipRefused as error:
        raise ClusterError(str(error)) from None


async def _ask(questions: Questions, member: str, topic: str, text: bytes) -> bytes:
    try:
        return await questions.ask(member, topic, text, ANSWER_SECONDS_MAX)
    except NotAnswered as error:
        raise ClusterError(f"node {member} did not do what was asked: {error}") from None
