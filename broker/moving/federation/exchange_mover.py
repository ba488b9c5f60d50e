"""The messages of one link of a federated exchange, while both connections are open.

    declare the queue at the upstream ─► consume from it ─► declare the internal exchange in
        front of it ─► bind that as the exchange is bound here ─► messages come; bindings follow

A link ends when a connection or channel is closed, when the upstream cancels the consumer, when it
refuses a binding, since its exchange was deleted, or when its exchange or the internal one is gone,
which is checked periodically. The order is that of `rabbit_federation_exchange_link`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from leveret.broker.amqp.uri import without_credentials
from leveret.broker.moving.client import declaring
from leveret.broker.moving.client.channel import ClientChannel
from leveret.broker.moving.federation.bindings import BindingPropagation
from leveret.broker.moving.federation.exchange_headers import ExchangeHeaders
from leveret.broker.moving.federation.link import LinkEnds
from leveret.broker.moving.federation.link_definition import LinkDefinition
from leveret.broker.moving.federation.own_upstream import refuse_own_upstream
from leveret.broker.moving.federation.unpublishable_messages import UnpublishableMessages
from leveret.broker.moving.federation.upstream_bindings import UpstreamBindings
from leveret.broker.moving.federation.upstream_objects import (
    SUFFIXES,
    declare_exchange,
    declare_internal_exchange,
    declare_queue,
    delete_exchange,
    delete_queue,
    exists,
    internal_exchange_name,
    queue_name,
)
from leveret.broker.moving.transfers.attempts import TransferFailed
from leveret.broker.moving.transfers.stopping import first_end, give, settle
from leveret.broker.moving.transfers.transfer import MessageTransfer, Readdress
from leveret.broker.policies.ack_modes import NO_ACK, ON_CONFIRM
from leveret.broker.policies.federation_parameters import NEVER, SINGLE
from leveret.broker.runtime.clock import Clock
from leveret.broker.vhost.binding import Exchange

CHECK_SECONDS = 30.0
"""How often the exchanges upstream are checked: the default of RabbitMQ's
`internal_exchange_check_interval`."""
CANCELLED: Final = "the upstream has cancelled the consumer: the link's queue was deleted there"


class ExchangeMover:
    """Moves the messages of one link. exchange: the federated one."""

    def __init__(self, definition: LinkDefinition, exchange: Exchange, clock: Clock) -> None:
        self._definition = definition
        self._exchange = exchange
        self._clock = clock

    async def move(self, ends: LinkEnds, is_running: Callable[[MessageTransfer], object]) -> None:
        """Move messages from the upstream until a connection or channel is lost."""
        await refuse_own_upstream(self._definition, ends)
        loop = asyncio.get_running_loop()
        queue = queue_name(self._definition, ends.upstream_vhost)
        consuming = await ends.upstream.open_channel()
        await declare_queue(consuming, queue, self._definition)
        publishing = await self._open_publishing(ends)
        broken: asyncio.Future[str] = loop.create_future()
        transfer = self._transfer(ends, consuming, publishing)
        consuming.on_cancelled = lambda tag: give(broken, CANCELLED)
        tag = await self._consume(consuming, queue, transfer)
        try:
            internal, binding = await self._bind(ends, consuming, queue)
            is_running(transfer)
            lost = first_end(
                (), broken, {"upstream": (ends.upstream, consuming, binding.channel),
                             "connection to this node": (ends.here, publishing)},
            )  # fmt: skip
            try:
                await _until_one_ends(lost, binding.follow(), self._check(ends, internal))
            finally:
                binding.stop()
        finally:
            await settle(consuming, tag, publishing, transfer)

    async def _open_publishing(self, ends: LinkEnds) -> ClientChannel:
        publishing = await ends.here.open_channel()
        if self._definition.upstream.ack_mode == ON_CONFIRM:
            await publishing.confirm()
        return publishing

    def _transfer(
        self, ends: LinkEnds, consuming: ClientChannel, publishing: ClientChannel
    ) -> MessageTransfer:
        upstream, place = self._definition.upstream, self._definition.place
        change = ExchangeHeaders(
            without_credentials(ends.uri), place.name, ends.upstream_cluster, ends.upstream_vhost,
            self._definition.cluster_name, place.vhost, upstream.max_hops, upstream.trusts_user_id,
        )  # fmt: skip
        transfer = MessageTransfer(
            consuming, publishing, upstream.ack_mode, Readdress(place.name, None, change), None,
            _never, ends.upstream.set_reading, self._clock.call_later_ms,
        )  # fmt: skip
        UnpublishableMessages(place, upstream.ack_mode).of(transfer)
        publishing.on_confirmed = transfer.confirmed
        publishing.on_writable = transfer.go_on
        return transfer

    async def _consume(self, channel: ClientChannel, queue: str, transfer: MessageTransfer) -> str:
        upstream = self._definition.upstream
        no_ack = upstream.ack_mode == NO_ACK
        if not no_ack:
            await declaring.limit_unsettled(channel, upstream.prefetch_count)
        return await channel.consume(queue, transfer.take, no_ack=no_ack)

    async def _bind(
        self, ends: LinkEnds, consuming: ClientChannel, queue: str
    ) -> tuple[str, BindingPropagation]:
        """Bind the queue to the internal exchange, and that as the exchange here is bound."""
        definition, upstream = self._definition, self._definition.upstream
        is_single = upstream.channel_use_mode == SINGLE
        channel = consuming if is_single else await ends.upstream.open_channel()
        await declare_exchange(ends.upstream, definition.place.upstream_name, self._exchange)
        old, new = SUFFIXES
        if not await exists(ends.upstream, internal_exchange_name(queue, old)):
            old, new = new, old
        internal = internal_exchange_name(queue, new)
        await declare_internal_exchange(ends, internal, definition)
        await declaring.bind_queue(channel, queue, internal)
        binding = BindingPropagation(
            self._exchange, channel, definition.place.upstream_name, internal,
            self._wanted(ends, new), waits=not upstream.binds_without_waiting,
        )  # fmt: skip
        try:
            await binding.send_all()
            await delete_exchange(ends.upstream, internal_exchange_name(queue, old))
        except BaseException:
            binding.stop()
            raise
        return internal, binding

    def _wanted(self, ends: LinkEnds, suffix: str) -> UpstreamBindings:
        definition = self._definition
        vhost = definition.place.vhost
        return UpstreamBindings(
            definition.upstream.max_hops, definition.cluster_name, vhost,
            f"{vhost}:{definition.place.name} {suffix}", ends.upstream_cluster, ends.upstream_vhost,
        )  # fmt: skip

    async def _check(self, ends: LinkEnds, internal: str) -> str:
        """Check the exchanges periodically; returns the reason why messages no longer arrive."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for name in (self._definition.place.upstream_name, internal):
                if not await exists(ends.upstream, name):
                    return f"the upstream has lost the exchange '{name}'"

    async def remove(self, ends: LinkEnds) -> None:
        """Delete the link's queue and internal exchanges upstream, unless that is disabled."""
        if self._definition.upstream.resource_cleanup_mode == NEVER:
            return
        queue = queue_name(self._definition, ends.upstream_vhost)
        await delete_queue(ends.upstream, queue)
        for suffix in SUFFIXES:
            await delete_exchange(ends.upstream, internal_exchange_name(queue, suffix))


async def _until_one_ends(*reasons: Coroutine[Any, Any, str]) -> None:
    """Run these until one ends. Raises what it raised, or TransferFailed with what it returned."""
    tasks = [asyncio.ensure_future(one) for one in reasons]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if task in done:
            raise TransferFailed(task.result())


def _never() -> None:
    """A link has no end."""
