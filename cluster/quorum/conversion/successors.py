"""The successor of a queue that is converted, as the copy of the messages uses it.

It has no other clients. Messages are taken from it in the order in which they were published.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import Consumer, QueueLength
from leveret.broker.queues.contract.status import ConnectionFigures, ConsumerFigures
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.pending_in_task import given_in_task
from leveret.cluster.quorum.client.holders import POSITION_MASK
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.conversion.copied_messages import when_readable
from leveret.cluster.rpc.refused import Refused
from leveret.storage.messages.message import Entry


class CopyCounts(NamedTuple):
    """Numbers of messages."""

    ready: int
    held: int


class Successor(Protocol):
    """The successor. Methods that wait raise Refused if it does not take part.

    life_ms_min: the shortest time to live of a copy.
    """

    life_ms_min: int

    def publish(self, publication: Publication) -> None:
        """Publish messages."""

    async def take(self, count: int) -> list[Entry]:
        """Take the next messages, in the order in which they were published."""

    def settle(self, entries: Sequence[Entry]) -> None:
        """Messages that were taken are gone."""

    def give_back(self, entries: Sequence[Entry]) -> None:
        """Return messages that were taken to the front. They are ready in this order."""

    async def counts(self) -> CopyCounts:
        """What it has."""


class QuorumSuccessor:
    """A quorum queue. Nothing expires in it until it has its name (`Options.is_successor`)."""

    life_ms_min = 1

    def __init__(self, queue: QuorumQueueClient) -> None:
        self._queue = queue
        self._taken_count = 0

    def publish(self, publication: Publication) -> None:
        """Publish messages."""
        self._queue.publish(publication)

    async def take(self, count: int) -> list[Entry]:
        """Take the next messages, in the order in which they were published."""
        taken = await taken_from(self._queue, count)
        first = self._taken_count + 1
        self._taken_count += count
        taken.sort(key=_position)
        if [_position(entry) for entry in taken] != list(range(first, first + count)):
            raise Refused("its successor does not deliver the copies in their order")
        return taken

    def settle(self, entries: Sequence[Entry]) -> None:
        """Messages that were taken are gone."""
        self._queue.ack(entries)

    def give_back(self, entries: Sequence[Entry]) -> None:
        """Return messages that were taken to the front."""
        for entry in entries:
            self._queue.give_back(entry.position, 1)

    async def counts(self) -> CopyCounts:
        """What it has, when it has done all that was asked for."""
        length: Answer[QueueLength] = Answer()
        self._queue.length(length)
        await given_in_task(length)
        refreshed: Answer[None] = Answer()
        self._queue.figures.refresh(refreshed)
        await given_in_task(refreshed)
        counts = self._queue.figures.counts()
        return CopyCounts(counts.ready, counts.unacked)


class ClassicSuccessor:
    """A classic queue of this node. No copy may expire before it has its name."""

    life_ms_min = 10_000

    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue

    def publish(self, publication: Publication) -> None:
        """Publish messages."""
        self._queue.publish(publication)

    async def take(self, count: int) -> list[Entry]:
        """Take the next messages, in the order in which they were published."""
        backing = self._queue.backing
        taken: list[Entry] = []

        def fetch() -> list[Entry]:
            return backing.fetch(backing.fetchable(count - len(taken)), True)

        while len(taken) < count:
            taken += await when_readable(fetch)
            if not backing.ready_count and len(taken) < count:
                raise Refused("its successor has lost messages")
            await asyncio.sleep(0)
        return taken

    def settle(self, entries: Sequence[Entry]) -> None:
        """Messages that were taken are gone."""
        self._queue.backing.ack(entries)

    def give_back(self, entries: Sequence[Entry]) -> None:
        """Return messages that were taken to the front: they were delivered before."""
        if entries:
            self._queue.may_redeliver = True
            self._queue.backing.requeue(entries)
            self._queue.note_requeued(entries)

    async def counts(self) -> CopyCounts:
        """What it has."""
        backing = self._queue.backing
        return CopyCounts(backing.ready_count, backing.unacked_count)


class Taker(Consumer):
    """Takes and keeps a number of messages. entries: those that it has.

    is_full: set when it has all, or gets no more.
    """

    __slots__ = ("_count", "entries", "is_full")

    def __init__(self, count: int) -> None:
        super().__init__("conversion", no_ack=False, is_exclusive=False, priority=0)
        self._count = count
        self.entries: list[Entry] = []
        self.is_full = asyncio.Event()

    def room(self) -> int:
        """The number of messages that it lacks."""
        return self._count - len(self.entries)

    def figures(self, activity: str) -> ConsumerFigures:
        """Its figures. The group delivers up to the prefetch limit."""
        return ConsumerFigures(
            tag=self.tag, ack_required=True, activity=activity, is_exclusive=False, priority=0,
            prefetch_count=self._count, credit=self.room(), timeout_ms=None, arguments={},
            connection=ConnectionFigures("conversion", "", 0), channel_name="conversion",
            channel_number=0, user="",
        )  # fmt: skip

    def queue_deleted(self) -> None:
        """It gets no more messages."""
        self.is_full.set()

    def deliver(self, entries: list[Entry]) -> None:
        """Keep messages."""
        self.entries += entries
        if not self.room():
            self.is_full.set()


async def taken_from(queue: QuorumQueueClient, count: int) -> list[Entry]:
    """Take the next messages of a quorum queue as a consumer. count: not 0. Raises Refused."""
    taker = Taker(count)
    subscribed: Answer[None] = Answer()
    queue.subscribe(taker, subscribed)
    try:
        await given_in_task(subscribed)
        await taker.is_full.wait()
    except asyncio.CancelledError:
        queue.cancel(taker, channel_ended=True)
        raise
    if taker.room():
        raise Refused("a queue was deleted meanwhile")
    cancelled: Answer[None] = Answer()
    queue.cancel(taker, answer=cancelled)
    await given_in_task(cancelled)
    return taker.entries


def _position(entry: Entry) -> int:
    return entry.position & POSITION_MASK
