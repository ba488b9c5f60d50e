"""Saves the declarations and messages that only this node has, before it takes others' metadata.

This happens at two moments. First, when the node has lost (in an autoheal, or because it was away
while the others continued), it restarts. Before it stops, after its clients are disconnected, it
writes the messages that a restart does not keep: those of queues that are not durable, and those
that are not persistent. Second, after the restart it gets the others' declarations. Before it
deletes any of its own, it writes those that differ, with the messages of its durable queues that
are not declared there, or live elsewhere, and with the messages that wait at exchanges of the type
x-delayed-message. The latter come first: a message whose delay ends in between goes to its queues,
so it may be written twice, but is never missed.

The messages of a replicated queue are written by the node that led it last, all of them: it does
not know which of them the other nodes have, and the other members have no further ones
(`QueueFactory.messages_here`).

DK1. The file is complete and synced before the caller continues, and nothing in it was deleted
     before: the node has no clients, and applies no declarations.
DK2. A step takes at most `PIECE_BYTES` of messages, and writes them in a thread.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from leveret.broker.declarations.values import Declaration, PutExchange, PutQueue, encode
from leveret.broker.queues.delivery.reading import read_on
from leveret.broker.registry.contents import contents
from leveret.broker.registry.registry import Registry
from leveret.broker.runtime.pending import Answer, given
from leveret.broker.vhost.delayed_messages import DelayedMessages
from leveret.cluster.metadata.operations import decode_all
from leveret.cluster.metadata.outputs import Discarded
from leveret.cluster.partitions.leftovers.files import DIRECTORY, PIECE_BYTES, DiscardedWriter
from leveret.cluster.partitions.leftovers.records import (
    ChangeRecord,
    DeclaredRecord,
    DelayedRecord,
    ExchangeRecord,
    HeaderRecord,
    MessageRecord,
    QueueRecord,
    Record,
)
from leveret.storage.contract.backing_queue import BackingQueue, Cursor, Unreadable
from leveret.storage.messages.message import Entry

logger = logging.getLogger("leveret.cluster")


class Keeping:
    """The files that one run of a node writes.

    peers: the linked nodes. takes_from: the nodes that this run follows, if it restarted for that;
    set before `replacing`. gives_way_to: the nodes that the next run follows; set before `stop`.
    """

    def __init__(
        self,
        data_dir: Path,
        node: str,
        registry: Registry,
        peers: Callable[[], tuple[str, ...]],
    ) -> None:
        self.takes_from: tuple[str, ...] = ()
        self.gives_way_to: tuple[str, ...] = ()
        self._directory = data_dir / DIRECTORY
        self._node = node
        self._registry = registry
        self._peers = peers
        self._task: asyncio.Task[None] | None = None

    def replacing(self, lost: Sequence[Declaration], discarded: Discarded | None) -> Answer[None]:
        """The node is about to take over the other nodes' declarations: write the differing ones.

        A node that was only away, and declared nothing without the others, has nothing to write.
        """
        if discarded is None and not self.takes_from:
            return given(None)
        entries = () if discarded is None else discarded.entries
        changes = [decode_all(entry.payload) for entry in entries if not entry.is_refused]
        return self.keep_lost(self.takes_from or self._peers(), lost, changes)

    async def stop(self) -> None:
        """The node's clients and links are gone: write the messages that a restart loses.

        A file that is being written stays cut off.
        """
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self.gives_way_to:
            try:
                await self.keep_passing(self.gives_way_to)
            except (OSError, Unreadable) as error:
                # The node has to stop in any case, and then loses these messages.
                logger.error("failed to save messages that a restart loses in a file: %s", error)

    def keep_lost(
        self,
        takes_from: tuple[str, ...],
        lost: Sequence[Declaration],
        changes: Iterable[Sequence[Declaration]],
    ) -> Answer[None]:
        """Write declarations that are about to be deleted, with the messages of their queues.

        lost: objects of this node that the others do not have. changes: declarations made only
        here. The answer is an OSError or Unreadable on failure.
        """
        return self._begin(self._keep_lost(takes_from, lost, changes))

    async def keep_passing(self, takes_from: tuple[str, ...]) -> None:
        """Write the messages that a restart does not keep. Raises OSError and Unreadable."""
        writer = self._writer(takes_from)
        try:
            declared = tuple(contents(self._registry))
            for exchange, delayed in self._exchanges(declared):
                await self._keep_delayed(writer, exchange, delayed, is_all=not exchange.durable)
            for declaration, messages in self._queues(declared):
                is_all = not declaration.durable
                if is_all or _has_passing(messages):
                    await self._keep_messages(writer, declaration, messages, is_all=is_all)
            await self._finish(writer, takes_from)
        finally:
            writer.close()

    def _begin(self, steps: Coroutine[Any, Any, None]) -> Answer[None]:
        answer: Answer[None] = Answer()

        async def run() -> None:
            try:
                await steps
            except Exception as error:
                answer.refuse(error)
            else:
                answer.give(None)

        self._task = asyncio.get_running_loop().create_task(run())
        return answer

    async def _keep_lost(
        self,
        takes_from: tuple[str, ...],
        lost: Sequence[Declaration],
        changes: Iterable[Sequence[Declaration]],
    ) -> None:
        writer = self._writer(takes_from)
        try:
            for declarations in changes:
                if declarations:
                    writer.add(ChangeRecord(tuple(map(encode, declarations))))
            for one in lost:
                writer.add(DeclaredRecord(encode(one)))
            for exchange, delayed in self._exchanges(lost):
                await self._keep_delayed(writer, exchange, delayed, is_all=True)
            for declaration, messages in self._queues(lost):
                await self._keep_messages(writer, declaration, messages, is_all=True)
            await self._finish(writer, takes_from)
        finally:
            writer.close()

    def _writer(self, takes_from: tuple[str, ...]) -> DiscardedWriter:
        return DiscardedWriter(self._directory, HeaderRecord(self._node, time.time(), takes_from))

    def _queues(
        self, declarations: Iterable[Declaration]
    ) -> Iterable[tuple[PutQueue, BackingQueue]]:
        """The declared queues that are not empty and whose messages are on this node."""
        for one in declarations:
            if not isinstance(one, PutQueue) or one.vhost not in self._registry.vhosts:
                continue
            vhost = self._registry.vhosts[one.vhost]
            queue = vhost.queues.get(one.name)
            messages = None if queue is None else vhost.kinds.of(queue.kind).messages_here(queue)
            if messages is not None and messages.ready_count:
                yield one, messages

    def _exchanges(
        self, declarations: Iterable[Declaration]
    ) -> Iterable[tuple[PutExchange, DelayedMessages]]:
        """The declared exchanges at which messages wait on this node."""
        for one in declarations:
            if isinstance(one, PutExchange) and one.vhost in self._registry.vhosts:
                exchange = self._registry.vhosts[one.vhost].exchanges.get(one.name)
                delayed = None if exchange is None else exchange.delayed
                if isinstance(delayed, DelayedMessages) and delayed.count:
                    yield one, delayed

    async def _keep_delayed(
        self, writer: DiscardedWriter, it: PutExchange, delayed: DelayedMessages, *, is_all: bool
    ) -> None:
        """Write all messages that wait at an exchange, or only those that a restart loses."""
        loaded, cursors = delayed.waiting()
        record: Record | None = ExchangeRecord(encode(it))
        try:
            async for entries in _all_of(loaded, cursors):
                for entry in entries:
                    message = entry.message
                    if is_all or not message.header.is_persistent:
                        if record is not None:
                            writer.add(record)
                            record = None
                        writer.add(
                            DelayedRecord(
                                message.address.encoded, message.header.stored, message.body,
                                delayed.due_ms(entry),
                            )
                        )  # fmt: skip
                await self._write_piece(writer)
        finally:
            for cursor in cursors:
                cursor.close()

    async def _write_piece(self, writer: DiscardedWriter) -> None:
        """Write the gathered records if they fill a piece (DK2)."""
        if writer.gathered_bytes >= PIECE_BYTES:
            await asyncio.to_thread(writer.write)
        else:
            await asyncio.sleep(0)

    async def _keep_messages(
        self,
        writer: DiscardedWriter,
        declaration: PutQueue,
        messages: BackingQueue,
        *,
        is_all: bool,
    ) -> None:
        """Write all messages of a queue, or only those that a restart loses."""
        writer.add(QueueRecord(encode(declaration)))
        cursor = messages.cursor()
        try:
            while entries := await read_on(cursor, PIECE_BYTES):
                for entry in entries:
                    message = entry.message
                    if is_all or not message.header.is_persistent:
                        writer.add(
                            MessageRecord(
                                message.address.encoded, message.header.stored, message.body,
                                entry.redelivered,
                            )
                        )  # fmt: skip
                await self._write_piece(writer)
        finally:
            cursor.close()

    async def _finish(self, writer: DiscardedWriter, takes_from: tuple[str, ...]) -> None:
        if writer.is_empty:
            return
        await asyncio.to_thread(writer.finish)
        counts = writer.counts
        logger.error(
            "node %s takes over the metadata of %s and discards its own, which are saved in %s: "
            "%d declarations, %d messages of %d queues, %d delayed messages of %d exchanges. "
            "leveretctl publish_discarded %s publishes the messages again",
            self._node, ", ".join(takes_from) or "the other nodes", writer.path, counts.declared,
            counts.messages, counts.queues, counts.delayed, counts.exchanges, writer.path.name,
        )  # fmt: skip


async def _all_of(loaded: list[Entry], cursors: Iterable[Cursor]) -> AsyncIterator[Sequence[Entry]]:
    """Entries in memory, then the entries that cursors read, in pieces."""
    if loaded:
        yield loaded
    for cursor in cursors:
        while entries := await read_on(cursor, PIECE_BYTES):
            yield entries


def _has_passing(messages: BackingQueue) -> bool:
    """Whether a durable queue has messages that are not persistent."""
    counts = messages.counts()
    return counts.persistent < counts.ready + counts.unacked
