"""The copy of a queue in its successor, which has no other clients.

It is made in the order of the positions, whether clients hold a message or not, in any number of
parts. Most of it is made while the queue is in use (early_copy.py). The messages that clients have
taken from the queue meanwhile are at the front of the copy: this object takes them. Those that have
left the queue are settled. `finish` returns those that are ready in the queue to the front, and
keeps those that clients hold.

Invariants:
CO1. All messages with positions below `copied_to` that are in the queue are in the copy, in order.
CO2. The first ready message of the successor is the first copy that was not taken.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Sequence

from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.clock import Clock
from leveret.cluster.quorum.conversion.copied_messages import Left
from leveret.cluster.quorum.conversion.successors import Successor
from leveret.cluster.rpc.refused import Refused
from leveret.storage.messages.message import Entry, Message

RUN_MESSAGES_MAX = 500
UNCONFIRMED_MAX = 4000
"""More messages are published only while fewer than this are not confirmed."""
TAKEN_AT_ONCE = 2000


class Copying:
    """One copy. It is the `Publisher` of the messages.

    taken_to: the copies of all messages below this position were taken. moved: the successor's
    deliveries of those, without the settled ones, by the positions in the queue.
    """

    def __init__(self, successor: Successor, clock: Clock) -> None:
        self.copied_to = self.taken_to = 0
        self.moved: dict[int, Entry] = {}
        self._successor = successor
        self._clock = clock
        self._changed = asyncio.Event()
        self._next = 1
        self._unconfirmed: dict[tuple[int, object], int] = {}
        self._unconfirmed_count = 0
        self._has_failed = False
        self._order: deque[range] = deque()

    # The steps. They raise Refused if the successor does not do its part

    async def add(self, entries: Sequence[Entry], end: int) -> None:
        """Copy all messages of the queue from `copied_to` up to, not including, this position."""
        self.copied_to = end
        for entry in entries:
            self._append(entry.position)
        at = 0
        while at < len(entries):
            run_end = _end_of_run(entries, at)
            messages = [entry.message for entry in entries[at:run_end]]
            self._publish_run(messages, entries[at].expires_at_ms)
            at = run_end
            await self._confirmed(UNCONFIRMED_MAX)

    def _append(self, position: int) -> None:
        order = self._order
        if order and order[-1].stop == position:
            order[-1] = range(order[-1].start, position + 1)
        else:
            order.append(range(position, position + 1))

    def _publish_run(self, messages: list[Message], expires_at_ms: int) -> None:
        ttl_ms = None
        if expires_at_ms:
            ttl_ms = max(self._successor.life_ms_min, expires_at_ms - int(self._clock.now_ms()))
        first = self._next
        self._next += len(messages)
        self._successor.publish(publication_of(messages, ttl_ms, self, first))

    async def take_below(self, end: int) -> None:
        """Take all copies of messages below a position."""
        self.taken_to = max(self.taken_to, end)
        while positions := self._next_below(end):
            taken = await self._successor.take(len(positions))
            self.moved.update(zip(positions, taken, strict=True))

    def _next_below(self, end: int) -> list[int]:
        """The positions of the next copies to be taken, and forget them (CO2)."""
        order = self._order
        positions: list[int] = []
        while order and order[0].start < end and len(positions) < TAKEN_AT_ONCE:
            run = order.popleft()
            stop = min(run.stop, end, run.start + TAKEN_AT_ONCE - len(positions))
            positions += range(run.start, stop)
            if stop < run.stop:
                order.appendleft(range(stop, run.stop))
        return positions

    def settle_gone(self, alive: Collection[int]) -> None:
        """Settle taken copies of messages that have left the queue. alive: the other positions."""
        gone = [position for position in self.moved if position not in alive]
        if gone:
            self._successor.settle([self.moved.pop(position) for position in gone])

    async def finish(self, left: Left) -> list[Entry]:
        """Copy the rest of the queue, which does not change.

        Returns the successor's deliveries of the held messages, in order.
        """
        await self.add(left.rest, left.end)
        await self._confirmed(0)
        await self.take_below(left.taken_to)
        alive = set(left.alive)
        alive.update(entry.position for entry in left.rest)
        self.settle_gone(alive)
        kept = set(left.held)
        returned = [self.moved.pop(position) for position in sorted(self.moved.keys() - kept)]
        self._successor.give_back(returned)
        held = [self.moved[position] for position in left.held]
        await self._check(left.ready_count, len(held))
        return held

    async def _check(self, ready_count: int, held_count: int) -> None:
        """Raise Refused unless the successor has these numbers of messages."""
        ready, held = await self._successor.counts()
        if (ready, held) != (ready_count, held_count):
            raise Refused(
                f"its successor has {ready} ready messages instead of {ready_count}, and {held} "
                f"unacknowledged ones instead of {held_count}"
            )

    # Waiting

    async def _confirmed(self, left_max: int) -> None:
        """Wait until no more than this number of messages are not confirmed."""
        while self._unconfirmed_count > left_max:
            await self._next_change()
        await asyncio.sleep(0)

    async def _next_change(self) -> None:
        await self._changed.wait()
        self._changed.clear()
        if self._has_failed:
            raise Refused("its successor does not take the messages")

    # For the successor: see `Publisher`

    def hold(self, first: int, count: int, holder: object) -> None:
        """The holder will confirm this run later."""
        self._unconfirmed[first, holder] = count
        self._unconfirmed_count += count

    def confirm(self, first: int, holder: object) -> None:
        """The holder has stored the run safely."""
        count = self._unconfirmed.pop((first, holder), 0)
        self._unconfirmed_count -= count
        if count:
            self._changed.set()

    def refuse(self, number: int) -> None:
        """The successor refuses a message."""
        self._fail()

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The successor is gone."""
        self._fail()

    def _fail(self) -> None:
        self._has_failed = True
        self._changed.set()


def _end_of_run(entries: Sequence[Entry], start: int) -> int:
    """The end of the entries from `start` on that expire at the same time, or do not."""
    end, expires_at_ms = start + 1, entries[start].expires_at_ms
    while (
        end < len(entries)
        and end - start < RUN_MESSAGES_MAX
        and entries[end].expires_at_ms == expires_at_ms
    ):
        end += 1
    return end
