"""The messages of a queue that is converted, as the copy of them needs them, whatever its type is.

Messages have positions, which grow in the order in which they were published, and which they keep.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol, TypeVar

from leveret.cluster.rpc.refused import Refused
from leveret.storage.contract.backing_queue import BeingRead, Unreadable
from leveret.storage.messages.message import Entry

READ_BYTES = 256 * 1024
"""About how much is read at a time."""
RETURNED_MAX = 5000
"""How many messages may be ready again that were taken before."""
UNKNOWN_HOLDERS = "messages are just being returned or dead-lettered, or settled by a transaction"
Value = TypeVar("Value")


class TryAgain(Refused):
    """The queue cannot be converted at this moment, and is as it was."""


class CopiedPiece(NamedTuple):
    """The next messages, in order, whether clients hold them or not.

    end: above their positions. has_more: whether there may be more.
    """

    entries: list[Entry]
    end: int
    has_more: bool


class Left(NamedTuple):
    """What is left to be copied of a queue that is held, and what is known of the rest.

    rest: the messages that are not copied, in order. held: the positions of those that clients
    hold, in order. taken_to: above them and all that were taken. alive: the positions of messages
    below it. end: above all positions. ready_count: the number of all ready messages.
    """

    rest: list[Entry]
    held: Sequence[int]
    taken_to: int
    alive: Collection[int]
    end: int
    ready_count: int


class CopiedMessages(Protocol):
    """The messages of one queue. Each method raises Refused if they cannot be read."""

    @property
    def end(self) -> int:
        """Above all positions."""

    @property
    def ready_count(self) -> int:
        """The number of ready messages."""

    @property
    def ready_bytes(self) -> int:
        """The bytes of their bodies."""

    async def piece(self, start: int) -> CopiedPiece | None:
        """The next messages from a position on; None if it is not known who holds some of them."""

    async def taken_to(self, taken_to: int) -> int:
        """Messages from this position on were never taken. taken_to: an earlier such position."""

    async def alive_below(self, taken_to: int) -> Collection[int] | None:
        """The positions of the messages below one that are ready or held.

        None if it is not known who holds some of them.
        """


async def when_readable(read: Callable[[], Value]) -> Value:
    """The result of a read, after waiting for the disk. Raises Refused if it fails.

    What was read is there only while those that wait are called back, so it is read again then.
    """
    waited: asyncio.Future[Value] = asyncio.get_running_loop().create_future()

    def attempt() -> None:
        if waited.done():
            return  # The task was cancelled.
        try:
            waited.set_result(read())
        except BeingRead as reading:
            reading.when_done(attempt)
        except Exception as error:
            waited.set_exception(error)

    attempt()
    try:
        return waited.result() if waited.done() else await waited
    except Unreadable as error:
        raise Refused(str(error)) from None
