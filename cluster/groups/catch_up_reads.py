"""Reads the entries that the leader of a group sends to members that are behind.

A read waits while the link to the member's node is congested, while the pace of the node
(catch_up_pace.py) allows no more, and until a thread has read the entries from disk.
"""

from collections.abc import Callable
from typing import Protocol

from leveret.cluster.groups.catch_up_pace import CatchUpPace
from leveret.cluster.groups.member_nodes import MemberNodes
from leveret.cluster.raft.outputs import ReadEntries
from leveret.cluster.raft.raft_member import RaftMember
from leveret.storage.contract.backing_queue import BeingRead
from leveret.storage.disk.disk import StoreError
from leveret.storage.group_log.group_log import GroupLog


class ReadsHost(Protocol):
    """The service of the node."""

    log: GroupLog
    nodes: MemberNodes
    catch_up_pace: CatchUpPace

    def is_congested(self, node: str) -> bool:
        """Whether nothing more should be sent to a node for now."""


class CatchUpReads:
    """The reads of one group. are_waiting: they wait for a congested link."""

    __slots__ = ("_done", "_group", "_host", "_lost", "_raft", "_waiting")

    def __init__(
        self, host: ReadsHost, group: int, raft: RaftMember, done: Callable[[], object],
        lost: Callable[[Exception], object],
    ) -> None:  # fmt: skip
        """done: called when entries were read. lost: called with the error if they are damaged."""
        self._host = host
        self._group = group
        self._raft = raft
        self._done = done
        self._lost = lost
        self._waiting: list[ReadEntries] = []

    @property
    def are_waiting(self) -> bool:
        """Whether reads wait for a link that is congested."""
        return bool(self._waiting)

    def read(self, read: ReadEntries) -> None:
        """Read entries for a member that is behind, and have them sent."""
        host = self._host
        if host.is_congested(host.nodes.of(self._group, read.member)):
            self._waiting.append(read)
            return
        if not host.catch_up_pace.may_send(lambda: self.read(read)):
            return
        try:
            last = self._raft.state.log.last_index
            payloads = host.log.read(self._group, read.first, last, read.bytes_max)
        except BeingRead as reading:
            reading.when_done(lambda: self.read(read))
            return
        except KeyError:
            return  # The entries were truncated or discarded since.
        except StoreError as error:
            self._lost(error)
            return
        host.catch_up_pace.sent(sum(map(len, payloads)))
        self._raft.entries_read(read.member, read.first, payloads)
        self._done()

    def go_on(self) -> None:
        """More can be sent to a node."""
        waiting, self._waiting = self._waiting, []
        for read in waiting:
            self.read(read)

    def link_down(self, node: str) -> None:
        """The link to a node is down: its members ask again."""
        nodes = self._host.nodes
        self._waiting = [one for one in self._waiting if nodes.of(self._group, one.member) != node]
