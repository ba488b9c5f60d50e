"""A channel without a socket: management declares, publishes and gets with it, as its user.

It calls the same functions that handle methods from clients, so the checks, their order and their
texts are the same. Replies are collected instead of written, and faults are raised to the caller.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from pamqp import base, commands

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import not_allowed
from leveret.broker.auth.identity import Identity
from leveret.broker.channel import methods_basic, publishing
from leveret.broker.channel.access import check, check_exclusive_access
from leveret.broker.channel.channel import Channel, ConnectionOutput
from leveret.broker.channel.confirms import Confirms
from leveret.broker.channel.dispatch import described, handle, timed_out
from leveret.broker.channel.publish_runs import Run
from leveret.broker.channel.targets import Targets
from leveret.broker.channel.unacked_record import Unacked
from leveret.broker.names import QUEUE
from leveret.broker.pending import Steps
from leveret.broker.pending_in_task import finish
from leveret.broker.queues.queue_client import QueueClient
from leveret.broker.requester import Requester
from leveret.broker.services import Services
from leveret.broker.vhost import VirtualHost
from leveret.storage.message import Entry, Message

_TICKET = bytes(2)
_MANDATORY = b"\x01"


class Reply(NamedTuple):
    """A method that the channel sent. message: with basic.get-ok and basic.return."""

    method: type[base.Frame]
    arguments: dict[str, Any]
    message: Message | None = None


class DirectChannel(Channel):
    """A channel that collects its replies."""

    __slots__ = ("replies",)

    def __init__(self, connection: "DirectConnection") -> None:
        super().__init__(connection, 1, is_of_a_client=False)
        self.replies: list[Reply] = []

    def send(self, method: type[base.Frame], **arguments: Any) -> None:
        """Collect a reply."""
        self.replies.append(Reply(method, arguments))

    def send_got(self, message: Message, tag: int, redelivered: bool, ready_count: int) -> None:
        """Collect the answer to a basic.get."""
        arguments = {
            "delivery_tag": tag, "redelivered": redelivered, "exchange": message.address.exchange,
            "routing_key": message.address.routing_key, "message_count": ready_count,
        }  # fmt: skip
        self.replies.append(Reply(commands.Basic.GetOk, arguments, message))

    def send_returned(self, messages: list[Message], code: int, text: str) -> None:
        """Collect the messages that are returned."""
        arguments = {"reply_code": code, "reply_text": text}
        self.replies += [Reply(commands.Basic.Return, arguments, message) for message in messages]

    def send_confirms(self) -> None:
        """Do nothing: management does not use confirms."""


class DirectConnection:
    """A user's access to a vhost for one request. Use as a context manager.

    When the block ends, its channel requeues the messages that were got and not settled.
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
        self.services = services
        self.user = user
        self.vhost = vhost
        self.peer_host = peer_host
        self.requester = requester
        self.peer_port = 0
        self.name = f"<management of {user.name}>"
        self.output = ConnectionOutput(services, 0)
        self.targets = Targets()
        self.exclusive_queues: dict[str, QueueClient] = {}
        self.channel = DirectChannel(self)

    def __enter__(self) -> "DirectConnection":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.channel.end()
        self.channel.release()
        # It refers to the connection: without the cycle both are freed at once.
        del self.channel

    def forget_queue(self, name: str) -> None:
        """Do nothing: this connection owns no exclusive queues."""

    def has_capability(self, name: str) -> bool:
        """False: there is no client."""
        return False

    async def check_readable(self, queue: QueueClient) -> None:
        """Check that the user may read from a queue. Raises ChannelFault, ConnectionFault."""

        async def check_all() -> None:
            await check(self.channel, QUEUE, queue.name, "read")
            check_exclusive_access(self.channel, queue)

        await self._do(check_all(), f"reading from queue '{queue.name}'")

    async def check(self, kind: str, name: str, permission: str) -> None:
        """Check a permission of the user. Raises ChannelFault, ConnectionFault."""
        steps = check(self.channel, kind, name, permission)
        await self._do(steps, f"checking access to {kind} '{name}'")

    async def call(self, method: base.Frame) -> list[Reply]:
        """Run a method and return the replies. Raises ChannelFault and ConnectionFault."""
        return await self._do(handle(self.channel, method), described(self.channel, method))

    async def publish(
        self, exchange: str, routing_key: str, header: ContentHeader, body: bytes
    ) -> bool:
        """Publish a mandatory message; returns whether a queue has it and none has refused it.

        It may not be on disk yet: see `confirmed`. Raises as `call` does.
        """
        confirms = self.channel.confirms = Confirms()
        address = encode_address(exchange, routing_key)
        target = self.targets.find(_TICKET + address + _MANDATORY)

        async def publish() -> None:
            message = Message(target.address, header, body)
            steps = publishing.publish(self.channel, target, Run([message], len(body), header.kind))
            if steps is not None:
                await steps

        replies = await self._do(publish(), publishing.described(self.channel, target))
        is_returned = any(reply.method is commands.Basic.Return for reply in replies)
        return not is_returned and not confirms.refused_count

    async def confirmed(self) -> bool:
        """Wait until the message that was published is safe; returns whether no queue refused it.

        Raises ChannelFault after `channel_operation_timeout`.
        """
        confirms = self.channel.confirms
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

    def deliver(self, queue: QueueClient, entries: list[Entry]) -> list[int]:
        """Register entries taken from a queue as unsettled; returns their delivery tags."""
        channel = self.channel
        now_ms = self.services.clock.now_ms()
        first = channel.next_delivery_tag
        channel.next_delivery_tag += len(entries)
        tags = list(range(first, channel.next_delivery_tag))
        for tag, entry in zip(tags, entries, strict=True):
            channel.unacked.records[tag] = Unacked(entry, queue, None, now_ms)
        channel.counts.got += len(entries)
        if self.vhost.tracer is not None and entries:
            self.vhost.tracer.delivered(channel, queue, None, entries, first, False)
        return tags

    def ack(self, tag: int) -> None:
        """Acknowledge a delivery."""
        methods_basic.ack(self.channel, tag, 0)

    def withdraw(self, tags: Sequence[int]) -> list[Entry]:
        """Remove deliveries; returns the unsettled entries, which the caller puts back."""
        taken = [(tag, self.channel.unacked.take(tag)) for tag in tags]
        withdrawn = [(tag, record) for tag, record in taken if record is not None]
        if withdrawn and self.vhost.tracer is not None:
            self.vhost.tracer.requeued(withdrawn)
        return [record.entry for _, record in withdrawn]

    async def _do(self, steps: Steps, description: str) -> list[Reply]:
        """Run a method and return its replies. description: names it in the timeout fault."""
        access = self.services.access
        timeout_ms = self.services.config.channel_operation_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await finish(access.check_vhost(self.user, self.vhost.name, self.peer_host))
                await finish(steps, self._check_vhost_exists)
        except TimeoutError:
            raise timed_out(description, timeout_ms) from None
        finally:
            steps.close()
        replies, self.channel.replies = self.channel.replies, []
        return replies

    def _check_vhost_exists(self) -> None:
        if self.vhost.is_deleted:
            # Deleted while a backend was checking.
            raise not_allowed(f"vhost {self.vhost.name} not found")
