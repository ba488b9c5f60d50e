"""A run of messages, which queues and stores take in one call.

The messages of a run have one address, and are alike in delivery mode and priority. If they have
numbers, these are consecutive. So they are written to the log as one record, and a queue examines
only the first one where all are alike.

Queues and their mirrors share a run: neither it nor its list changes once a queue has it.
"""

from mypy_extensions import i64

from leveret.storage.messages.message import Message


class MessageRun:
    """Messages that are published together. body_bytes: the sum of their bodies' sizes.

    sender, number: the node that sent them to all members of a mirrored queue, and its number of
    the first one; the others are numbered consecutively. If no node did, sender is 0 and number has
    no meaning.
    """

    __slots__ = ("body_bytes", "messages", "number", "sender")

    def __init__(
        self, messages: list[Message], body_bytes: int, sender: int = 0, number: int = 0
    ) -> None:
        self.messages = messages
        self.body_bytes = body_bytes
        self.sender = sender
        self.number = number

    @property
    def end(self) -> int:
        """One more than the sender's number of the last message."""
        return self.number + len(self.messages)


def run_of(messages: list[Message]) -> MessageRun:
    """The run of these messages."""
    return MessageRun(messages, body_bytes_of(messages))


def body_bytes_of(messages: list[Message]) -> int:
    """The sum of the sizes of their bodies."""
    # A loop, as in `bytes_of`.
    size: i64 = 0
    for message in messages:
        size += len(message.body)
    return size
