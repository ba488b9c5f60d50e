"""Publishes the messages in a file of discarded messages to their queues.

A message goes straight to the queue in which it was, with its exchange and routing key, and not
through the exchange to other queues. A message counts as published when its queue has confirmed it;
in a durable queue, a persistent message is on disk then. A message that waited at an exchange of
the type x-delayed-message waits there again, for the rest of its delay.

PD1. Messages of one queue are published in their order.
PD2. At most `WAITING_MAX` messages wait for their confirms.
"""

import asyncio
from typing import NamedTuple

from leveret.broker.amqp.content_header import read_stored
from leveret.broker.amqp.field_table import decode_table
from leveret.broker.declarations.requester import Requester
from leveret.broker.declarations.values import (
    Declaration,
    PutBinding,
    PutExchange,
    PutQueue,
    PutVhost,
    decode,
)
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.registry.contents import contents, place
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.services.services import Services
from leveret.broker.vhost.delayed_messages import DelayedMessages
from leveret.broker.vhost.replicated_delays import ReplicatedDelays
from leveret.cluster.partitions.leftovers.files import DiscardedReader, NotReadable
from leveret.cluster.partitions.leftovers.records import (
    DeclaredRecord,
    DelayedRecord,
    ExchangeRecord,
    MessageRecord,
    QueueRecord,
    Record,
)
from leveret.storage.messages.addresses import Addresses
from leveret.storage.messages.message import Message

WAITING_MAX = 1000


class PublishedFile(NamedTuple):
    """The outcome for a file. missing: the queues that do not exist, as vhost and name.

    skipped: the number of messages of these queues, and of exchanges that do not exist
    (missing_exchanges). refused: the number of messages that their queues refused.
    """

    declared: int
    published: int
    refused: int
    skipped: int
    missing: tuple[tuple[str, str], ...]
    missing_exchanges: tuple[tuple[str, str], ...] = ()


class LeftoverConfirms:
    """A `Publisher` of runs of one message: counts confirmed and refused messages."""

    def __init__(self) -> None:
        self._holders: dict[int, list[object]] = {}
        self._refused: set[int] = set()
        self._changed = asyncio.Event()
        self.published = 0
        self.refused = 0

    def begin(self, number: int) -> None:
        """Hold a message that is about to be published, until `confirm` with this object."""
        self._holders[number] = [self]

    def hold(self, first: int, count: int, holder: object) -> None:
        """The holder will confirm the message later."""
        self._holders[first].append(holder)

    def confirm(self, first: int, holder: object) -> None:
        """The holder has stored the message safely."""
        holders = self._holders.get(first, [])
        if holder in holders:
            holders.remove(holder)
            if not holders:
                self._settle(first)

    def refuse(self, number: int) -> None:
        """The queue refuses the message."""
        self._refused.add(number)

    def holder_died(self, holder: object, is_settled: bool) -> None:
        """The holder is gone, and confirms nothing after this."""
        for number in [one for one, holders in self._holders.items() if holder in holders]:
            if not is_settled:
                self.refuse(number)
            self.confirm(number, holder)

    def _settle(self, number: int) -> None:
        del self._holders[number]
        if number in self._refused:
            self._refused.discard(number)
            self.refused += 1
        else:
            self.published += 1
        self._changed.set()

    async def wait(self, waiting_max: int) -> None:
        """Wait until at most `waiting_max` messages are neither confirmed nor refused."""
        while len(self._holders) > waiting_max:
            self._changed.clear()
            await self._changed.wait()


class LeftoverPublishing:
    """The publishing of one file.

    declares: vhosts, exchanges, queues and bindings of the file that do not exist are declared.
    """

    def __init__(self, services: Services, requester: Requester, *, declares: bool) -> None:
        self._services = services
        self._requester = requester
        self._declares = declares
        self._existing = {place(one) for one in contents(services.registry)} if declares else set()
        self._queue: QueueClient | None = None
        self._delayed: DelayedMessages | ReplicatedDelays | None = None
        self._confirms = LeftoverConfirms()
        self._addresses = Addresses()
        self._missing: list[tuple[str, str]] = []
        self._missing_exchanges: list[tuple[str, str]] = []
        self._declared = self._skipped = self._number = 0

    async def run(self, reader: DiscardedReader) -> PublishedFile:
        """Publish all messages, and wait for their confirms.

        Raises OSError, NotReadable, and Fault for a declaration that is not allowed.
        """
        while records := await asyncio.to_thread(reader.read):
            for record in records:
                await self._take(record)
            await self._confirms.wait(WAITING_MAX)
        await self._confirms.wait(0)
        return PublishedFile(
            self._declared, self._confirms.published, self._confirms.refused, self._skipped,
            tuple(self._missing), tuple(self._missing_exchanges),
        )  # fmt: skip

    async def _take(self, record: Record) -> None:
        match record:
            case DeclaredRecord() if self._declares:
                await self._declare(decode(record.declaration))
            case QueueRecord():
                await self._begin_queue(decode(record.declaration))
            case MessageRecord():
                self._publish(record)
            case ExchangeRecord():
                await self._begin_exchange(decode(record.declaration))
            case DelayedRecord():
                self._publish_delayed(record)

    async def _declare(self, it: Declaration) -> None:
        """Declare an object that messages need, unless one with its name exists."""
        if isinstance(it, PutVhost | PutExchange | PutQueue | PutBinding):
            where = place(it)
            if where not in self._existing:
                if isinstance(it, PutQueue):
                    it = self._placed(it)
                await in_task(self._services.declarations.submit(it, requester=self._requester))
                self._existing.add(where)
                self._declared += 1

    def _placed(self, it: PutQueue) -> PutQueue:
        """The declaration of the queue on this node, with a new identity."""
        vhost = self._services.vhosts[it.vhost]
        specification = vhost.kinds.specify(
            it.vhost, it.name, decode_table(it.arguments)[0], durable=it.durable,
            auto_delete=it.auto_delete,
        )  # fmt: skip
        return vhost.declaration_of(specification)

    async def _begin_queue(self, it: Declaration) -> None:
        if not isinstance(it, PutQueue):
            raise NotReadable(f"the file has messages of {type(it).__name__}, which is no queue")
        if self._declares and not it.owner:
            await self._declare(it)
        vhost = self._services.vhosts.get(it.vhost)
        self._queue = None if vhost is None else vhost.queues.get(it.name)
        if self._queue is None:
            self._missing.append((it.vhost, it.name))

    async def _begin_exchange(self, it: Declaration) -> None:
        if not isinstance(it, PutExchange):
            raise NotReadable(
                f"the file has delayed messages of {type(it).__name__}, which is no exchange"
            )
        if self._declares:
            await self._declare(it)
        vhost = self._services.vhosts.get(it.vhost)
        exchange = None if vhost is None else vhost.exchanges.get(it.name)
        self._delayed = None if exchange is None else exchange.delayed
        if self._delayed is None:
            self._missing_exchanges.append((it.vhost, it.name))

    def _publish_delayed(self, it: DelayedRecord) -> None:
        if self._delayed is None:
            self._skipped += 1
            return
        self._number += 1
        self._confirms.begin(self._number)
        message = Message(self._addresses.find(it.address), read_stored(it.header), it.body)
        publication = publication_of([message], None, self._confirms, self._number)
        self._delayed.add_for(publication, it.due_ms)
        self._confirms.confirm(self._number, self._confirms)

    def _publish(self, it: MessageRecord) -> None:
        if self._queue is None:
            self._skipped += 1
            return
        header = read_stored(it.header)
        message = Message(self._addresses.find(it.address), header, it.body)
        self._number += 1
        self._confirms.begin(self._number)
        publication = publication_of([message], header.ttl_ms, self._confirms, self._number)
        self._queue.publish(publication)
        self._confirms.confirm(self._number, self._confirms)
