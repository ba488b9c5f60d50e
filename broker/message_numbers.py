"""Message numbers: the identity by which a message is known on every node that has a copy of it.

A number is unique on the node that gave it, for all time; with the node's name it is unique in a
cluster. It is given when somebody needs it: a trace numbers what is published, so that its records
of one message can be put together, and a replicated queue numbers what it sends to its mirrors, so
that they recognise a message that reaches them by two paths. A message that nobody asks about has
the number 0 and costs nothing.

The first number after a start is the time, in units of 1/2^32 s, so no restart gives a number
twice, unless the clock was set back.
"""

from collections.abc import Sequence

from leveret.storage.message import Message

SECOND_BITS = 32
"""Numbers that there are for each second: more than any node publishes."""


class MessageNumbers:
    """The numbers of one node. next: the one that is given next."""

    __slots__ = ("next",)

    def __init__(self, wall_time_s: float) -> None:
        self.next = int(wall_time_s * (1 << SECOND_BITS))

    def take(self, count: int) -> int:
        """The first of so many numbers that follow each other."""
        first = self.next
        self.next = first + count
        return first

    def identify(self, messages: Sequence[Message]) -> None:
        """Number a run of messages, unless that was done before.

        The messages of a run have been numbered together, and follow each other, or not at all.
        """
        if messages[0].number:
            return
        for number, message in enumerate(messages, self.take(len(messages))):
            message.number = number
