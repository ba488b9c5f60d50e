"""The record of one delivery that the client has not settled.

This module is not compiled: a compiled class cannot be a msgspec struct.
"""

from typing import Protocol

import msgspec

from leveret.broker.queues.queue_client import QueueClient
from leveret.storage.message import Entry


class SettlingConsumer(Protocol):
    """A consumer that a message was delivered to."""

    def settled(self) -> None:
        """The client has settled one message: there is room for another."""


class Unacked(msgspec.Struct, gc=False):
    """One delivered message. consumer: None if it was taken with basic.get.

    Not tracked by the garbage collector (storage/message.py says why); a channel that ends empties
    its records, which breaks the cycle they are part of.
    """

    entry: Entry
    queue: QueueClient
    consumer: SettlingConsumer | None
    delivered_at_ms: int
