"""Turns quorum queues that an earlier version has stored into groups, at the first start.

A version without groups stored a quorum queue as the node's other queues: it has a storage id, and
its placement has no record. This happens before anything is restored, so no client sees it.

For some queues at a time: a group of one member is made for each, and gets the messages as entries,
in order, with their counts and dead letters. When these are on disk, the rows of the queues lose
their storage ids and get records, in one transaction. Then their stored messages are deleted. After
a crash before the transaction, the groups are made again from the beginning; after it, the store
removes the rest like the messages of deleted queues.

All entries have the time at which this began: what has expired since then dies when its queue is
declared, by the options that this has.

Each node also writes the records of the queues on other nodes, and a node in no cluster that has
another name than before writes this name: a record keeps the names of members.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from leveret.broker.amqp.field_table import decode_table
from leveret.broker.declarations.values import PutPlacement, PutQueue
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.queue_kind import QUORUM
from leveret.broker.queues.contract.queue_kinds import queue_type
from leveret.broker.queues.delivery.reading import read_on
from leveret.broker.registry import stored
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.names import QUEUE, resource
from leveret.cluster.groups.groups import Groups
from leveret.cluster.quorum.machine.commands import (
    DEFAULT_PRIORITY,
    NO_LIMIT,
    EnqueuedRun,
    TakeOver,
    encode_command,
    entry_of,
    runs_of,
)
from leveret.cluster.quorum.queue_groups.older_messages import (
    FRONT_LEVEL,
    LETTERS_LEVEL,
    OlderMessage,
    older_message,
)
from leveret.cluster.remote_queues.message_runs import RunWriter
from leveret.cluster.replicated_queues.membership_record import decode_record, placed
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import Definitions, QueueRow
from leveret.storage.store.store import Store

QUEUES_AT_ONCE = 500
READ_BYTES = 1024 * 1024
"""The messages of one read become a few entries, which are on disk before the next read."""

logger = logging.getLogger("leveret.cluster")


class QueueToTakeOver(NamedTuple):
    """A queue whose placement changes. row: its declaration. is_older: no group has its messages.

    placement: with the record that it gets.
    """

    row: QueueRow
    placement: Placement
    is_older: bool

    @property
    def group(self) -> int:
        """The number of its group."""
        return self.placement.identity


def changed_queues(
    definitions: Definitions, node: str, is_alone: bool
) -> Iterator[QueueToTakeOver]:
    """The queues whose placement changes. node: this one. is_alone: it is in no cluster."""
    rows = {(row.vhost, row.name): row for row in definitions.queues}
    for it in stored.declarations(definitions):
        if not isinstance(it, PutQueue) or (it.record and not is_alone):
            continue
        if queue_type(decode_table(it.arguments)[0]) == QUORUM:
            row, before = rows[it.vhost, it.name], Placement(it.node, it.identity, it.record)
            after = placed(it.vhost, it.name, before, node, is_alone)
            if after != before:
                is_older = not it.record and after.node == node and bool(row.storage_id)
                yield QueueToTakeOver(row, after, is_older)


class TakingOver:
    """Takes the queues of one node over. groups: were begun."""

    def __init__(self, groups: Groups, store: Store, metadata: Metadata, clock: Clock) -> None:
        self._groups = groups
        self._store = store
        self._metadata = metadata
        self._now_ms, self._wall_ms = clock.now_ms(), groups.wall_ms()
        self._count = 0

    async def run(self, definitions: Definitions, is_alone: bool) -> Definitions:
        """Take all over; returns the definitions as they are then. Raises StoreError."""
        found = list(changed_queues(definitions, self._groups.node, is_alone))
        if not found:
            return definitions
        queues = [one for one in found if one.is_older]
        if queues:
            await self._take_all(queues)
        self._write([one for one in found if not one.is_older])
        return self._metadata.load()

    async def _take_all(self, queues: Sequence[QueueToTakeOver]) -> None:
        logger.info("converting %d quorum queues of an earlier version", len(queues))
        for at in range(0, len(queues), QUEUES_AT_ONCE):
            await self._take(queues[at : at + QUEUES_AT_ONCE])
        logger.info("converted %d quorum queues with %d messages", len(queues), self._count)

    async def _take(self, queues: Sequence[QueueToTakeOver]) -> None:
        groups, log = self._groups, self._store.log
        for queue in queues:
            if queue.group in groups.members:
                groups.remove(queue.group)
            (member,) = decode_record(queue.placement.record).members
            groups.create(queue.group, (member.name,), member.name)
        while not all(groups.members[queue.group].is_serving for queue in queues):
            await log.sync()
        parts = []
        for queue in queues:
            for level in self._store.levels_of(queue.row.storage_id, LETTERS_LEVEL):
                part = self._part(queue.row, level)
                parts.append(part)
                await self._read(queue.group, part, level)
        await log.sync()
        self._write([queue._replace(row=queue.row._replace(storage_id=0)) for queue in queues])
        await self._delete(parts)

    def _write(self, queues: Sequence[QueueToTakeOver]) -> None:
        """Write the rows of queues. Without a storage id, their groups have the messages."""
        with self._metadata.batch():
            for row, placement, _ in queues:
                self._metadata.put_queue(row)
                node, identity, record = placement
                stored.write(
                    PutPlacement(row.vhost, row.name, identity, node, record), self._metadata
                )
        self._metadata.sync()

    async def _delete(self, parts: Sequence[BackingQueue]) -> None:
        for part in parts:
            for _ in part.delete():
                await asyncio.sleep(0)

    def _part(self, row: QueueRow, level: int) -> BackingQueue:
        what = resource(QUEUE, row.name, row.vhost)
        return self._store.queue(
            row.storage_id, level, what, is_durable=True, is_lazy=True,
            knows_deliveries=level <= FRONT_LEVEL,
        )  # fmt: skip

    async def _read(self, group: int, part: BackingQueue, level: int) -> None:
        """Propose all messages of a level."""
        member = self._groups.members[group]
        cursor = part.cursor()
        while entries := await read_on(cursor, READ_BYTES):
            self._count += len(entries)
            messages = [older_message(entry, level) for entry in entries]
            proposed = member.propose_entries(list(self._entries(messages)))
            assert proposed, "the only member of a group leads it"
            # The turn of the groups is before the sync of what it writes.
            await asyncio.sleep(0)
            await self._store.log.sync()
        cursor.close()

    def _entries(self, messages: Sequence[OlderMessage]) -> Iterator[bytes]:
        """Entries with these messages, in order: one for those that go to the same place."""
        for (returns, place), alike in groupby(messages, lambda one: (one.returns, one.place)):
            taken = list(alike)
            runs = [
                EnqueuedRun(
                    1, len(one.message.body),
                    max(1, one.expires_at_ms - self._now_ms)
                    if one.expires_at_ms
                    else NO_LIMIT,
                    DEFAULT_PRIORITY if (own := one.message.header.priority) is None else own,
                )
                for one in taken
            ]  # fmt: skip
            head = encode_command(TakeOver(runs_of(runs), returns, place))
            writer = RunWriter(head, is_kept=True)
            data = b"".join(writer.publish([one.message for one in taken]))
            yield entry_of(data, self._wall_ms)
