"""Keeps placements and leaders of replicated queues equal: updates placements, and moves leaders.

The placement of a queue names the node that has, or should have, the leader. They are made equal as
follows:

- A leader that is not named in the placement declares itself. The declarations of a node are
  submitted in batches, one after the other, so few submissions are needed if a node with very many
  leaders dies.
- To move a leader, an operator declares the next one, and so does a node that places a new queue.
  The leader hands over to the named member as soon as this has all entries. If this takes too long,
  the leader declares itself again.

A node that is put under maintenance, or stops, hands over its leaders to members on other nodes,
and these declare themselves. A hand-over is refused while the next leader lacks entries, so clients
only notice a pause of a few round trips.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations.values import ChangePlacement, Submit
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.pending import Answer
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.groups import Groups
from leveret.cluster.raft.progress import REPLICATING, Progress
from leveret.cluster.replicated_queues.cluster_state import ClusterState
from leveret.cluster.replicated_queues.membership_record import (
    Lead,
    MembersRecord,
    RecordedMember,
    encode,
)
from leveret.storage.metadata.metadata import MetadataError

BATCH = 100
"""Declarations that are submitted together."""
AGAIN_MS = 500
"""Failed declarations are submitted again after this time."""
CATCH_UP_MS = 3000
"""How long a leader waits for the member that should lead to catch up."""
LOOK_MS = 10
UNDER_WAY_MAX = 50
"""How many hand-overs there are at a time: each is an election, which waits for two syncs."""
LEAVE_SECONDS_MAX = 10.0

logger = logging.getLogger("leveret.cluster")


class LedQueue(Protocol):
    """A queue on this node (replicated_queue.py)."""

    @property
    def vhost(self) -> str:
        """Its virtual host."""

    @property
    def queue(self) -> QueueClient:
        """The queue's client."""

    @property
    def record(self) -> MembersRecord:
        """The members that the queue should have."""


class LeaderTransfer:
    """A leader that should be replaced. to: the next leader's node; empty: any other node."""

    __slots__ = ("deadline_ms", "is_begun", "to")

    def __init__(self, to: str, deadline_ms: int) -> None:
        self.to = to
        self.deadline_ms = deadline_ms
        self.is_begun = False


class Leadership:
    """The leaders on one node. declared: its queues, by group."""

    def __init__(
        self, groups: Groups, declared: Mapping[int, LedQueue], nodes: ClusterState, submit: Submit,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._groups = groups
        self._declared = declared
        self._nodes = nodes
        self._submit = submit
        self._clock = clock
        self._is_leaving = False
        self._undeclared: dict[int, None] = {}
        self._is_declaring = False
        self._handing_over: dict[int, LeaderTransfer] = {}
        self._is_looking = False

    # Leaders of this node

    def begins(self, member: GroupMember) -> None:
        """A member here has started to serve clients."""
        leading = member.raft.leading
        assert leading is not None, "a member that serves leads"
        node = self._declared[member.group].queue.placement.node
        if self._is_leaving:
            self._hand_over(member.group, "")
        elif node != self._groups.node and leading.first_index == 1:
            # The first election of a group ignores which member should lead.
            self._hand_over(member.group, node)
        else:
            self._declare(member.group)

    def placed(self, group: int) -> None:
        """The placement of a queue has changed."""
        node = self._declared[group].queue.placement.node
        if self._leads(group) and node != self._groups.node:
            self._hand_over(group, node)

    def _leads(self, group: int) -> bool:
        member = self._groups.members.get(group)
        return member is not None and member.raft.leading is not None

    # Placements that follow

    def _declare(self, group: int) -> None:
        if self._declared[group].queue.placement.node != self._groups.node:
            self._undeclared[group] = None
            if not self._is_declaring:
                self._is_declaring = True
                self._clock.call_later_ms(0, self._declare_some)

    def _declare_some(self) -> None:
        node = self._groups.node
        change = encode(Lead(node))
        declarations: dict[int, ChangePlacement] = {}
        for group in list(self._undeclared):
            del self._undeclared[group]
            declared = self._declared.get(group)
            if declared is not None and self._leads(group):
                queue = declared.queue
                if queue.placement.node != node:
                    declarations[group] = ChangePlacement(declared.vhost, queue.name, group, change)
            if len(declarations) == BATCH:
                break
        if not declarations:
            self._is_declaring = False
            return
        answer: Answer[None] = Answer()
        answer.when_given(lambda: self._answered(answer, list(declarations)))
        try:
            self._submit(*declarations.values(), answer=answer)
        except Fault as error:
            answer.refuse(error)

    def _answered(self, answer: Answer[None], groups: list[int]) -> None:
        pause_ms = 0
        try:
            answer.result()
        except (Fault, MetadataError) as error:
            logger.info("cannot declare leaders of %d queues yet: %s", len(groups), error)
            self._undeclared |= dict.fromkeys(groups)
            pause_ms = AGAIN_MS
        self._clock.call_later_ms(pause_ms, self._declare_some)

    # Leaders that move

    def _hand_over(self, group: int, to: str) -> None:
        self._undeclared.pop(group, None)
        self._handing_over[group] = LeaderTransfer(to, self._clock.now_ms() + CATCH_UP_MS)
        if not self._is_looking:
            self._look()

    def _look(self) -> None:
        """Take the next step of the hand-overs under way. Start more if there are few."""
        under_way = 0
        led = Counter(one.queue.placement.node for one in self._declared.values())
        for group, one in list(self._handing_over.items()):
            if under_way == UNDER_WAY_MAX:
                break
            if self._is_over(group, one, led):
                del self._handing_over[group]
            else:
                under_way += 1
        self._is_looking = bool(self._handing_over)
        if self._is_looking:
            self._clock.call_later_ms(LOOK_MS, self._look)

    def _is_over(self, group: int, one: LeaderTransfer, led: Counter[str]) -> bool:
        """Whether nothing is left to do for a queue. led: how many queues each node leads."""
        member = self._groups.members.get(group)
        leading = None if member is None else member.raft.leading
        if member is None or leading is None or group not in self._declared:
            return True
        if leading.transfer_to:
            return False
        if not one.is_begun:
            able = self._able(group, one.to)
            chosen = self._next_leader(leading.progress, able, member, led)
            if chosen is not None:
                one.is_begun = member.raft.transfer_to(chosen.name, self._groups.now_ms()) is None
                led[chosen.node] += 1
                self._groups.mark(member)
            if one.is_begun or (able and self._clock.now_ms() < one.deadline_ms):
                return False
        self._declare(group)
        return True

    def _able(self, group: int, to: str) -> list[RecordedMember]:
        """The members that may lead once they have all entries. to: the only node; empty: any."""
        running = self._nodes.running - {self._groups.node}
        nodes = running & {to} if to else running - self._nodes.under_maintenance
        return [one for one in self._declared[group].record.members if one.node in nodes]

    def _next_leader(
        self, progress: list[Progress], able: list[RecordedMember], member: GroupMember,
        led: Counter[str],
    ) -> RecordedMember | None:  # fmt: skip
        """The member of these that can lead now and whose node has the fewest leaders."""
        state = member.raft.state
        voters = state.reachable.intersection(state.log.configuration.voters)
        caught_up = {
            one.member for one in progress if one.state == REPLICATING and one.match >= state.commit
        }
        found = [one for one in able if one.name in voters & caught_up]
        return min(found, key=lambda one: (led[one.node], one.node), default=None)

    # A node that should not have leaders

    def set_leaving(self, is_leaving: bool) -> None:
        """The node is put under maintenance, or is no longer."""
        self._is_leaving = is_leaving
        if is_leaving:
            for group in self._declared:
                if self._leads(group):
                    self._hand_over(group, "")

    async def hand_over_all(self) -> bool:
        """Hand over all leaders of this node. Returns whether none are left."""
        self.set_leaving(True)
        try:
            async with asyncio.timeout(LEAVE_SECONDS_MAX):
                while self._handing_over:
                    await asyncio.sleep(LOOK_MS / 1000)
        except TimeoutError:
            logger.warning(
                "the leaders of %d queues did not move to other nodes within %d seconds",
                len(self._handing_over), LEAVE_SECONDS_MAX,
            )  # fmt: skip
        return not any(map(self._leads, self._declared))
