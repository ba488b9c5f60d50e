"""The work of a federated queue's link: it moves messages from the queue's upstream to the queue.

    declare the upstream's queue, if it is missing, as the local one is ─► consume while the local
        queue wants messages (queue_consumer.py) ─► publish to it, through the default exchange

Nothing is deleted upstream when a link is removed: the queue there has messages of its own.

Source: RabbitMQ's `rabbit_federation_queue_link`.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from leveret.broker.amqp.json_form import text
from leveret.broker.amqp.reply_codes import NOT_FOUND
from leveret.broker.amqp.uri import without_credentials
from leveret.broker.moving.client import declaring
from leveret.broker.moving.client.channel import ClientChannel, ReturnedMessage
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.client.ended import ChannelClosed
from leveret.broker.moving.federation.link import LinkEnds
from leveret.broker.moving.federation.link_definition import LinkDefinition
from leveret.broker.moving.federation.own_upstream import refuse_own_upstream
from leveret.broker.moving.federation.queue_consumer import QueueConsumer
from leveret.broker.moving.federation.queue_headers import QueueHeaders
from leveret.broker.moving.federation.unpublishable_messages import UnpublishableMessages
from leveret.broker.moving.transfers.attempts import TransferFailed
from leveret.broker.moving.transfers.stopping import first_end, give, settle
from leveret.broker.moving.transfers.transfer import MessageTransfer, Readdress
from leveret.broker.policies.ack_modes import NO_ACK, ON_CONFIRM
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.clock import Clock

CANCELLED: Final = (
    "the upstream has cancelled the consumer: its queue was deleted, or its node left"
)
UNSUITABLE: Final = (
    "the upstream has no consumer priorities, so its own consumers would not come first: federated "
    "queues need an upstream with the capability consumer_priorities"
)


class QueueMover:
    """The `Mover` of a queue's link. queue: the federated one."""

    def __init__(self, definition: LinkDefinition, queue: QueueClient, clock: Clock) -> None:
        self._definition = definition
        self._place = definition.place
        self._upstream = definition.upstream
        self._queue = queue
        self._clock = clock

    async def move(self, ends: LinkEnds, is_running: Callable[[MessageTransfer], object]) -> None:
        """Move messages while the queue wants them, until a connection or channel is lost."""
        await self._check(ends)
        await self._declare(ends.upstream)
        publishing, consuming = await self._open_channels(ends)
        broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        transfer = self._transfer(ends, publishing, consuming, broken)
        consumer = QueueConsumer(
            self._queue, consuming, self._place.upstream_name, self._upstream, transfer,
            self._clock.call_later_ms,
        )  # fmt: skip
        consumer.start()
        is_running(transfer)
        try:
            problem = await first_end(
                (), broken,
                {"upstream": (ends.upstream, consuming), "vhost here": (ends.here, publishing)},
            )  # fmt: skip
        finally:
            consumer.stop()
            await settle(consuming, self._upstream.consumer_tag, publishing, transfer)
        raise TransferFailed(problem)

    async def remove(self, ends: LinkEnds) -> None:
        """Nothing is deleted: the queue upstream has messages of its own."""

    async def _check(self, ends: LinkEnds) -> None:
        """Raise TransferFailed if messages must not come from this upstream."""
        kind, capabilities = ends.upstream.server_properties.get("capabilities", ("", None))
        if kind != "F" or capabilities.get("consumer_priorities") != ("t", True):
            raise TransferFailed(UNSUITABLE)
        await refuse_own_upstream(self._definition, ends)

    async def _declare(self, connection: ClientConnection) -> None:
        """Declare the upstream's queue as the local one is, unless it is there."""
        queue, name = self._queue, self._place.upstream_name
        channel = await connection.open_channel()
        try:
            await declaring.find_queue(channel, name)
        except ChannelClosed as error:
            if error.closed.reply_code != NOT_FOUND:
                raise
            channel = await connection.open_channel()
            await declaring.declare_queue(
                channel, name,
                durable=queue.durable, auto_delete=queue.auto_delete, arguments=queue.arguments,
            )  # fmt: skip
        await channel.close()

    async def _open_channels(self, ends: LinkEnds) -> tuple[ClientChannel, ClientChannel]:
        """The channel on which to publish, and that on which to consume."""
        upstream = self._upstream
        publishing = await ends.here.open_channel()
        if upstream.ack_mode == ON_CONFIRM:
            await publishing.confirm()
        consuming = await ends.upstream.open_channel()
        if upstream.ack_mode != NO_ACK:
            await declaring.limit_unsettled(consuming, upstream.prefetch_count)
        return publishing, consuming

    def _transfer(
        self,
        ends: LinkEnds,
        publishing: ClientChannel,
        consuming: ClientChannel,
        broken: asyncio.Future[str],
    ) -> MessageTransfer:
        """A transfer between the two channels. broken: set to the reason why it cannot go on."""
        name, upstream = self._place.name, self._upstream
        uri = without_credentials(ends.uri)
        headers = QueueHeaders(uri, name, upstream.trusts_user_id)
        transfer = MessageTransfer(
            consuming, publishing, upstream.ack_mode, Readdress("", name, headers, mandatory=True),
            None, _never, ends.upstream.set_reading, self._clock.call_later_ms,
        )  # fmt: skip

        def returned(message: ReturnedMessage) -> None:
            transfer.halt()
            why = f"{message.reply_code}, {text(message.reply_text)}"
            give(broken, f"queue '{name}' takes no messages, it was deleted or is down: {why}")

        UnpublishableMessages(self._place, upstream.ack_mode).of(transfer)
        publishing.on_confirmed = transfer.confirmed
        publishing.on_writable = transfer.go_on
        publishing.on_returned = returned
        consuming.on_cancelled = lambda _: give(broken, CANCELLED)
        return transfer


def _never() -> None:
    """A link has no end."""
