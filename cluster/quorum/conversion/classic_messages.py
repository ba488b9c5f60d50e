"""The messages of a classic queue on its home node, as a copy of the queue needs them.

Messages have positions, which grow in the order in which they were published. Those from `taken_to`
on were never taken from the queue, and are all ready. Of those below, some are held by clients,
some are ready again, and the others are gone.
"""

import asyncio
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.sessions.unacked_record import Unacked
from leveret.cluster.quorum.conversion.copied_messages import (
    READ_BYTES,
    RETURNED_MAX,
    CopiedPiece,
    Left,
    when_readable,
)
from leveret.cluster.quorum.conversion.node_holds import NodeHolds
from leveret.cluster.remote_queues.remote_queues import RemoteQueues
from leveret.cluster.rpc.refused import Refused
from leveret.storage.messages.message import Entry


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
    """The `CopiedMessages` of one queue."""

    def __init__(self, queue: ClassicQueue, holds: NodeHolds, remote_queues: RemoteQueues) -> None:
        """client: the object that other nodes use: that of a mirrored queue, or the queue."""
        self.client: QueueClient = queue
        self._queue = queue
        self._holds = holds
        self._remote_queues = remote_queues

    @property
    def end(self) -> int:
        """A position above those of all messages."""
        return max([end for _, end in self._queue.backing.given_positions()], default=0)

    @property
    def ready_count(self) -> int:
        """The number of ready messages."""
        return self._queue.backing.ready_count

    @property
    def ready_bytes(self) -> int:
        """The bytes of their bodies."""
        return self._queue.backing.ready_bytes

    # While clients use the queue

    async def piece(self, start: int) -> CopiedPiece | None:
        """The next messages from a position on; None if it is not known who holds some of them."""
        ready = await when_readable(partial(self.read, start))
        held = self.held()
        if held is None:
            return None
        end = ready[-1].position + 1 if ready else self.end
        piece = {entry.position: entry for entry in ready}
        piece |= {one.position: one for one in held.in_order if start <= one.position < end}
        return CopiedPiece([piece[position] for position in sorted(piece)], end, bool(ready))

    async def taken_to(self, taken_to: int) -> int:
        """Messages from this position on were never taken. taken_to: an earlier such position."""
        return (await when_readable(partial(self.returned, taken_to))).taken_to

    async def alive_below(self, taken_to: int) -> Collection[int] | None:
        """The positions of messages below one that are ready or held; None: not known."""
        returned = await when_readable(partial(self.returned, taken_to))
        held = self.held()
        if held is None:
            return None
        return {entry.position for entry in (*held.in_order, *returned.entries)}

    def held(self) -> HeldEntries | None:
        """The entries that clients hold; None if some are just being returned or dead-lettered."""
        queue = self._queue
        queue.return_waiting()
        held = HeldEntries(self._holds.records_of(queue), self._remote_queues.held_of(self.client))
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

    # While it is held

    async def left(self, held: list[Entry], copied_to: int, taken_to: int) -> Left:
        """What is left when messages below a position are copied. held: by clients, in order.

        taken_to: see `taken_to`.
        """
        count, end = self.ready_count, self.end
        returned = await when_readable(partial(self.returned, taken_to))
        rest = await self._read_from(max(returned.taken_to, copied_to))
        ready = [*returned.entries, *rest]
        rest = [entry for entry in (*held, *ready) if entry.position >= copied_to]
        rest.sort(key=_position)
        alive = {entry.position for entry in (*held, *returned.entries)}
        return Left(rest, _positions(held), returned.taken_to, alive, end, count)

    async def _read_from(self, position: int) -> list[Entry]:
        found: list[Entry] = []
        while entries := await when_readable(partial(self.read, position)):
            found += entries
            position = entries[-1].position + 1
            await asyncio.sleep(0)
        return found


def _position(entry: Entry) -> int:
    return entry.position


def _positions(entries: list[Entry]) -> list[int]:
    return [entry.position for entry in entries]
