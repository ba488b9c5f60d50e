"""One shovel: two connections, a transfer between them, and another attempt whenever one fails.

    connect to both ends ─► declare what is missing at the destination, then at the source ─►
        consume ─► messages move (transfer.py) until a connection or channel is closed, or the
        source cancels the consumer, or the requested number of messages is moved

After a failure the shovel reports the reason (status.py), closes both connections, and starts again
after its pause. The source then redelivers unacknowledged messages: a message may arrive twice
after a failure, and none is lost. A shovel that is stopped waits for the confirms of its published
messages, so a stop causes no duplicates. One with a threshold runs while its queue has passed it.
The steps and their order are those of RabbitMQ's shovel (`rabbit_amqp091_shovel`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import msgspec

from leveret.broker.amqp.uri import without_credentials
from leveret.broker.events.events import Events
from leveret.broker.moving.client.channel import ReturnedMessage
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.shovels.confirm_watch import ConfirmWatch
from leveret.broker.moving.shovels.ends import (
    CANCELLED,
    consume,
    prepare_destination,
    prepare_source,
    returned_reason,
    unpublishable_reason,
)
from leveret.broker.moving.shovels.forwarding import ends_of, facts_of, leads_back, readdress_of
from leveret.broker.moving.shovels.shovel_events import shovel_changed
from leveret.broker.moving.shovels.status import (
    BLOCKED,
    FLOW,
    RUNNING,
    STARTING,
    TERMINATED,
    WAITING,
    ShovelProgress,
    ShovelStatus,
)
from leveret.broker.moving.transfers.attempts import (
    Attempts,
    Connect,
    TransferFailed,
    close_all,
    connect_to_all,
    preparing,
)
from leveret.broker.moving.transfers.one_vhost import are_one_vhost
from leveret.broker.moving.transfers.stopping import first_end, give, settle
from leveret.broker.moving.transfers.transfer import MessageTransfer
from leveret.broker.policies.ack_modes import ON_CONFIRM
from leveret.broker.policies.shovel_parameter import QueueBounds, ShovelDefinition
from leveret.broker.runtime.clock import Clock

MOVED_ALL: Final = "it has moved all messages that it was to move"
SOURCE, DESTINATION = "source", "destination"
LOOK_SECONDS: Final = 1.0
"""How often a queue with a threshold is checked."""

logger = logging.getLogger("leveret.shovel")

Measure = Callable[[str, str], Awaitable[tuple[int, int] | None]]
"""The messages of a queue, by its vhost and name, and their bytes; None while unknown."""


class Shovel:
    """A shovel. It runs from `start` to `stop`, or until all its messages are moved.

    moved_all: called when all are moved.
    """

    def __init__(
        self,
        name: str,
        vhost: str | None,
        definition: ShovelDefinition,
        connect: Connect,
        measure: Measure,
        clock: Clock,
        cluster_name: Callable[[], str],
        events: Events,
        moved_all: Callable[["Shovel"], object],
    ) -> None:
        self.name = name
        self.vhost = vhost
        self.definition = definition
        self._connect = connect
        self._measure = measure
        self._clock = clock
        self._cluster_name = cluster_name
        self._events = events
        self._moved_all = moved_all
        self._attempts = Attempts(str(self), logger, definition.reconnect_delay_s, clock)
        self._task: asyncio.Task[None] | None = None
        # The threshold's start was passed, and its stop was not: a failure does not change that.
        self._is_started = False
        self._has_warned = False
        # Messages that a failed attempt has left to move, for a shovel with an end.
        self._left: int | None = None
        # While messages move: the transfer, and the destination.
        self._moving: tuple[MessageTransfer, ClientConnection] | None = None
        self._state, self._reason, self._since_s = STARTING, "", clock.wall_time_s()
        self._uris = "", ""

    def __str__(self) -> str:
        if self.vhost is None:
            return f"static shovel '{self.name}'"
        return f"shovel '{self.name}' in vhost '{self.vhost}'"

    # For operators

    @property
    def status(self) -> ShovelStatus:
        """The status for operators."""
        source, destination = self._uris
        status = ShovelStatus(
            self.name, self.vhost, self._state, self._since_s, self._reason, source, destination,
            ends_of(self.definition),
        )  # fmt: skip
        if self._moving is None:
            return status
        transfer, connection = self._moving
        progress = ShovelProgress(
            transfer.forwarded, transfer.pending, transfer.remaining, transfer.remaining_unacked
        )
        state = BLOCKED if connection.is_blocked else FLOW if transfer.pending else RUNNING
        return msgspec.structs.replace(status, state=state, progress=progress)

    def _report(self, state: str, reason: str = "") -> None:
        self._state, self._reason, self._since_s = state, reason, self._clock.wall_time_s()
        shovel_changed(self._events, self.status)

    # Running

    def start(self) -> None:
        """Start running."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stop, and close both connections."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _run(self) -> None:
        if await self._attempts.run(self._attempt_when_due, self._failed):
            logger.info("%s has moved all messages that it was to move", self)
            self._report(TERMINATED, MOVED_ALL)
            self._moved_all(self)

    def _failed(self, reason: str) -> None:
        self._report(TERMINATED, reason)

    def _confirms_are_late(self, problem: str) -> None:
        self._report(RUNNING, problem)
        if problem:
            logger.warning("%s: %s", self, problem)
        else:
            logger.info("%s: the destination confirms messages again", self)

    def _came_round(self) -> None:
        # A shovel with a threshold may be one of a pair that moves a backlog away and back again.
        if not self._has_warned and self.definition.threshold is None:
            self._has_warned = True
            logger.warning(
                "%s moves a message that it has moved before: its destination leads back to its "
                "source, so messages circulate until a consumer takes them", self,
            )  # fmt: skip

    async def _attempt_when_due(self) -> bool:
        """Move messages once the threshold allows it; returns whether all are moved."""
        await self._wait_to_start()
        self._report(STARTING)
        if await self._attempt():
            return True
        self._is_started = False
        await asyncio.sleep(LOOK_SECONDS)
        return False

    async def _wait_to_start(self) -> None:
        threshold = self.definition.threshold
        if threshold is not None and not self._is_started:
            self._report(WAITING)
            await self._passed(threshold.queue, threshold.start)
            self._is_started = True

    async def _wait_to_stop(self) -> None:
        threshold = self.definition.threshold
        if threshold is None:
            await asyncio.Event().wait()
        else:
            await self._passed(threshold.queue, threshold.stop)

    async def _passed(self, queue: str, bounds: QueueBounds) -> None:
        """Wait until one of a queue's bounds is passed. A missing queue passes none."""
        assert self.vhost is not None, "a static shovel has no threshold"
        while True:
            measured = await self._measure(self.vhost, queue)
            if measured is not None and bounds.are_passed(*measured):
                logger.info("%s: queue '%s' has %d messages of %d bytes", self, queue, *measured)
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _attempt(self) -> bool:
        """Move messages until all are moved, or the threshold says to stop.

        Returns whether all are moved. Raises the reason of a failure.
        """
        opened: list[ClientConnection] = []
        try:
            definition = self.definition
            uris = {SOURCE: definition.source.uris, DESTINATION: definition.destination.uris}
            ends = await connect_to_all(self._connect, uris, f"Shovel {self.name}", opened)
            source_uri, source = ends[SOURCE]
            destination_uri, destination = ends[DESTINATION]
            return await self._move(
                without_credentials(source_uri), source,
                without_credentials(destination_uri), destination,
            )  # fmt: skip
        finally:
            self._moving, self._uris = None, ("", "")
            await close_all(opened)

    async def _move(
        self,
        source_uri: str,
        source: ClientConnection,
        destination_uri: str,
        destination: ClientConnection,
    ) -> bool:
        definition, loop = self.definition, asyncio.get_running_loop()
        if leads_back(definition) and (
            source_uri == destination_uri or await are_one_vhost(source, destination)
        ):
            queue = definition.source.queue
            raise TransferFailed(
                f"the source is its own destination: {source_uri}, queue '{queue}'"
            )
        confirms = definition.ack_mode == ON_CONFIRM
        with preparing(DESTINATION):
            publishing = await prepare_destination(
                destination, definition.destination, confirms=confirms
            )
        with preparing(SOURCE):
            consuming, queue, limit = await prepare_source(source, definition.source)
        limit = limit if self._left is None else self._left
        if limit == 0:
            return True
        uris = source_uri, destination_uri

        def facts() -> dict[str, str]:
            return facts_of(self.name, self.vhost, self._cluster_name(), uris, definition)

        ended: asyncio.Future[None] = loop.create_future()
        broken: asyncio.Future[str] = loop.create_future()
        transfer = MessageTransfer(
            consuming, publishing, definition.ack_mode,
            readdress_of(definition, facts, self._clock.wall_time_s, self._came_round), limit,
            partial(give, ended, None), source.set_reading,
            self._clock.call_later_ms,
        )  # fmt: skip
        publishing.on_confirmed = transfer.confirmed
        publishing.on_writable = transfer.go_on
        consuming.on_cancelled = lambda tag: give(broken, CANCELLED)

        def returned(message: ReturnedMessage) -> None:
            transfer.halt()
            give(broken, returned_reason(message))

        publishing.on_returned = returned
        transfer.on_unpublishable = lambda reason: give(broken, unpublishable_reason(reason))
        with preparing(SOURCE):
            tag = await consume(consuming, queue, definition, transfer.take)
        self._moving, self._uris = (transfer, destination), uris
        self._report(RUNNING)
        self._attempts.succeeded()
        logger.info("%s moves messages from %s to %s", self, *uris)
        watch = ConfirmWatch(transfer, self._clock, self._confirms_are_late)
        stopping = loop.create_task(self._wait_to_stop())
        try:
            problem = await first_end(
                (ended, stopping),
                broken,
                {SOURCE: (source, consuming), DESTINATION: (destination, publishing)},
            )
        finally:
            watch.stop()
            stopping.cancel()
            await settle(consuming, tag, publishing, transfer)
            self._left = transfer.remaining
        if problem:
            raise TransferFailed(problem)
        return ended.done()
