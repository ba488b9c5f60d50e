"""Reports this node's use of a stream to the leader's node, where management shows it.

A client reports soon after it begins to publish or to read, and then every `REPORT_MS` while it has
consumers or readers (told_uses.py keeps the reports). A stream that is not used costs nothing.
"""

from collections.abc import Callable

from leveret.broker.runtime.clock import Clock, Timer
from leveret.cluster.streams.client.member_questions import ToldUse, encode
from leveret.cluster.streams.client.stream_group import StreamGroup
from leveret.cluster.streams.client.told_uses import FIRST_REPORT_MS, REPORT_MS


class UseReports:
    """The reports of one client. node: this one. group: `ENDED_GROUP` once the stream has ended."""

    __slots__ = ("_clock", "_node", "_timer", "group")

    def __init__(self, node: str, group: StreamGroup, clock: Clock) -> None:
        self._node = node
        self.group = group
        self._clock = clock
        self._timer: Timer | None = None

    def changed(self, use: Callable[[], ToldUse]) -> None:
        """Report the use soon, unless a report is due."""
        if self._timer is None:
            self._report_later(FIRST_REPORT_MS, use)

    def close(self) -> None:
        """End the reports."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _report_later(self, delay_ms: int, use: Callable[[], ToldUse]) -> None:
        if self._leader:
            self._timer = self._clock.call_later_ms(delay_ms, lambda: self._report(use))

    @property
    def _leader(self) -> str:
        """The leader's node; empty if it is unknown, or this one."""
        leader = self.group.leader
        return "" if leader == self._node else leader

    def _report(self, use: Callable[[], ToldUse]) -> None:
        self._timer = None
        leader = self._leader
        if not leader:
            return
        told = use()
        self.group.ask_member(leader, encode(told), lambda data: None)
        if told.consumers or told.readers:
            self._report_later(REPORT_MS, use)
