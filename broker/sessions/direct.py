"""A session without a socket, with which management declares, publishes and gets on behalf of a
user.

It calls the same functions as methods from clients, so the checks, their order and their texts are
the same. Answers are returned instead of written, and faults are raised to the caller.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import not_allowed
from leveret.broker.amqp.field_table import Table
from leveret.broker.auth.identity import Identity
from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.names import EXCHANGE, QUEUE, resource
from leveret.broker.runtime.pending import Answer, Steps
from leveret.broker.runtime.pending_in_task import finish
from leveret.broker.services.services import Services
from leveret.broker.sessions import (
    declaring_bindings,
    declaring_exchanges,
    declaring_queues,
    getting,
    publishing,
    settling,
)
from leveret.broker.sessions.access import check, check_exclusive_access
from leveret.broker.sessions.confirms import Confirms
from leveret.broker.sessions.declaring_exchanges import ExchangeProperties
from leveret.broker.sessions.declaring_queues import QueueProperties
from leveret.broker.sessions.operation_faults import not_written, timed_out
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_connection import SessionConnection
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.messages.message import Entry, Message
from leveret.storage.metadata.metadata import MetadataError

Change = Coroutine[Answer[Any], None, Answer[None]]
"""Steps that declare something, and return an answer that is given when it is on disk."""


class GotMessage(NamedTuple):
    """A message taken from a queue. message_count: the number of ready messages left there."""

    message: Message
    delivery_tag: int
    redelivered: bool
    message_count: int


class DirectSession(Session):
    """A session that has no client to notify. has_returned: a message reached no queue."""

    __slots__ = ("has_returned",)

    def __init__(self, connection: SessionConnection) -> None:
        super().__init__(connection, 1)
        self.has_returned = False

    def send_returned(self, messages: list[Message], code: int, text: str) -> None:
        """Remember that messages are returned."""
        self.has_returned = True

    def send_confirms_later(self) -> None:
        """Do nothing: the publishing caller asks for its confirms."""

    def report_closed(self, consumer_count: int) -> None:
        """Do nothing: events of channels are for those of clients."""


class DirectConnection(SessionConnection):
    """A user's access to a vhost for one request. Use as a context manager.

    When the block ends, its session requeues messages that were got but not settled.
    """

    def __init__(
        self,
        services: Services,
        user: Identity,
        vhost: VirtualHost,
        peer_host: str,
        requester: Requester,
    ) -> None:
        """peer_host: the address from which the user sent the request."""
        super().__init__(services)
        self.user = user
        self.vhost = vhost
        self.peer_host = peer_host
        self.requester = requester
        self.name = f"<management of {user.name}>"
        self.session = DirectSession(self)

    def __enter__(self) -> "DirectConnection":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.session.release()
        # It refers to the connection: without the cycle both are freed at once.
        del self.session

    async def check_readable(self, queue: QueueClient) -> None:
        """Check that the user may read from a queue. Raises ChannelFault, ConnectionFault."""

        async def check_all() -> None:
            await check(self.session, QUEUE, queue.name, "read")
            check_exclusive_access(self.session, queue)

        await self._do(check_all(), f"reading from queue '{queue.name}'")

    async def check(self, kind: str, name: str, permission: str) -> None:
        """Check a permission of the user. Raises ChannelFault, ConnectionFault."""
        steps = check(self.session, kind, name, permission)
        await self._do(steps, f"checking access to {kind} '{name}'")

    async def check_queue(self, name: str, properties: QueueProperties) -> None:
        """Check that a queue could be declared. Raises ChannelFault, ConnectionFault."""
        steps = declaring_queues.check_declaration(self.session, name, properties)
        await self._do(steps, self._described("queue.declare", QUEUE, name))

    async def check_exchange(self, name: str, properties: ExchangeProperties) -> None:
        """Check that an exchange could be declared. Raises ChannelFault, ConnectionFault."""
        steps = declaring_exchanges.check_declaration(self.session, name, properties)
        await self._do(steps, self._described("exchange.declare", EXCHANGE, name))

    # Declaring: methods that return when the change is on disk. They raise ChannelFault and
    # ConnectionFault.

    async def declare_queue(self, name: str, properties: QueueProperties) -> None:
        """Declare a queue."""

        async def declare() -> Answer[None]:
            return (await declaring_queues.declare_queue(self.session, name, properties)).synced

        await self._change(declare(), "queue.declare", QUEUE, name)

    async def delete_queue(self, name: str, *, if_unused: bool, if_empty: bool) -> None:
        """Delete a queue; succeeds if it does not exist."""
        steps = declaring_queues.delete_queue(
            self.session, name, if_unused=if_unused, if_empty=if_empty, tell=_no_recipient
        )
        await self._do(steps, self._described("queue.delete", QUEUE, name))

    async def purge_queue(self, name: str) -> None:
        """Drop all ready messages of a queue."""

        async def purge() -> None:
            await declaring_queues.purge_queue(self.session, name)

        await self._do(purge(), self._described("queue.purge", QUEUE, name))

    async def declare_exchange(self, name: str, properties: ExchangeProperties) -> None:
        """Declare an exchange."""
        change = declaring_exchanges.declare_exchange(self.session, name, properties)
        await self._change(change, "exchange.declare", EXCHANGE, name)

    async def delete_exchange(self, name: str, *, if_unused: bool) -> None:
        """Delete an exchange; succeeds if it does not exist."""
        change = declaring_exchanges.delete_exchange(self.session, name, if_unused=if_unused)
        await self._change(change, "exchange.delete", EXCHANGE, name)

    async def bind_queue(self, name: str, source: str, routing_key: str, arguments: Table) -> None:
        """Bind a queue to an exchange."""
        change = declaring_bindings.bind_queue(self.session, name, source, routing_key, arguments)
        await self._change(change, "queue.bind", QUEUE, name)

    async def unbind_queue(
        self, name: str, source: str, routing_key: str, arguments: Table
    ) -> None:
        """Remove a queue's binding; succeeds if it does not exist."""
        change = declaring_bindings.unbind_queue(self.session, name, source, routing_key, arguments)
        await self._change(change, "queue.unbind", QUEUE, name)

    async def bind_exchange(
        self, name: str, source: str, routing_key: str, arguments: Table
    ) -> None:
        """Bind an exchange to another."""
        change = declaring_bindings.bind_exchange(
            self.session, name, source, routing_key, arguments
        )
        await self._change(change, "exchange.bind", EXCHANGE, name)

    async def unbind_exchange(
        self, name: str, source: str, routing_key: str, arguments: Table
    ) -> None:
        """Remove an exchange's binding; succeeds if it does not exist."""
        change = declaring_bindings.unbind_exchange(
            self.session, name, source, routing_key, arguments
        )
        await self._change(change, "exchange.unbind", EXCHANGE, name)

    # Messages

    async def publish(
        self, exchange: str, routing_key: str, header: ContentHeader, body: bytes
    ) -> bool:
        """Publish a mandatory message; returns whether a queue has it and none has refused it.

        It may not be on disk yet: see `confirmed`. Raises ChannelFault and ConnectionFault.
        """
        self.session.has_returned = False
        confirms = self.session.confirms = Confirms()
        target = self.targets.find_by_address(exchange, routing_key, is_mandatory=True)

        async def publish() -> None:
            message = Message(target.address, header, body)
            steps = publishing.publish(self.session, target, Publication([message], len(body)))
            if steps is not None:
                await steps

        await self._do(publish(), publishing.described(self.session, target))
        return not self.session.has_returned and not confirms.refused_count

    async def confirmed(self) -> bool:
        """Wait until the message that was published is safe; returns whether no queue refused it.

        Raises ChannelFault after `channel_operation_timeout`.
        """
        confirms = self.session.confirms
        assert confirms is not None, "a message was published"
        due = asyncio.Event()
        confirms.due = due.set
        timeout_ms = self.services.config.channel_operation_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not (settled := confirms.take()):
                    await due.wait()
                    due.clear()
        except TimeoutError:
            raise timed_out("basic.publish", timeout_ms) from None
        return all(is_ack for is_ack, _, _ in settled)

    async def get(self, queue: str, *, no_ack: bool = False) -> GotMessage | None:
        """Take a message from a queue, if there is one. Raises ChannelFault and ConnectionFault."""
        got: list[GotMessage] = []

        async def get() -> None:
            def tell(message: Message, tag: int, redelivered: bool, message_count: int) -> None:
                got.append(GotMessage(message, tag, redelivered, message_count))

            await getting.get(self.session, queue, no_ack=no_ack, tell=tell)

        await self._do(get(), self._described("basic.get", QUEUE, queue))
        return got[0] if got else None

    def deliver(self, queue: QueueClient, entries: list[Entry]) -> list[int]:
        """Register entries taken from a queue as unsettled; returns their delivery tags."""
        session = self.session
        first = session.record_delivered(queue, entries, None)
        session.counts.got += len(entries)
        if self.vhost.tracer is not None and entries:
            self.vhost.tracer.delivered(session, queue, None, entries, first, False)
        return list(range(first, session.next_delivery_tag))

    def ack(self, tag: int) -> None:
        """Acknowledge a delivery."""
        settling.ack(self.session, tag, 0)

    async def reject(self, tag: int, *, requeue: bool) -> None:
        """Requeue a delivery, or dead-letter or drop it. Raises ChannelFault, ConnectionFault."""

        async def reject() -> None:
            settling.reject(self.session, tag, requeue)

        await self._do(reject(), "basic.reject")

    def withdraw(self, tags: Sequence[int]) -> list[Entry]:
        """Remove deliveries; returns the unsettled entries, which the caller puts back."""
        taken = [(tag, self.session.unacked.take(tag)) for tag in tags]
        withdrawn = [(tag, record) for tag, record in taken if record is not None]
        if withdrawn and self.vhost.tracer is not None:
            self.vhost.tracer.requeued(withdrawn)
        return [record.entry for _, record in withdrawn]

    # Operations

    def _described(self, operation: str, kind: str, name: str) -> str:
        """An operation and its object, as `dispatch.described` gives it for a client's method."""
        return f"{operation} on {resource(kind, name, self.vhost.name)}"

    async def _change(self, change: Change, operation: str, kind: str, name: str) -> None:
        """Declare something; return when it is on disk."""

        async def apply() -> None:
            await (await change)

        try:
            await self._do(apply(), self._described(operation, kind, name))
        finally:
            change.close()

    async def _do(self, steps: Steps, description: str) -> None:
        """Run an operation, as the user. description: names it in faults and in the log."""
        access = self.services.access
        timeout_ms = self.services.config.channel_operation_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await finish(access.check_vhost(self.user, self.vhost.name, self.peer_host))
                await finish(steps, self._check_vhost_exists)
        except TimeoutError:
            raise timed_out(description, timeout_ms) from None
        except MetadataError as error:
            raise not_written(self.session, description, error) from error
        finally:
            steps.close()

    def _check_vhost_exists(self) -> None:
        if self.vhost.is_deleted:
            # Deleted while a backend was checking.
            raise not_allowed(f"vhost {self.vhost.name} not found")


def _no_recipient(_count: int) -> None:
    """Do nothing: the API does not tell how many messages a deleted queue had."""
