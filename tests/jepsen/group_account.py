"""The account of a group of single active consumers: who was active, and what they got.

A member stores the offset of each message that it has got, and the next active one begins after it.
So all of them together get the messages of the stream without a gap. A member that is cut off from
the leader does not learn that another one has become active: two may be active until the
network is whole, but not for longer, and no second one becomes active in peace.
"""

import time

from tests.jepsen.account import is_peace
from tests.jepsen.stream_account import StreamAccount


class GroupAccount:
    """One group. next_offset: all before it was got by its members. active: those that are."""

    def __init__(self, account: StreamAccount, queue: str) -> None:
        self.next_offset = 0
        self.active: set[str] = set()
        self.changes = 0
        self._account = account
        self._queue = queue

    def begins(self, member: str, at_s: float | None = None) -> None:
        """A member was told that it is active, and answers."""
        now_s = time.monotonic() if at_s is None else at_s
        others = self.active - {member}
        if others and is_peace(self._account.events, now_s):
            self._wrong(f"{member} becomes active beside {', '.join(others)}")
        self.active.add(member)
        self.changes += 1

    def ends(self, member: str) -> None:
        """A member was told to stop, or has left."""
        self.active.discard(member)

    def took(self, member: str, offset: int) -> None:
        """A member got this message."""
        if member not in self.active:
            self._wrong(f"{member} got offset {offset} without being active")
        if offset > self.next_offset and self._queue not in self._account.short:
            self._wrong(f"{member} got offset {offset}, where {self.next_offset} comes next")
        self.next_offset = max(self.next_offset, offset + 1)

    def finished(self) -> None:
        """All is over, and nothing has happened for a while."""
        if len(self.active) != 1:
            self._wrong(f"{len(self.active)} members are active in the end")

    def _wrong(self, what: str) -> None:
        self._account.wrong.append(f"the group of {self._queue}: {what}")
