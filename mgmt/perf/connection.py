"""The connections of leveret perf and replay: the client of shovels, with the errors of a program.

A connection has one reason for its end, `failure`. A consumer that cannot take more for now holds
its connection: nothing is read for that time, so TCP slows down the broker.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pamqp import base

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.reply_codes import REPLY_SUCCESS
from leveret.broker.moving.client import ended
from leveret.broker.moving.client.channel import ClientChannel, Take
from leveret.broker.moving.client.connection import ClientConnection
from leveret.mgmt.perf.address import read_address
from leveret.mgmt.perf.options import PerfOptions

T = TypeVar("T")


class PerfError(Exception):
    """The broker cannot be reached, or closed the connection; the text says why."""


class NotReachable(PerfError):
    """Nothing answers at the broker's address."""


class PerfChannelClosed(PerfError):
    """The broker closed a channel because of a method that was called on it."""

    def __init__(self, closed: ended.Closed) -> None:
        super().__init__(_told(closed))
        self.reply_code = closed.reply_code


class PerfConnection:
    """One connection. closed: done when it has ended; failure says why."""

    def __init__(self, client: ClientConnection) -> None:
        self.client = client
        self.failure: PerfError | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._holds = 0
        self._work: set[asyncio.Task[object]] = set()
        client.closed.add_done_callback(lambda done: self.fail(PerfError(_told(done.result()))))

    async def open_channel(self) -> ClientChannel:
        """Open a channel. Raises PerfError."""
        return await _with_own_errors(self.client.open_channel())

    async def call(
        self, channel: ClientChannel, method: type[base.Frame], **arguments: Any
    ) -> base.Frame:
        """Send a method and wait for its answer. Raises PerfError."""
        return await _with_own_errors(channel.call(method, **arguments))

    async def consume(
        self,
        channel: ClientChannel,
        queue: str,
        take: Take,
        *,
        no_ack: bool,
        is_exclusive: bool = False,
        arguments: Table | None = None,
    ) -> None:
        """Start a consumer. Raises PerfError."""
        work = channel.consume(
            queue, take, no_ack=no_ack, exclusive=is_exclusive, arguments=arguments
        )
        await _with_own_errors(work)

    def require(self, channel: ClientChannel) -> None:
        """The connection fails if the broker closes this channel."""

        def closed(done: asyncio.Future[ended.Closed]) -> None:
            if done.result().reply_code != REPLY_SUCCESS:
                self.fail(PerfChannelClosed(done.result()))

        channel.closed.add_done_callback(closed)

    def begin(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        """Do something beside, which may raise errors of the client; they end the connection."""
        task: asyncio.Task[object] = asyncio.ensure_future(_with_own_errors(work))
        self._work.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._work.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, PerfChannelClosed) and error.reply_code == REPLY_SUCCESS:
            # This side has closed the channel, and waits for no more answers.
            return
        if isinstance(error, PerfError):
            self.fail(error)

    def hold(self, wait_s: float, go_on: Callable[[], object]) -> None:
        """Read nothing for this number of seconds; then call back."""
        self._holds += 1
        self.client.pause_reading()
        asyncio.get_running_loop().call_later(wait_s, self._release, go_on)

    def _release(self, go_on: Callable[[], object]) -> None:
        self._holds -= 1
        if not self._holds:
            self.client.resume_reading()
        go_on()

    def fail(self, error: PerfError) -> None:
        """End the connection with an error."""
        if self.failure is None:
            self.failure = error
            self.closed.set_result(None)
            self.client.drop(str(error))

    async def close(self) -> None:
        """Close the connection in order."""
        self.client.resume_reading()
        await self.client.close()


async def connect(
    uri: str,
    options: PerfOptions,
    name: str,
    on_blocked: Callable[[str | None], object] | None = None,
) -> PerfConnection:
    """Open a connection with a client-provided name. Raises PerfError.

    on_blocked: called with the broker's reason when it blocks publishers, and with None afterwards.
    """
    properties = {"product": ("S", "leveret perf"), "connection_name": ("S", name)}
    address = read_address(uri, options)
    try:
        client = await ClientConnection.open(address, properties, on_blocked=on_blocked or _ignore)
    except ended.ServerUnreachable as error:
        raise NotReachable(str(error)) from None
    except ended.ConnectionFailed as error:
        raise PerfError(str(error)) from None
    return PerfConnection(client)


async def _with_own_errors(work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    except ended.ChannelClosed as error:
        raise PerfChannelClosed(error.closed) from None
    except ended.ConnectionClosed as error:
        raise PerfError(_told(error.closed)) from None


def _told(closed: ended.Closed) -> str:
    return f"{closed.reply_code} {closed.text}" if closed.reply_code else closed.text


def _ignore(_reason: str | None) -> None:
    """Do nothing: no messages are published on the connection."""
