"""One federation link: a connection to the vhost here, one to the upstream, and messages between.

    connect to the upstream ─► connect to this node ─► move messages, as the kind of link does it
        (`LinkWork`), until a connection or a channel is closed

After a failure the link reports the reason (status.py), closes both connections, and starts again
after its pause. RabbitMQ's links (`rabbit_federation_link_util`) connect to their node first, which
would log a connection here with each attempt while the upstream cannot be reached.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol
from urllib.parse import quote

import msgspec

from leveret.broker.amqp.uri import without_credentials
from leveret.broker.events.events import Events
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.federation.link_definition import LinkDefinition
from leveret.broker.moving.federation.link_events import link_changed
from leveret.broker.moving.federation.status import ERROR, QUEUE, RUNNING, STARTING, LinkStatus
from leveret.broker.moving.transfers.attempts import (
    Attempts,
    Connect,
    close_all,
    connect_to_any,
    preparing,
)
from leveret.broker.moving.transfers.transfer import MessageTransfer
from leveret.broker.runtime.clock import Clock

CLUSTER_NAME_MAX: Final = 1024
"""Characters of the name of an upstream's cluster. It is in a header of each message."""
REMOVE_SECONDS_MAX: Final = 10.0
"""How long a link that is removed waits for its upstream."""

logger = logging.getLogger("leveret.federation")

ConnectFrom = Callable[[str, str, str], Awaitable[ClientConnection]]
"""Connects to the server of a URI, under a name; to the vhost in the last argument if the URI has
none. Raises ConnectionFailed.
"""


@dataclass(frozen=True)
class LinkEnds:
    """Both connections of a link. uri: the upstream's, with its password.

    reconnect: opens another connection to the same upstream, which the caller closes.
    """

    here: ClientConnection
    upstream: ClientConnection
    uri: str = field(repr=False)
    reconnect: Callable[[], Awaitable[ClientConnection]]

    @property
    def upstream_vhost(self) -> str:
        """The vhost of the upstream."""
        return self.upstream.address.vhost

    @property
    def upstream_cluster(self) -> str | None:
        """The name of the upstream's cluster, if the upstream announces one."""
        kind, name = self.upstream.server_properties.get("cluster_name", ("", None))
        return str(name)[:CLUSTER_NAME_MAX] if kind == "S" else None


class LinkWork(Protocol):
    """The work of one kind of links with both connections."""

    async def move(self, ends: LinkEnds, is_running: Callable[[MessageTransfer], object]) -> None:
        """Move messages from the upstream until a connection or channel is lost.

        is_running: called when messages can arrive. Raises ConnectionFailed, ConnectionClosed,
        ChannelClosed and TransferFailed.
        """

    async def remove(self, ends: LinkEnds) -> None:
        """Delete the objects that the link made upstream. Raises what `move` does."""


class RunningLink:
    """A federation link. It runs from `start` to `stop`."""

    def __init__(
        self,
        definition: LinkDefinition,
        connect: ConnectFrom,
        clock: Clock,
        mover: LinkWork,
        events: Events,
    ) -> None:
        self.definition = definition
        self._connect = connect
        self._clock = clock
        self._mover = mover
        delay_s = definition.upstream.reconnect_delay_s
        self._attempts = Attempts(str(self), logger, delay_s, clock)
        self._events = events
        self._task: asyncio.Task[bool] | None = None
        self._is_removed = False
        # While it runs: how messages move, and its connection to this node.
        self._moving: tuple[MessageTransfer, str] | None = None
        self._state, self._error, self._since_s = STARTING, "", clock.wall_time_s()
        self._uri = without_credentials(definition.upstream.uris[0])

    def __str__(self) -> str:
        return str(self.definition.place)

    @property
    def connection_name(self) -> str:
        """The status of both connections, for operators."""
        upstream, policy = self.definition.upstream.name, self.definition.policy
        return f"Federation link (upstream: {upstream}, policy: {policy})"

    # For operators

    @property
    def status(self) -> LinkStatus:
        """The status for operators."""
        place = self.definition.place
        kind, vhost, name, upstream, upstream_name = place
        status = LinkStatus(
            place.link_id, kind, vhost, name, upstream, upstream_name, self._state, self._since_s,
            uri=self._uri, error=self._error,
            consumer_tag=self.definition.upstream.consumer_tag if kind == QUEUE else "",
        )  # fmt: skip
        if self._moving is None:
            return status
        transfer, local_connection = self._moving
        return msgspec.structs.replace(
            status, local_connection=local_connection, forwarded=transfer.forwarded
        )

    def _report(self, state: str, error: str = "") -> None:
        self._state, self._error, self._since_s = state, error, self._clock.wall_time_s()
        link_changed(self._events, self.status)

    # Running

    def start(self) -> None:
        """Start running."""
        trying = self._attempts.run(self._attempt, partial(self._report, ERROR))
        self._task = asyncio.get_running_loop().create_task(trying)

    async def stop(self, is_removed: bool) -> None:
        """Stop, and close both connections.

        is_removed: delete the link's objects upstream, unless the upstream cannot be reached.
        """
        self._is_removed = is_removed
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _attempt(self) -> bool:
        """Move messages until that fails. Raises the reason."""
        self._report(STARTING)
        opened: list[ClientConnection] = []
        try:
            ends = await self._open(opened)
            await self._move(ends)
        finally:
            self._moving = None
            await close_all(opened)
        return False

    async def _open(self, opened: list[ClientConnection]) -> LinkEnds:
        place, name = self.definition.place, self.connection_name

        async def connect(uri: str, name: str) -> ClientConnection:
            self._uri = without_credentials(uri)
            return await self._connect(uri, name, place.vhost)

        uris = self.definition.upstream.uris
        connecting: Connect = connect
        uri, upstream = await connect_to_any(connecting, "upstream", uris, name, opened)
        local_uri = "amqp:///" + quote(place.vhost, safe="")
        here = await self._connect(local_uri, name, place.vhost)
        opened.append(here)
        return LinkEnds(here, upstream, uri, partial(self._connect, uri, name, place.vhost))

    async def _move(self, ends: LinkEnds) -> None:
        try:
            with preparing("upstream"):
                await self._mover.move(ends, partial(self._is_running, ends.here.name))
        except asyncio.CancelledError:
            if self._is_removed:
                await self._remove(ends)
            raise

    def _is_running(self, local_connection: str, transfer: MessageTransfer) -> None:
        self._moving = transfer, local_connection
        self._report(RUNNING)
        self._attempts.succeeded()
        logger.info("%s is running: it receives messages from %s", self, self._uri)

    async def _remove(self, ends: LinkEnds) -> None:
        try:
            async with asyncio.timeout(REMOVE_SECONDS_MAX):
                await self._mover.remove(ends)
        except Exception as error:
            logger.warning("%s failed to delete its objects at %s: %s", self, self._uri, error)
