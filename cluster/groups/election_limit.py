"""Limits how many members of a node are in an election at once.

When a node that led very many groups dies, all elections at once would take longer than each of
them waits for answers, and would start again and again. So the other members wait, in the order in
which they wanted to stand. One timer looks for all of them whether others may stand.
"""

from collections import deque
from typing import Final

from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.member_tick import Times

STANDING_MAX: Final = 50
STANDING_MS: Final = 200
"""An election that takes longer is not counted."""
LOOK_MS: Final = 5


class ElectionLimit:
    """The members of one node that are in an election, and those that wait."""

    def __init__(self, times: Times) -> None:
        self._times = times
        self._standing: dict[GroupMember, int] = {}
        """When each election started."""
        self._waiting: deque[GroupMember] = deque()

    def may_stand(self, member: GroupMember) -> bool:
        """Whether a member may start an election now. If not, its `wake` is called when it may."""
        now_ms = self._times.now_ms()
        if self._has_room(now_ms):
            self._standing[member] = now_ms
            return True
        if not self._waiting:
            self._times.wake_at(now_ms + LOOK_MS, self._look)
        self._waiting.append(member)
        return False

    def forget(self, member: GroupMember) -> None:
        """A member was removed."""
        self._standing.pop(member, None)
        if member in self._waiting:
            self._waiting.remove(member)

    def _has_room(self, now_ms: int) -> bool:
        standing = self._standing
        if len(standing) >= STANDING_MAX:
            for other, since_ms in list(standing.items()):
                if other.raft.campaign is None or now_ms - since_ms > STANDING_MS:
                    del standing[other]
        return len(standing) < STANDING_MAX

    def _look(self, now_ms: int) -> None:
        while self._waiting and self._has_room(now_ms):
            self._waiting.popleft().wake(now_ms)
        if self._waiting:
            self._times.wake_at(now_ms + LOOK_MS, self._look)
