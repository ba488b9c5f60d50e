"""The implementations of the backing queue's contract, each made the same way.

An implementation is made, may be paged out and restarted, and is closed. Those with a disk have a
store of their own, without a pager: what goes to disk, and when, is what the test says.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from leveret.broker.amqp.content_header import read_header
from leveret.broker.queues.classic.priority import PriorityQueue
from leveret.broker.queues.contract.priority_levels import priority_levels
from leveret.cluster.mirrors.kept_turns import KeptTurns
from leveret.cluster.mirrors.leader_backing_queue import LeaderBackingQueue
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.disk.disk import Disk
from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import MessageRun, run_of
from leveret.storage.metadata.metadata import NoMetadata
from leveret.storage.queue.chained_queue import ChainedQueue
from leveret.storage.queue.tiered_queue import TieredQueue
from leveret.storage.queue.transient_queue import TransientQueue
from leveret.storage.store.store import Store
from tests.storage.backing_contract.decorators import MirroredQueue, UnchangedQueue

EMBED_BELOW = 40
"""Bodies from this size on go to the message store."""
PRIORITY_MAX = 2
STORAGE_ID = 1
HEAD, TAIL, BOUNDARY = 0, 1, 12
MEMORY_DISK = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Hundreds of small stores are made and removed here."""


class UnsyncedDisk(Disk):
    """A disk that syncs and reserves nothing, as no test here cuts the power."""

    def sync(self, descriptor: int, path: Path) -> None:
        pass

    def sync_directory(self, directory: Path) -> None:
        pass

    def sync_file_system(self, descriptor: int, root: Path) -> None:
        pass

    def reserve(self, descriptor: int, start: int, size: int) -> bool:
        return True


class Implementation:
    """A backing queue in memory, and what can be done to it from outside."""

    has_priorities = False
    has_disk = False
    is_durable = False

    def make(self) -> BackingQueue:
        return TransientQueue()

    def do(self, action: Callable[[], object]) -> object:
        """Call the queue as the event loop would."""
        return action()

    def page_out(self, bytes_max: int, writes: bool) -> None:
        """Write all to segments, then drop up to `bytes_max` bytes of it from memory."""

    def restart(self) -> BackingQueue:
        raise NotImplementedError

    def next_position(self, level: int) -> int:
        """Where positions of a priority go on after a restart."""
        raise NotImplementedError

    def close(self) -> None:
        pass


class PriorityInMemory(Implementation):
    has_priorities = True

    def make(self) -> BackingQueue:
        return PriorityQueue(priority_levels(PRIORITY_MAX), lambda level: TransientQueue())


class Tiered(Implementation):
    """A queue in a store of its own."""

    has_disk = True

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="backing-contract", dir=MEMORY_DISK)
        self._loop = asyncio.new_event_loop()
        self._tiers: dict[int, TieredQueue] = {}

    def make(self) -> BackingQueue:
        return self._loop.run_until_complete(self._start())

    async def _start(self) -> BackingQueue:
        self._store = Store(
            Path(self._directory.name), NoMetadata(), read_header, 1_000_000, EMBED_BELOW,
            UnsyncedDisk(), log_file_bytes=2_000,
        )  # fmt: skip
        # Readers wait for the disk.
        self._store.reads.worker = None
        self._store.open()
        self._tiers = {}
        return self._make_queue()

    def _make_queue(self) -> BackingQueue:
        return self._tier(0)

    def _tier(self, level: int) -> TieredQueue:
        tier = self._store.queue(STORAGE_ID, level, f"queue {level}", self.is_durable, False)
        self._tiers[level] = tier
        return tier

    def do(self, action: Callable[[], object]) -> object:
        async def act() -> object:
            return action()

        return self._loop.run_until_complete(act())

    def page_out(self, bytes_max: int, writes: bool) -> None:
        self._loop.run_until_complete(self._page_out(bytes_max, writes))

    async def _page_out(self, bytes_max: int, writes: bool) -> None:
        tiers = self._tiers.values()
        if writes:
            await self._store.log.sync()
            await self._store.pager.move_out([(tier, tier.next_position) for tier in tiers])
        for tier in tiers:
            tier.page_out(bytes_max)

    def restart(self) -> BackingQueue:
        self._loop.run_until_complete(self._store.close())
        return self.make()

    def next_position(self, level: int) -> int:
        return self._tiers[level].next_position if level in self._tiers else 0

    def close(self) -> None:
        self._loop.run_until_complete(self._store.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self._directory.cleanup()


class DurableTiered(Tiered):
    is_durable = True


class TieredInSmallBlocks(DurableTiered):
    """Blocks, windows and notes of a few messages: what a queue of millions has."""

    def __init__(self) -> None:
        super().__init__()
        self._small = [
            patch.multiple("leveret.storage.messages.entry_blocks", BLOCK_ENTRIES=3),
            patch.multiple("leveret.storage.queue.tiered_order", BLOCK_ENTRIES=3),
            patch.multiple("leveret.storage.queue.requeued_entries", BLOCK_ENTRIES_MAX=2),
            patch.multiple(
                "leveret.storage.queue.segment_slices", WINDOW_POSITIONS=4, WINDOWS_MAX=1
            ),
            patch.multiple("leveret.storage.queue.tiered_queue", NOTE_BYTES=-1),
        ]
        for small in self._small:
            small.start()

    def close(self) -> None:
        super().close()
        for small in self._small:
            small.stop()


class PriorityTiered(DurableTiered):
    has_priorities = True

    def _make_queue(self) -> BackingQueue:
        levels = self._store.levels_of(STORAGE_ID, PRIORITY_MAX)
        return PriorityQueue(priority_levels(PRIORITY_MAX), self._tier, levels)


class Unchanged(PriorityTiered):
    """A decorator around a priority queue."""

    def _make_queue(self) -> BackingQueue:
        return UnchangedQueue(super()._make_queue())


class Mirrored(Tiered):
    """A queue that is paged out, and a mirror in memory that applies what its leader broadcasts."""

    def _make_queue(self) -> BackingQueue:
        return MirroredQueue(super()._make_queue(), TransientQueue())


class MirroredOnDisk(Implementation):
    """A queue in memory whose mirror is paged out, with priorities."""

    has_priorities = True
    has_disk = True

    def __init__(self) -> None:
        self._mirror = PriorityTiered()

    def make(self) -> BackingQueue:
        leader = PriorityQueue(priority_levels(PRIORITY_MAX), lambda level: TransientQueue())
        return MirroredQueue(leader, self._mirror.make())

    def do(self, action: Callable[[], object]) -> object:
        return self._mirror.do(action)

    def page_out(self, bytes_max: int, writes: bool) -> None:
        self._mirror.page_out(bytes_max, writes)

    def close(self) -> None:
        self._mirror.close()


def leading(inner: BackingQueue) -> LeaderBackingQueue:
    """A leader's backing queue whose decisions no mirror takes."""
    return LeaderBackingQueue(inner, KeptTurns(inner, lambda: None), 0)


class LeadingPriority(PriorityTiered):
    """The leader of a mirrored queue with priorities. Unacked entries end with the process."""

    def _make_queue(self) -> BackingQueue:
        queue = leading(super()._make_queue())
        queue.has_mirrors = True
        return queue


class LeadingWithoutMirrors(Implementation):
    """The leader of a queue that has lost its mirrors."""

    def make(self) -> BackingQueue:
        return leading(TransientQueue())


def end_of_chain(head: BackingQueue, tail: BackingQueue) -> int:
    """The next position of two queues that are filled one after the other."""
    ((_, of_head),), ((_, of_tail),) = head.given_positions(), tail.given_positions()
    return of_tail if of_tail > BOUNDARY else of_head


class FilledToItsBoundary(UnchangedQueue):
    """A chain whose head is filled first; it is used as the two parts of one queue."""

    def __init__(self, head: BackingQueue, tail: BackingQueue) -> None:
        super().__init__(ChainedQueue(head, tail, BOUNDARY))
        self._next_position = end_of_chain(head, tail)

    def next_position_of(self, message: Message) -> int:
        return self._next_position

    def given_positions(self) -> list[tuple[int, int]]:
        return [(0, self._next_position)]

    def go_on_at(self, position: int) -> None:
        self._next_position = position

    def publish(self, run: MessageRun, expires_at_ms: int) -> bool:
        messages = run.messages
        of_head = max(0, min(len(messages), BOUNDARY - self._next_position))
        for part in (messages[:of_head], messages[of_head:]):
            if part:
                self.inner.go_on_at(self._next_position)
                self.inner.publish(run_of(part), expires_at_ms)
                self._next_position += len(part)
        return False

    def publish_each(self, run: MessageRun, expire_at_ms: list[int]) -> bool:
        return BackingQueue.publish_each(self, run, expire_at_ms)


class Chained(DurableTiered):
    """The backing queue of a mirror that is being synchronised."""

    def _make_queue(self) -> BackingQueue:
        return FilledToItsBoundary(self._tier(HEAD), self._tier(TAIL))

    def next_position(self, level: int) -> int:
        return end_of_chain(self._tiers[HEAD], self._tiers[TAIL])
