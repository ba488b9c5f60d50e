"""Message numbers: the identity of a message on every node that has a copy of it.

A number is unique in its cluster, for all time. The node on which a message is published gives it a
number on demand: a trace numbers publications, so that its records of one message, including those
of other nodes, can be joined; a replicated queue numbers the messages that it sends to its mirrors,
so that they recognise a message that reaches them by two paths. Other messages have the number 0
and cost nothing.

Numbers are given in blocks. The first number of a block has the time at which it was begun and the
node's place among the members of the cluster; the rest of the bits count:

    seconds since 1970   31 bits
    1/256 s               8
    place                 8
    count                16

So no number is given again after a restart, unless the clock was set back. Two nodes give the same
number only if they have the same place: while one of them has not yet learned of a node that joined
or left, or in clusters of more than 256 nodes.
"""

from collections.abc import Callable, Sequence
from typing import Final

from leveret.storage.messages.message import Message

TICKS_PER_SECOND: Final = 256
PLACES: Final = 256
BLOCK: Final = 1 << 16
"""Numbers of a block: 256 blocks a second are more than any node publishes."""


class MessageNumbers:
    """The numbers of one node. place: its place among the members of its cluster, 0 without one.

    next: the next number, if the block has it.
    """

    __slots__ = ("_end", "_place", "_tick", "_wall_time_s", "next")

    def __init__(self, wall_time_s: Callable[[], float]) -> None:
        self._wall_time_s = wall_time_s
        self._place = 0
        self._tick = 0
        self.next = self._end = 0

    @property
    def place(self) -> int:
        """The node's place among the members of its cluster. A change ends the block."""
        return self._place

    @place.setter
    def place(self, place: int) -> None:
        if place % PLACES != self._place:
            self._place = place % PLACES
            self._end = self.next

    def take(self, count: int) -> int:
        """The first of `count` consecutive numbers; `count` is at most a block."""
        first = self.next
        if first + count > self._end:
            first = self._begin_block()
        self.next = first + count
        assert self.next <= self._end, "a run has at most as many messages as a block has numbers"
        return first

    def _begin_block(self) -> int:
        self._tick = max(self._tick + 1, int(self._wall_time_s() * TICKS_PER_SECOND))
        first = (self._tick * PLACES + self._place) * BLOCK
        self._end = first + BLOCK
        return first

    def identify(self, messages: Sequence[Message]) -> None:
        """Number a run of messages, unless it is numbered already.

        The messages of a run either have consecutive numbers, given together, or none.
        """
        if messages[0].number:
            return
        for number, message in enumerate(messages, self.take(len(messages))):
            message.number = number
