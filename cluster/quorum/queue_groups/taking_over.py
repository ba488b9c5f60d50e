"""The first start with groups: quorum queues of one member give their messages to a group each.

A version without groups stored a quorum queue as the node's other queues: it has a storage id, and
its placement has no record. This happens before anything is restored, so no client sees it.

For some queues at a time: a group of one member is made for each, and gets the messages as entries,
in order, with their counts and dead letters. When these are on disk, the rows of the queues lose
their storage ids, in one transaction. Then what they had stored is deleted. After a crash before
the transaction the groups are made again, from the beginning; after it the store removes what is
left as that of deleted queues.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from leveret.broker.amqp.field_table import decode_table
from leveret.broker.declarations.values import PutQueue
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.queue_kind import QUORUM
from leveret.broker.queues.contract.queue_kinds import queue_type
from leveret.broker.registry import stored
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.names import QUEUE, resource
from leveret.cluster.quorum.groups.groups import Groups
from leveret.cluster.quorum.machine.commands import (
    DEFAULT_PRIORITY,
    NO_LIMIT,
    EnqueuedRun,
    TakeOver,
    encode_command,
    entry_of,
    runs_of,
)
from leveret.cluster.quorum.membership_record import decode_record, placed
from leveret.cluster.quorum.queue_groups.older_messages import (
    FRONT_LEVEL,
    LETTERS_LEVEL,
    OlderMessage,
    older_message,
)
from leveret.cluster.remote_queues.message_runs import RunWriter
from leveret.storage.contract.backing_queue import BackingQueue, BeingRead
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import Definitions, QueueRow
from leveret.storage.store.store import Store

QUEUES_AT_ONCE = 500
READ_BYTES = 1024 * 1024
"""The messages of one read become a few entries, which are on disk before the next read."""

logger = logging.getLogger("leveret.cluster")


class OlderQueue(NamedTuple):
    """A queue without a group. row: its declaration.

    group, member: the number of the group that it gets, and the name of the member.
    """

    row: QueueRow
    group: int
    member: str


def older_queues(definitions: Definitions, node: str) -> list[OlderQueue]:
    """The queues that live on this node and whose messages no group has."""
    rows = {(row.vhost, row.name): row for row in definitions.queues}
    return [
        _older_queue(rows[it.vhost, it.name], Placement(it.node, it.identity), node)
        for it in stored.declarations(definitions)
        if isinstance(it, PutQueue)
        and it.storage_id
        and not it.record
        and it.node in ("", node)
        and queue_type(decode_table(it.arguments)[0]) == QUORUM
    ]


def _older_queue(row: QueueRow, before: Placement, node: str) -> OlderQueue:
    placement = placed(row.vhost, row.name, before, node, is_alone=False)
    (member,) = decode_record(placement.record).members
    return OlderQueue(row, placement.identity, member.name)


class TakingOver:
    """Takes the queues of one node over. groups: were begun."""

    def __init__(self, groups: Groups, store: Store, metadata: Metadata, clock: Clock) -> None:
        self._groups = groups
        self._store = store
        self._metadata = metadata
        self._clock = clock
        self._count = 0

    async def run(self, definitions: Definitions) -> Definitions:
        """Take all over; returns the definitions as they are then. Raises StoreError."""
        queues = older_queues(definitions, self._groups.node)
        if not queues:
            return definitions
        logger.info("%d quorum queues of an earlier version become replicated ones", len(queues))
        for at in range(0, len(queues), QUEUES_AT_ONCE):
            await self._take(queues[at : at + QUEUES_AT_ONCE])
        logger.info("%d quorum queues have %d messages", len(queues), self._count)
        return self._metadata.load()

    async def _take(self, queues: Sequence[OlderQueue]) -> None:
        groups, log = self._groups, self._store.log
        for queue in queues:
            if queue.group in groups.members:
                groups.remove(queue.group)
            groups.create(queue.group, (queue.member,), queue.member)
        while not all(groups.members[queue.group].is_serving for queue in queues):
            await log.sync()
        parts = []
        for queue in queues:
            for level in self._store.levels_of(queue.row.storage_id, LETTERS_LEVEL):
                part = self._part(queue.row, level)
                parts.append(part)
                await self._read(queue.group, part, level)
        await log.sync()
        self._forget_stored(queues)
        await self._delete(parts)

    def _forget_stored(self, queues: Sequence[OlderQueue]) -> None:
        """From now on the groups have the messages."""
        with self._metadata.batch():
            for queue in queues:
                self._metadata.put_queue(queue.row._replace(storage_id=0))
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
        while True:
            try:
                entries = cursor.read(READ_BYTES)
            except BeingRead as reading:
                is_read = asyncio.Event()
                reading.when_done(is_read.set)
                await is_read.wait()
                continue
            if not entries:
                break
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
        now_ms = self._clock.now_ms()
        for (returns, place), alike in groupby(messages, lambda one: (one.returns, one.place)):
            taken = list(alike)
            runs = [
                EnqueuedRun(
                    1, len(one.message.body),
                    max(0, one.expires_at_ms - now_ms) if one.expires_at_ms else NO_LIMIT,
                    DEFAULT_PRIORITY if (own := one.message.header.priority) is None else own,
                )
                for one in taken
            ]  # fmt: skip
            head = encode_command(TakeOver(runs_of(runs), returns, place))
            writer = RunWriter(head, is_kept=True)
            data = b"".join(writer.publish([one.message for one in taken]))
            yield entry_of(data, self._groups.wall_ms())
