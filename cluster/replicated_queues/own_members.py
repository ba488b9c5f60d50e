"""Keeps the members on this node in line with the records of its queues.

The leader of a group adds and removes members until the group has those of the record
(groups/wanted_members.py). In addition, each node does this:

- It creates the first members of a queue when the queue is declared. It creates a later member when
  the leader sends this its first entries. Before that, it announces the member, in case the entries
  were sent too early.
- A member that was removed while its node was down may not know it. Its node announces the member,
  and the leader answers that it was removed.
- If a restart does not find a member, this is lost. A new member with the same name could vote
  twice, or lack entries that were acknowledged. So the node reports the loss, as it does for a
  damaged member, and the leader has a new member for the node put into the record.
- It removes a member that belongs to another node, whose directory was copied. This node's member
  counts as lost.
- If no node has found its member, either the members were not on disk anywhere when all nodes died,
  or everything is lost. The nodes learn this from the reports of all others, and start again
  without messages. A member without any entry counts as one that was not found: its node reports
  it to the nodes that have lost theirs.

- A member that is left alone recovers the group by itself. This happens if an operator has removed
  the others, or if the only other one was on a node that was removed from the cluster.

A group is checked again when a link changes, and after some seconds, until it is settled.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from leveret.broker.runtime.clock import Clock, Timer
from leveret.cluster.groups.group_frames import Announced, Damaged, GroupItem
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.groups import Groups
from leveret.cluster.groups.wanted_members import node_of, number_of
from leveret.cluster.replicated_queues.cluster_state import ClusterState
from leveret.cluster.replicated_queues.membership_record import RecordedMember
from leveret.cluster.replicated_queues.replicated_queue import ReplicatedQueue

LOOK_MS = 5_000
"""How long until groups that are not settled are checked again."""

logger = logging.getLogger("leveret.cluster")


class OwnMembers:
    """The members on this node. declared: its queues, by group.

    replace: called on the leader's node with a queue and a member that has lost its data.
    """

    def __init__(
        self, groups: Groups, declared: Mapping[int, ReplicatedQueue], cluster: ClusterState,
        clock: Clock, replace: Callable[[ReplicatedQueue, RecordedMember], object],
    ) -> None:  # fmt: skip
        self._node = groups.node
        self._groups = groups
        self._declared = declared
        self._cluster = cluster
        self._clock = clock
        self._replace = replace
        self.is_restoring = True
        self._unsettled: set[int] = set()
        self._timer: Timer | None = None
        groups.lost = self._lost
        groups.may_join = self._may_join

    def restored(self) -> None:
        """All queues that a restart has found were added."""
        self.is_restoring = False

    def close(self) -> None:
        """The node stops."""
        if self._timer is not None:
            self._timer.cancel()

    def added(self, declared: ReplicatedQueue) -> None:
        """Add a queue that was declared, or that a restart has found."""
        if not declared.record.members:
            return  # The record cannot be read.
        own = declared.record.of_node(self._node)
        self._remove_foreign(declared, own)
        if own is not None and declared.group not in self._groups.members:
            if not self.is_restoring:
                if declared.record.is_first:
                    self._begin(declared, own)
            elif len(declared.record.members) == 1:
                self._begin_again(declared, own)
            else:
                declared.lost = own.name
        self.settle(declared)

    def _remove_foreign(self, declared: ReplicatedQueue, own: RecordedMember | None) -> None:
        """Remove a member that belongs to another node, whose directory was copied to this one.

        A member that no node has by the record may be an earlier one of this node, which had
        another name then: the leader says whether it was removed.
        """
        member = self._groups.members.get(declared.group)
        if member is None:
            return
        node = node_of(member.me)
        is_own = own is not None and node_of(own.name) == node
        if not is_own and (own is not None or declared.record.named(member.me) is not None):
            logger.error(
                "the files of this node contain the member of %r on node %s, from which they were "
                "copied: this member is removed", declared.queue, node,
            )  # fmt: skip
            self._groups.remove(declared.group)

    def _begin(self, declared: ReplicatedQueue, own: RecordedMember) -> None:
        member = self._groups.create(declared.group, declared.wanted.voters, own.name)
        is_first = declared.queue.placement.node == self._node
        member.raft.begin(is_first, self._groups.now_ms())

    def _begin_again(self, declared: ReplicatedQueue, own: RecordedMember) -> None:
        logger.error(
            "no node has a member of %r on disk: the queue starts again without messages",
            declared.queue,
        )
        declared.lost = ""
        self._begin(declared, own)

    def settle(self, declared: ReplicatedQueue) -> None:
        """Check whether this node has the member that it should have. Report the result."""
        items = self._settle(declared)
        for item in items:
            for node in declared.record.nodes:
                if node != self._node:
                    self._groups.send_item(node, item)
        if items or declared.waits_for_node:
            self._unsettled.add(declared.group)
            self._look_later()
        else:
            self._unsettled.discard(declared.group)

    def _settle(self, declared: ReplicatedQueue) -> list[GroupItem]:
        """The items to send about the member on this node."""
        group, record = declared.group, declared.record
        own, member = record.of_node(self._node), self._groups.members.get(group)
        items: list[GroupItem] = []
        if not record.members:
            return items  # The record cannot be read.
        renamed = {one.name: one.node for one in record.members if one.first_node}
        if self._groups.nodes.rename(group, renamed) and member is not None:
            self._groups.members_changed(member)
            items.append(Announced(group, member.me))
        if member is not None and own is not None and own.name == member.me:
            member.follow(declared.wanted)
            if member.damage:
                return [Damaged(group, member.me)] if member.is_to_be_replaced else items
            goes_on = self._goes_on_alone(declared, member)
            declared.waits_for_node = self._is_stuck(declared, member) or goes_on
            return items
        if member is not None:
            if member.damage or number_of(member.me) < record.forced_from:
                self._groups.remove(group, is_replaced=True)
            else:
                member.follow(declared.wanted)
                items.append(Announced(group, member.me))
        if own is not None:
            is_lost = declared.lost == own.name
            items.append(Damaged(group, own.name) if is_lost else Announced(group, own.name))
        return items

    def _goes_on_alone(self, declared: ReplicatedQueue, member: GroupMember) -> bool:
        """Recover a group of which only this member is left. Returns whether to check again.

        Either an operator has removed the others, or there was only one other. In this case, this
        member was needed for a majority, so it has everything that was confirmed.
        """
        raft, queue = member.raft, declared.queue
        configuration = raft.state.log.configuration
        record = declared.record
        others = [name for name in configuration.members if name != member.me]
        # Members may be added before this one has gone on alone, as its node was down meanwhile.
        is_forced = not any(map(record.named, others)) and all(
            number_of(name) < record.forced_from for name in others
        )
        if not others or not (is_forced or len(record.members) == 1):
            return False
        nodes = ", ".join(self._groups.nodes.of(declared.group, name) for name in others)
        if is_forced:
            logger.error(
                "%r continues with only the member on this node, as an operator has requested: "
                "messages that only members on %s had are lost", queue, nodes,
            )  # fmt: skip
        elif raft.leading is not None or set(configuration.voters) != {member.me, *others[:1]}:
            return raft.leading is not None
        elif nodes in self._cluster.nodes:
            return True
        else:
            logger.warning(
                "%r continues with only the member on this node: the other member was on node %s, "
                "which is no longer in the cluster", queue, nodes,
            )  # fmt: skip
        member.become_only_member()
        return False

    def _is_stuck(self, declared: ReplicatedQueue, member: GroupMember) -> bool:
        """Whether to check again, as the group cannot elect a leader that follows the record."""
        voters = member.raft.state.log.configuration.voters
        lost = declared.lost_by_others
        left = [name for name in voters if declared.record.named(name) and name not in lost]
        if declared.use.leader or 2 * len(left) > len(voters):
            declared.stuck_since_ms = 0
            return 2 * len(left) <= len(voters)
        now_ms = self._clock.now_ms()
        if not declared.stuck_since_ms:
            declared.stuck_since_ms = now_ms
        elif 0 < declared.stuck_since_ms <= now_ms - LOOK_MS and not member.is_catching_up:
            declared.stuck_since_ms = -1
            logger.error(
                "%r has no leader: most of its members are lost. `leveretctl "
                "force_shrink_member_to_current_member` on this node recovers it with the messages "
                "of the member here", declared.queue,
            )  # fmt: skip
        return True

    def removed(self, group: int) -> None:
        """The member on this node was removed from its group."""
        declared = self._declared.get(group)
        self._groups.remove(group, is_replaced=declared is not None)
        if declared is not None:
            self.settle(declared)

    # Checking again

    def _look_later(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later_ms(LOOK_MS, self.look)

    def look(self) -> None:
        """Check the groups that are not settled, for example because a link has changed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for group in sorted(self._unsettled):
            declared = self._declared.get(group)
            if declared is None:
                self._unsettled.discard(group)
            else:
                self.settle(declared)

    # Messages of other nodes

    def _may_join(self, group: int, name: str) -> bool:
        """Whether a member that a leader has added is the one that this node should have."""
        declared = self._declared.get(group)
        if declared is None or declared.lost == name:
            return False
        own = declared.record.of_node(self._node)
        return own is not None and own.name == name

    def _lost(self, group: int, name: str) -> None:
        """A member of a group has lost its data, or its node has not found it."""
        declared = self._declared.get(group)
        lost = None if declared is None else declared.record.named(name)
        if declared is None or lost is None:
            return
        member = self._groups.members.get(group)
        if member is not None:
            if member.raft.leading is not None:
                self._replace(declared, lost)
                return
            declared.lost_by_others.add(name)
            if _is_empty(member):
                self._groups.send_item(lost.node, Damaged(group, member.me))
            self.settle(declared)
            return
        own = declared.record.of_node(self._node)
        if own is not None and declared.lost == own.name:
            declared.lost_by_others.add(name)
            names = _names(declared.record.members)
            if names - {own.name} <= declared.lost_by_others:
                self._begin_again(declared, own)


def _is_empty(member: GroupMember) -> bool:
    """Whether a member has nothing that another one could need: the group may begin again."""
    raft = member.raft
    return not member.damage and raft.campaign is None and not raft.state.log.last_index


def _names(members: Iterable[RecordedMember]) -> set[str]:
    return {member.name for member in members}
