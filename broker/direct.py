"""A channel without a socket: how management declares, publishes and gets, as the user who asks.

What a client's method does, this does: the same checks in the same order, with the same texts,
since it goes through the very functions that handle methods off the wire. Replies are collected
instead of written; a fault is raised to whoever called.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pamqp import base, commands

from broker.amqp.content import encode_address
from broker.amqp.errors import not_allowed
from broker.amqp.properties import ContentHeader
from broker.auth.identity import Identity
from broker.channel import publishing
from broker.channel.access import check, check_exclusive_access
from broker.channel.channel import Channel
from broker.channel.dispatch import dispatch
from broker.names import QUEUE
from broker.queues.actor import Queue
from broker.services import Services
from broker.vhost import VirtualHost
from storage.message import Message

_TICKET = bytes(2)
_MANDATORY = b"\x01"


class Reply(NamedTuple):
    """What the broker would have sent. message: with basic.get-ok and basic.return."""

    method: type[base.Frame]
    arguments: dict[str, Any]
    message: Message | None = None


class DirectChannel(Channel):
    """A channel that keeps its replies."""

    __slots__ = ("replies",)

    is_of_a_client = False

    def __init__(self, connection: "DirectConnection") -> None:
        super().__init__(connection, 1)
        self.replies: list[Reply] = []

    def send(self, method: type[base.Frame], **arguments: Any) -> None:
        """Keep a reply."""
        self.replies.append(Reply(method, arguments))

    def send_content(self, method: type[base.Frame], message: Message, **arguments: Any) -> None:
        """Keep a reply that carries a message."""
        self.replies.append(Reply(method, arguments, message))

    def send_confirms(self) -> None:
        """Nobody waits for them."""


class DirectConnection:
    """A user in a vhost, for as long as a request takes. Use as a context manager.

    Its channel gives back what was got and not settled when the block ends.
    """

    def __init__(
        self, services: Services, user: Identity, vhost: VirtualHost, peer_host: str
    ) -> None:
        """peer_host: the address that the user asks from."""
        self.services = services
        self.user = user
        self.vhost = vhost
        self._peer_host = peer_host
        self.name = f"<management of {user.name}>"
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.is_congested = False
        self.frame_bytes_max = 0
        self.targets: dict[bytes, Any] = {}
        self.exclusive_queues: dict[str, Queue] = {}
        self.confirming: list[Channel] = []
        self.channel = DirectChannel(self)

    def __enter__(self) -> "DirectConnection":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.channel.is_closing = True
        self.channel.release()

    def flush_later(self) -> None:
        """There is no socket."""

    def forget_queue(self, name: str) -> None:
        """An exclusive queue is gone; there are none here."""

    def has_capability(self, name: str) -> bool:
        """No client, no capabilities."""
        return False

    async def check_readable(self, queue: Queue) -> None:
        """Make sure that the user may read from a queue. Raises ChannelFault, ConnectionFault."""

        def check_all() -> None:
            check(self.channel, QUEUE, queue.name, "read")
            check_exclusive_access(self.channel, queue)

        await self._do(check_all)

    async def call(self, method: base.Frame) -> list[Reply]:
        """Do what a method asks for; the replies. Raises ChannelFault and ConnectionFault."""
        return await self._do(lambda: dispatch(self.channel, method))

    async def publish(
        self, exchange: str, routing_key: str, header: ContentHeader, body: bytes
    ) -> bool:
        """Publish a mandatory message; whether it was routed. Raises as `call` does."""
        address = encode_address(exchange, routing_key)
        arguments = _TICKET + address + _MANDATORY
        target = publishing.target_for(self.channel, arguments)
        replies = await self._do(
            lambda: publishing.publish(self.channel, target, header, len(body), [body])
        )
        return not any(reply.method is commands.Basic.Return for reply in replies)

    async def _do(self, step: Callable[[], object]) -> list[Reply]:
        access = self.services.access
        await access.decided(
            lambda: access.check_vhost(self.user, self.vhost.name, self._peer_host)
        )
        await access.decided(lambda: self._take(step))
        replies, self.channel.replies = self.channel.replies, []
        return replies

    def _take(self, step: Callable[[], object]) -> None:
        if self.vhost.is_deleted:
            # While somebody was asked what the user may do.
            raise not_allowed(f"vhost {self.vhost.name} not found")
        step()
