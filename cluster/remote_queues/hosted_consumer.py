"""The consumer at a queue of this node that stands for a consumer on another node.

Its room is a credit in messages and in bytes of bodies, which the client's node grants as its own
consumer takes deliveries (remote_consumer.py). So a client that does not read stops the deliveries
to it, and at most the credit is on its way.
"""

from typing import Protocol

import msgspec

from leveret.broker.amqp.field_table import text_of
from leveret.broker.queues.contract.queue_client import Consumer, QueueClient
from leveret.broker.queues.contract.status import ConsumerFigures
from leveret.cluster.remote_queues.queue_frames import SubscribeQuestion
from leveret.storage.messages.message import Entry


class DeliveringQueue(Protocol):
    """The queue that the consumer belongs to (hosted_queue.py)."""

    @property
    def may_send(self) -> bool:
        """Whether the link has room for deliveries."""

    def deliver(self, consumer: "HostedConsumer", entries: list[Entry]) -> int:
        """Send deliveries; returns the sum of the sizes of their bodies."""

    def credit(self, consumer: "HostedConsumer") -> None:
        """A consumer that waited has room again."""

    def lost(self, consumer: "HostedConsumer") -> None:
        """The queue has ended, or has crashed."""


class HostedConsumer(Consumer):
    """The `Consumer` at a queue of this node, for a consumer of another node.

    node: the client's node. number: given by that node.
    """

    __slots__ = (
        "_bytes_left", "_figures", "_hosted", "_left", "number",
    )  # fmt: skip

    def __init__(self, hosted: DeliveringQueue, asked: SubscribeQuestion, node: str) -> None:
        super().__init__(
            text_of(asked.tag), asked.no_ack, asked.is_exclusive, asked.priority, start=asked.start
        )
        self._hosted = hosted
        self.number = asked.consumer
        self._left = asked.messages
        self._bytes_left = asked.body_bytes
        self._figures = msgspec.structs.replace(asked.figures, node=node)

    def __repr__(self) -> str:
        return f"<HostedConsumer {self.tag!r}>"

    def grant(self, messages: int, body_bytes: int) -> None:
        """The client's node has room for more."""
        self._left += messages
        self._bytes_left += body_bytes
        self.resume()

    def resume(self) -> None:
        """It may have room again."""
        if self.is_waiting:
            self._hosted.credit(self)

    def room(self) -> int:
        """The number of messages that may be sent to it now."""
        return self._left if self._bytes_left > 0 and self._hosted.may_send else 0

    def figures(self, activity: str) -> ConsumerFigures:
        """Its figures as of its subscription. activity: see queues/status.py."""
        return msgspec.structs.replace(self._figures, activity=activity)

    def deliver(self, entries: list[Entry]) -> None:
        """Send messages to the client's node."""
        self._left -= len(entries)
        self._bytes_left -= self._hosted.deliver(self, entries)

    def queue_replaced(self, queue: QueueClient) -> None:
        """Do nothing: the hosted queue refers to it (queue_host.py)."""

    def queue_deleted(self) -> None:
        """The queue is deleted or has crashed."""
        self._hosted.lost(self)

    def tell_cancelled(self) -> None:
        """Do nothing: the client's node tells the client."""
