"""The consumer that a link of a federated queue has upstream, while the queue wants messages.

It has the priority -1, so that consumers of the upstream come first. It is started and stopped
without waiting for answers: messages in flight at a stop are still moved, as they would otherwise
cross the network again. Only messages that still wait for room at this node a while later go back,
so that another consumer can get them.

Source: RabbitMQ's `rabbit_federation_queue_link` (`run`, `pause`).
"""

import asyncio
from collections.abc import Callable
from typing import Final

from leveret.broker.amqp.field_table import Table
from leveret.broker.moving.client.channel import ClientChannel
from leveret.broker.moving.transfers.transfer import MessageTransfer
from leveret.broker.policies.ack_modes import NO_ACK
from leveret.broker.policies.federation_parameters import Upstream
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.clock import Timer

PRIORITY: Final = -1
WAITING_MS: Final = 200
"""How long unwanted messages wait for room at this node before they go back.

A buffer that is full is empty again within a turn of the event loop or two. Without this time, a
link with a consumer with a prefetch limit of 100 returned more messages than it moved, which took
five times the processor time upstream.
"""
_ARGUMENTS: Final[Table] = {"x-priority": ("l", PRIORITY)}


class QueueConsumer:
    """The consumer upstream. It follows the queue's demand from `start` to `stop`.

    queue: the federated one. channel, upstream_queue: it consumes from this queue, on this channel.
    call_later_ms: calls a function after a number of milliseconds.
    """

    def __init__(
        self,
        queue: QueueClient,
        channel: ClientChannel,
        upstream_queue: str,
        upstream: Upstream,
        transfer: MessageTransfer,
        call_later_ms: Callable[[float, Callable[[], object]], Timer],
    ) -> None:
        self._queue = queue
        self._channel = channel
        self._upstream_queue = upstream_queue
        self._tag = upstream.consumer_tag
        self._no_ack = upstream.ack_mode == NO_ACK
        self._transfer = transfer
        self._demand = Demand()
        self._is_consuming = False
        self._is_due = False
        self._call_later_ms = call_later_ms
        self._giving_back: Timer | None = None
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        """Consume whenever the queue wants messages, from now on."""
        if self._queue.demand is None:
            self._queue.watch(self._demand)
        else:
            # Another link of the queue has begun.
            self._demand = self._queue.demand
        self._demand.listeners.append(self._changed)
        self._changed()

    def stop(self) -> None:
        """Stop following the queue's demand. The consumer stays as it is."""
        self._wait_no_more()
        self._demand.listeners.remove(self._changed)
        if not self._demand.listeners and self._queue.demand is self._demand:
            self._queue.watch(None)

    def _changed(self) -> None:
        # Later, because the queue is in the middle of an operation, and its demand may change
        # again.
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._follow)

    def _follow(self) -> None:
        self._is_due = False
        is_wanted = self._demand.is_there
        if is_wanted is self._is_consuming or self._changed not in self._demand.listeners:
            return
        self._is_consuming = is_wanted
        self._wait_no_more()
        if is_wanted:
            self._channel.consume_unanswered(
                self._upstream_queue, self._transfer.take, self._tag,
                no_ack=self._no_ack, arguments=_ARGUMENTS,
            )  # fmt: skip
        else:
            self._channel.cancel_unanswered(self._tag)
            self._giving_back = self._call_later_ms(WAITING_MS, self._transfer.give_back_waiting)

    def _wait_no_more(self) -> None:
        if self._giving_back is not None:
            self._giving_back.cancel()
            self._giving_back = None
