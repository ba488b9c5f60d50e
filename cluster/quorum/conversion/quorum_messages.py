"""The messages of a quorum queue on the node that leads it, as a copy of the queue needs them.

They are read from the state of the leading member and from its log. The copy has them in the order
of their positions, which is the order of classic queues: also those that were returned, which may
be anywhere in the queue. The state is packed in blocks, each of which is looked at once, before the
queue is held (`BlockIndex`).
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from heapq import merge
from typing import NamedTuple

from leveret.broker.protocols.amqp10.modified_messages import annotated
from leveret.broker.runtime.clock import Clock
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.conversion.copied_messages import (
    READ_BYTES,
    RETURNED_MAX,
    UNKNOWN_HOLDERS,
    CopiedPiece,
    Left,
    TryAgain,
    when_readable,
)
from leveret.cluster.quorum.machine.commands import messages_at
from leveret.cluster.quorum.machine.packed_runs import unpack_runs
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.machine.ready_messages import ReadyMessages
from leveret.cluster.quorum.machine.run_queue import RunQueue
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.quorum.queue_groups.declared_group import machine_of
from leveret.cluster.remote_queues.message_runs import RunError, RunReader
from leveret.cluster.rpc.refused import Refused
from leveret.storage.disk.disk import StoreError
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Entry, Message

BLOCKS_AT_ONCE = 10
RUNS_AT_ONCE = 500
"""Runs that are looked at before other work has its turn."""


class QuorumMessages:
    """The `CopiedMessages` of one queue. Its methods raise Refused if this node no longer leads."""

    def __init__(
        self, queue: QuorumQueueClient, find_member: Callable[[int], GroupMember | None],
        addresses: Addresses, clock: Clock,
    ) -> None:  # fmt: skip
        """find_member: the member of a group on this node. Raises Refused."""
        member = find_member(queue.placement.identity)
        if member is None or not member.is_serving:
            raise Refused("its leader is on another node, or unknown")
        self._member = member
        self._times_served = member.times_served
        self._addresses = addresses
        self._clock = clock
        self._entry: OneEntry | None = None
        self._next: Iterator[Run] = iter(())
        self._next_start = 0
        self._blocks = BlockIndex()

    @property
    def _machine(self) -> QuorumMachine:
        """The state of the member that leads."""
        member = self._member
        if not member.is_serving or member.times_served != self._times_served:
            raise Refused("another member leads it from now on")
        return machine_of(member)

    @property
    def _ready(self) -> ReadyMessages:
        return self._machine.messages.ready

    @property
    def end(self) -> int:
        """Above all positions."""
        return self._machine.messages.position

    @property
    def ready_count(self) -> int:
        """The number of ready messages."""
        return self._ready.count

    @property
    def ready_bytes(self) -> int:
        """The bytes of their bodies."""
        return self._ready.bytes

    @property
    def has_expiring(self) -> bool:
        """Whether some of them may expire."""
        return self._ready.expiring > 0

    @property
    def has_priorities(self) -> bool:
        """Whether some of them may be delivered before earlier ones."""
        return len(self._ready.levels) > 1

    # What the machine has

    def _held_runs(self) -> list[Run]:
        return [
            run
            for sender in self._machine.senders.known.values()
            for consumer in sender.consumers.values()
            for run in consumer.held.runs
        ]

    def _returned(self) -> list[Run]:
        """All runs that were taken, or are held, in the order of their positions."""
        messages = self._machine.messages
        runs = [*self._held_runs(), *messages.ready.returned.runs(), *messages.delayed.runs]
        returned = [run for part in self._parts() for run in part.returned]
        count = sum(run.count for run in returned) + messages.ready.returned.count
        if count > RETURNED_MAX:
            raise Refused(f"{count} of its messages were returned")
        return sorted([*runs, *returned], key=_position)

    def _parts(self) -> list["Part"]:
        """All parts of the queues of messages that are ready."""
        return self._blocks.parts([level.queue for level in self._ready.levels])

    def _runs_from(self, start: int) -> Iterator[Run]:
        """All runs that are in the queue now, in the order of their positions."""
        levels = [
            _runs_of(self._blocks.parts([level.queue]), start) for level in self._ready.levels
        ]
        for run in merge(self._returned(), *levels, key=_position):
            skipped = max(0, start - run.position)
            if skipped < run.count:
                yield run.part(skipped, run.count - skipped)

    def _never_taken(self) -> int:
        """Messages from this position on were never taken, unless they were returned."""
        return min([part.first for part in self._parts() if part.first], default=self.end)

    # While clients use the queue

    async def piece(self, start: int) -> CopiedPiece | None:
        """The next messages from a position on."""
        if start != self._next_start:
            self._next = iter(())
        entries: list[Entry] = []
        octets = looked_at = 0
        run = next(self._next, None)
        if run is None:
            await self._look_at_blocks()
            self._next = self._runs_from(start)
            run = next(self._next, None)
        end = start
        while run is not None:
            entries += await self._read(run)
            end, octets, looked_at = run.last + 1, octets + run.octets, looked_at + 1
            if octets > READ_BYTES or looked_at == RUNS_AT_ONCE:
                break
            run = next(self._next, None)
        self._next_start = end
        return CopiedPiece(entries, end, run is not None)

    async def _look_at_blocks(self) -> None:
        for level in self._ready.levels:
            await self._blocks.look_at(level.queue)

    async def taken_to(self, taken_to: int) -> int:
        """Messages from this position on were never taken."""
        return max(taken_to, self._never_taken())

    async def alive_below(self, taken_to: int) -> Collection[int]:
        """The positions of the messages below one that are ready or held."""
        return _positions_below(self._runs_from(0), taken_to)

    # While it is held

    def check(self, held: Collection[int]) -> None:
        """Raise Refused unless these are the messages that are neither ready nor gone."""
        messages = self._machine.messages
        if messages.delayed.count or messages.letters.count:
            raise Refused(
                "some of its messages are delayed, or dead letters that are not confirmed"
            )
        if messages.held_count != len(held) or _positions_of(self._held_runs()) != set(held):
            raise TryAgain(UNKNOWN_HOLDERS)

    async def left(self, held: Sequence[int], copied_to: int, taken_to: int) -> Left:
        """What is left when messages below a position are copied. held: by clients, in order."""
        await self._look_at_blocks()
        end, ready_count = self.end, self.ready_count
        above = max(taken_to, held[-1] + 1 if held else 0)
        if copied_to:
            above = max(above, self._never_taken())
        return Left(
            await self._rest(copied_to), held, above,
            _positions_below(self._runs_from(0), above), end, ready_count,
        )  # fmt: skip

    async def _rest(self, copied_to: int) -> list[Entry]:
        rest: list[Entry] = []
        for number, run in enumerate(self._runs_from(copied_to)):
            rest += await self._read(run)
            if number % RUNS_AT_ONCE == RUNS_AT_ONCE - 1:
                await asyncio.sleep(0)
        return rest

    # Reading

    async def _read(self, run: Run) -> list[Entry]:
        """The messages of a run; none if they are gone meanwhile."""
        if self._entry is None or self._entry.index != run.index:
            try:
                data = await when_readable(partial(self._member.read_entry, run.index))
            except KeyError:
                return []
            except StoreError as error:
                raise Refused(str(error)) from None
            self._entry = OneEntry(run.index, data, self._addresses)
        messages = self._entry.messages(run.place, run.count)
        if run.annotations is not None:
            messages = [annotated(message, run.annotations) for message in messages]
        # Entries of the log have the time of the wall clock.
        offset_ms = self._clock.now_ms() - int(self._clock.wall_time_s() * 1000)
        entries: list[Entry] = []
        for number, message in enumerate(messages):
            expires_at_ms = run.expiry_of(number)
            if expires_at_ms:
                expires_at_ms = max(1, expires_at_ms + offset_ms)
            entries.append(Entry(message, run.position + number, run.returns > 0, expires_at_ms))
        return entries


class OneEntry:
    """The messages of one entry of the log, each read once. index: of the entry."""

    def __init__(self, index: int, data: bytes, addresses: Addresses) -> None:
        self.index = index
        self._reader = RunReader(data, messages_at(data), addresses)
        self._messages: list[Message] = []

    def messages(self, place: int, count: int) -> list[Message]:
        """Messages from a place on. Raises Refused."""
        lacked = place + count - len(self._messages)
        if lacked > 0:
            try:
                read = self._reader.some_entries(lacked, 1, False)
            except RunError as error:
                raise Refused(f"a message cannot be read: {error}") from None
            self._messages += [entry.message for entry in read]
        return self._messages[place : place + count]


class Part(NamedTuple):
    """A part of a queue of runs. first, last: positions of those that were not returned, or 0.

    returned: the other runs.
    """

    data: bytes
    first: int
    last: int
    returned: list[Run]


class BlockIndex:
    """What is known of the packed blocks of the queues of a machine."""

    def __init__(self) -> None:
        self._known: dict[int, Part] = {}

    def parts(self, queues: list[RunQueue]) -> list[Part]:
        """The parts of queues, in order."""
        return [self._part(data) for queue in queues for data in queue.pieces()]

    def _part(self, data: bytes) -> Part:
        # The known block is kept with its number, so that no other one gets it.
        part = self._known.get(id(data))
        return _part_of(data) if part is None else part

    async def look_at(self, queue: RunQueue) -> None:
        """Look at all blocks that are not known, with pauses."""
        _, *blocks, _ = queue.pieces()
        for number, data in enumerate(blocks):
            if id(data) not in self._known:
                self._known[id(data)] = _part_of(data)
                if number % BLOCKS_AT_ONCE == 0:
                    await asyncio.sleep(0)


def _part_of(data: bytes) -> Part:
    runs = unpack_runs(data)
    positions = [run.position for run in runs if not run.returns]
    returned = [run for run in runs if run.returns]
    if not positions:
        return Part(data, 0, 0, returned)
    return Part(data, positions[0], positions[-1], returned)


def _runs_of(parts: list[Part], start: int) -> Iterator[Run]:
    """The runs that were not returned, in order, from about a position on."""
    first = len(parts)
    while first and (not parts[first - 1].first or parts[first - 1].last >= start):
        first -= 1
    # The last run of the part before may reach beyond the position.
    for part in parts[max(0, first - 1) :]:
        yield from [run for run in unpack_runs(part.data) if not run.returns]


def _positions_below(runs: Iterator[Run], end: int) -> set[int]:
    positions: set[int] = set()
    for run in runs:
        if run.position >= end:
            break
        positions.update(range(run.position, min(run.last + 1, end)))
    return positions


def _positions_of(runs: list[Run]) -> set[int]:
    return {position for run in runs for position in range(run.position, run.last + 1)}


def _position(run: Run) -> int:
    return run.position
