"""A transaction: what a channel published and settled since the last commit or rollback.

Nothing of it happens before the commit, which publishes first and settles then. Settled messages
are neither open (their tags cannot be used again) nor gone until the commit; a rollback makes them
open again. Facts: RabbitMQ's `rabbit_channel`, and its documentation on "Transactions".
"""

from collections.abc import Callable
from typing import NamedTuple

from broker.channel.unacked import Unacked

ACK, REQUEUE, DISCARD = "ack", "requeue", "discard"


class Settling(NamedTuple):
    """Deliveries, and what is to become of them."""

    action: str
    taken: list[tuple[int, Unacked]]


class Transaction:
    """The open transaction of a transactional channel.

    has_failed: a queue refused one of its messages while it was being committed.
    held_count: how many runs of it queues hold until they are on disk.
    """

    __slots__ = ("has_failed", "held_count", "publishes", "settlings")

    def __init__(self) -> None:
        self.publishes: list[Callable[[], None]] = []
        self.settlings: list[Settling] = []
        self.has_failed = False
        self.held_count = 0

    def settle(self, action: str, taken: list[tuple[int, Unacked]]) -> None:
        """Deliveries to be settled when the transaction is committed."""
        self.settlings.append(Settling(action, taken))

    def taken(self) -> list[tuple[int, Unacked]]:
        """Every delivery that would have been settled."""
        return [record for settling in self.settlings for record in settling.taken]
