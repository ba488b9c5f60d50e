"""How a client of AMQP 1.0 modifies messages that it gives back: the outcome `modified`.

Quorum queues add its annotations to the messages, as in RabbitMQ. Other queues return or reject the
messages without them.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.storage.messages.message import Entry


class Modification(NamedTuple):
    """What a client says of messages that it has not processed.

    is_failed: their delivery has failed. is_rejected: they become dead letters, or are dropped.
    annotations: values of AMQP 1.0, encoded, by their names. ready_ms: the time before which
    returned messages are not delivered again, in milliseconds since 1970; 0: at once.
    """

    is_failed: bool
    is_rejected: bool
    annotations: dict[str, bytes]
    ready_ms: int = 0


@runtime_checkable
class ModifiableQueue(Protocol):
    """A queue that takes annotations of messages."""

    def modify(self, entries: Sequence[Entry], modification: Modification) -> None:
        """Take modified messages back."""


def modify(queue: QueueClient, entries: Sequence[Entry], modification: Modification) -> None:
    """Give modified messages back to their queue."""
    if isinstance(queue, ModifiableQueue):
        queue.modify(entries, modification)
    else:
        give_back(queue, entries, modification)


def give_back(queue: QueueClient, entries: Sequence[Entry], modification: Modification) -> None:
    """Return or reject messages without their annotations."""
    if modification.is_rejected:
        queue.discard(entries)
    else:
        queue.requeue(entries, modification.is_failed)
