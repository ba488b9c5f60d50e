"""The record of one delivery that the client has not settled."""

from typing import Protocol

from mypy_extensions import mypyc_attr

from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.records import use_structs
from leveret.storage.messages.message import Entry


class SettlingConsumer(Protocol):
    """A consumer to which a message was delivered. timeout_ms: its own; None for its queue's."""

    timeout_ms: int | None

    def settled(self) -> None:
        """The client has settled one message: there is room for another."""


@mypyc_attr(acyclic=True)
class Unacked:
    """One delivered message. consumer: None if it was taken with basic.get.

    Not tracked by the garbage collector (leveret/records.py says why); a session that ends empties
    its records, which breaks the cycle they are part of.
    """

    __slots__ = ("consumer", "delivered_at_ms", "entry", "queue")

    def __init__(
        self,
        entry: Entry,
        queue: QueueClient,
        consumer: SettlingConsumer | None,
        delivered_at_ms: int,
    ) -> None:
        self.entry = entry
        self.queue = queue
        self.consumer = consumer
        self.delivered_at_ms = delivered_at_ms


use_structs(__name__, Unacked)
