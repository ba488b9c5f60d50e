"""The use of a stream by clients on other nodes, which they report to the leader's node.

Management shows a stream on its leader's node (use_reports.py).
"""

from typing import Final

import msgspec

from leveret.broker.queues.contract.status import ConsumerFigures
from leveret.broker.runtime.clock import Clock
from leveret.cluster.streams.client.member_questions import ToldUse

REPORT_MS: Final = 5000
FIRST_REPORT_MS: Final = 500
"""The delay before a client reports a change."""
KEPT_MS: Final = 3 * REPORT_MS
"""A client that has reported nothing for this time has no consumers: its node is gone."""


class ToldUses:
    """The newest report of each client, by its number."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._uses: dict[int, tuple[int, ToldUse]] = {}

    def take(self, use: ToldUse) -> None:
        """Keep a client's report."""
        self._uses[use.client] = self._clock.now_ms() + KEPT_MS, use

    def forget(self) -> None:
        """Another node leads."""
        self._uses.clear()

    @property
    def consumers(self) -> list[ConsumerFigures]:
        """The consumers on other nodes."""
        return [
            msgspec.structs.replace(consumer, node=use.node)
            for use in self._current()
            for consumer in use.consumers
        ]

    @property
    def readers(self) -> dict[str, int]:
        """The numbers of readers on other nodes."""
        return {use.node: use.readers for use in self._current() if use.readers}

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many messages clients of other nodes have published, got and acknowledged."""
        uses = [use for _, use in self._uses.values()]
        return (
            sum(use.published for use in uses), sum(use.delivered for use in uses),
            sum(use.acked for use in uses),
        )  # fmt: skip

    def _current(self) -> list[ToldUse]:
        now_ms = self._clock.now_ms()
        return [use for kept_ms, use in self._uses.values() if kept_ms > now_ms]
