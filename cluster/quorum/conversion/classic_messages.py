"""The messages of a classic queue on its home node, as a copy of the queue needs them.

Messages have positions, which grow in the order in which they were published. Those from `taken_to`
on were never taken from the queue, and are all ready. Of those below, some are held by clients,
some are ready again, and the others are gone.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.sessions.unacked_record import Unacked
from leveret.cluster.quorum.conversion.node_holds import NodeHolds
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.cluster.rpc.refused import Refused
from leveret.storage.contract.backing_queue import BeingRead, Unreadable
from leveret.storage.messages.message import Entry

READ_BYTES = 256 * 1024
RETURNED_MAX = 5000
"""How many messages may be ready again that were taken before."""
UNKNOWN_HOLDERS = "messages are just being returned or dead-lettered, or settled by a transaction"
Value = TypeVar("Value")


class Returned(NamedTuple):
    """The ready messages that were taken before, in order. taken_to: see above."""

    entries: list[Entry]
    taken_to: int


class HeldEntries(NamedTuple):
    """The entries that clients hold. records: of this node. hosted: of the others."""

    records: list[Unacked]
    hosted: list[Entry]

    @property
    def in_order(self) -> list[Entry]:
        """All of them, in the order of their positions."""
        entries = [*self.hosted, *(record.entry for record in self.records)]
        return sorted(entries, key=lambda entry: entry.position)


class ClassicMessages:
    """The messages of one queue."""

    def __init__(self, queue: ClassicQueue, holds: NodeHolds, remote_queues: RemoteQueues) -> None:
        self._queue = queue
        self._holds = holds
        self._remote_queues = remote_queues

    @property
    def end(self) -> int:
        """A position above those of all messages."""
        return max([end for _, end in self._queue.backing.given_positions()], default=0)

    def held(self) -> HeldEntries | None:
        """The entries that clients hold; None if some are just being returned or dead-lettered."""
        queue = self._queue
        held = HeldEntries(self._holds.records_of(queue), self._remote_queues.held_of(queue))
        count = len(held.records) + len(held.hosted)
        return held if count == queue.backing.unacked_count else None

    def read(self, position: int) -> list[Entry]:
        """The next ready messages from a position on. Raises Unreadable."""
        cursor = self._queue.backing.cursor(position)
        try:
            return cursor.read(READ_BYTES)
        finally:
            cursor.close()

    def returned(self, taken_to: int) -> Returned:
        """The ready messages that were taken before, at least all those below `taken_to`.

        Raises Unreadable, and Refused if there are many.
        """
        count, end = self._queue.backing.ready_count, self.end
        if not count:
            return Returned([], end)
        found: list[Entry] = []
        while len(found) < RETURNED_MAX:
            for entry in self.read(found[-1].position + 1 if found else 0):
                is_last = count - len(found) == end - entry.position
                if is_last and entry.position >= taken_to:
                    return Returned(found, entry.position)
                found.append(entry)
            if len(found) == count:
                return Returned(found, end)
        raise Refused(f"{RETURNED_MAX} of its messages were returned, or taken by an operator")

    async def read_from(self, position: int) -> list[Entry]:
        """All ready messages from a position on. Raises Refused."""
        found: list[Entry] = []
        while entries := await when_readable(partial(self.read, position)):
            found += entries
            position = entries[-1].position + 1
            await asyncio.sleep(0)
        return found

    async def take_all(self) -> list[Entry]:
        """Take all ready messages, so that none expires. Raises Refused."""
        backing = self._queue.backing
        taken: list[Entry] = []
        while backing.ready_count:
            taken += await when_readable(
                lambda: backing.fetch(backing.fetchable(RETURNED_MAX), True)
            )
            await asyncio.sleep(0)
        return taken


async def when_readable(read: Callable[[], Value]) -> Value:
    """The result of a read, after waiting for the disk. Raises Refused if it fails."""
    while True:
        try:
            return read()
        except BeingRead as reading:
            is_read = asyncio.Event()
            reading.when_done(is_read.set)
            await is_read.wait()
        except Unreadable as error:
            raise Refused(str(error)) from None
