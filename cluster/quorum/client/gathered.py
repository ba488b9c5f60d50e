"""Gathers the requests of a node's clients to a quorum queue in one turn into as few commands as
possible: one for all publishes, and one for each consumer whose deliveries are settled.

Promise: the requests of one client take effect in its order (Q1 in queue_client.py). Only
acknowledgements may take effect after later publishes, which makes no difference to a queue that
takes duplicates; in one that refuses them, they do not.
"""

from collections.abc import Sequence
from typing import Final

from leveret.broker.queues.contract.modifications import Modification
from leveret.broker.queues.contract.publication import Publication
from leveret.cluster.quorum.client.commands import SETTLE, ModifyHeld, PublishRuns, SettleHeld
from leveret.cluster.quorum.client.consuming_client import ConsumingClient
from leveret.cluster.quorum.client.holders import Settlement
from leveret.cluster.replicated_queues.client.unapplied_hold import UnappliedHold
from leveret.storage.messages.message import Entry

PUBLISH_BYTES_MAX: Final = 512 * 1024
"""Nothing is added to a command of this size. A leader sends 8 times this to a member at once."""


class Gathered:
    """The requests of one turn, not yet sent."""

    __slots__ = ("_action", "_group", "_hold", "_publish", "_settlement")

    def __init__(self, group: ConsumingClient, hold: UnappliedHold) -> None:
        self._group = group
        self._hold = hold
        self._publish: PublishRuns | None = None
        self._action = SETTLE
        self._settlement = Settlement()

    def publish(self, publication: Publication, is_once: bool, takes_times: bool = False) -> None:
        """Publish messages. is_once: unless they are duplicates. takes_times: all nodes take runs
        of messages with times to live of their own.
        """
        if self._action != SETTLE or (is_once and self._settlement):
            self._flush_settlement()
        gathered = self._publish
        if gathered is None or gathered.is_once != is_once:
            self._flush_publish()
            gathered = self._publish = PublishRuns(self._hold, is_once)
        gathered.add(publication, takes_times)
        if gathered.size >= PUBLISH_BYTES_MAX:
            self._flush_publish()

    def settle(self, action: int, entries: Sequence[Entry]) -> None:
        """Settle or return deliveries. action: see commands.py."""
        self._begin(action)
        self._settlement.add(entries)

    def modify(self, entries: Sequence[Entry], modification: Modification) -> None:
        """Take modified deliveries back."""
        self.flush()
        self._settlement.add(entries)
        for holder, positions in self._settlement.take(self._group.holders, in_order=True):
            self._group.add(ModifyHeld(modification, holder, positions))

    def settle_run(self, action: int, first: int, count: int) -> None:
        """Settle or return deliveries with consecutive numbers."""
        self._begin(action)
        self._settlement.add_run(first, count)

    def _begin(self, action: int) -> None:
        if action != self._action:
            self._flush_settlement()
            self._action = action
        publish = self._publish
        if publish is not None and (action != SETTLE or publish.is_once):
            self._flush_publish()

    def flush(self) -> None:
        """Add commands with the gathered requests to the group's stream."""
        if self._publish is not None:
            self._flush_publish()
        if self._settlement:
            self._flush_settlement()

    def _flush_publish(self) -> None:
        publish, self._publish = self._publish, None
        if publish is not None:
            self._group.add(publish)

    def _flush_settlement(self) -> None:
        group, action = self._group, self._action
        self._action = SETTLE
        for holder, positions in self._settlement.take(group.holders, action != SETTLE):
            group.add(SettleHeld(action, holder, positions))
