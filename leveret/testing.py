"""A real broker inside a test: started in milliseconds, without a data directory, on a free port.

    async with EmbeddedBroker() as broker:
        connection = await aio_pika.connect(broker.url)

    with EmbeddedBroker.in_thread() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))

It also does what only a test wants: time that is moved by hand (`virtual_clock=True`, `advance`),
trouble on demand (`drop_connections`, `drop_after_frames`, `hold_confirms`, `block_publishers`),
and a record of what was published and delivered. docs/testing-your-app.md shows each of them.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from leveret.broker.amqp.frames import FrameSink
from leveret.broker.amqp.properties import ContentHeader
from leveret.broker.config import Config, Listener, SettingError
from leveret.broker.net.connection import Connection
from leveret.broker.resources.alarms import MEMORY
from leveret.broker.server import Broker
from leveret.broker.virtual_clock import VirtualClock
from leveret.storage.message import Message

LOOPBACK = "127.0.0.1"
THREAD_SECONDS_MAX = 10.0
"""How long a call into a broker's thread may take before something must be wrong."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class RecordedMessage:
    """A message that a client published, or was given.

    properties: by the names of the specification; `headers` has plain Python values.
    queues: where it went when it was published, or the one it was delivered from.
    """

    vhost: str
    exchange: str
    routing_key: str
    body: bytes
    properties: dict[str, Any]
    queues: tuple[str, ...]
    redelivered: bool = False


class EmbeddedBroker:
    """A broker that runs in the event loop of a test.

    config: anything but the listeners, which are one on a free port of the loopback interface.
    virtual_clock: time stands still until `advance` is called.
    published, delivered: what clients published and were given, in order.
    """

    def __init__(
        self, config: Config | None = None, *, port: int = 0, virtual_clock: bool = False
    ) -> None:
        given = config or Config()
        self.config = replace(given, tcp=replace(given.tcp, listeners=(Listener(LOOPBACK, port),)))
        self.published: list[RecordedMessage] = []
        self.delivered: list[RecordedMessage] = []
        self._clock = VirtualClock() if virtual_clock else None
        self._broker: Broker | None = None
        self._port = port

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Serve clients. Raises OSError if the port is taken."""
        broker = Broker(self.config, clock=self._clock, connection_type=BreakableConnection)
        broker.services.observer = _Recorder(self)
        try:
            await broker.start()
        except SettingError as error:
            raise OSError(f"the embedded broker {error}") from None
        self._broker = broker
        self._port = broker.listening_on[0].port

    async def stop(self) -> None:
        """Close every connection and stop. What was published and delivered stays."""
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.stop()

    @classmethod
    @contextmanager
    def in_thread(
        cls, config: Config | None = None, *, port: int = 0, virtual_clock: bool = False
    ) -> "Iterator[ThreadedBroker]":
        """A broker in a thread of its own, for synchronous clients."""
        threaded = ThreadedBroker(cls(config, port=port, virtual_clock=virtual_clock))
        threaded.start()
        try:
            yield threaded
        finally:
            threaded.stop()

    @property
    def broker(self) -> Broker:
        """The broker itself, for a look at its inside. Raises RuntimeError if it does not run."""
        if self._broker is None:
            raise RuntimeError("the embedded broker is not running: start it with `async with`")
        return self._broker

    @property
    def host(self) -> str:
        """Where it listens."""
        return LOOPBACK

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    @property
    def url(self) -> str:
        """`amqp://guest:guest@127.0.0.1:PORT/`, with the default user and vhost."""
        config = self.config
        user = f"{quote(config.default_user, safe='')}:{quote(config.default_pass, safe='')}"
        vhost = "" if config.default_vhost == "/" else quote(config.default_vhost, safe="")
        return f"amqp://{user}@{LOOPBACK}:{self._port}/{vhost}"

    # Time

    def advance(self, seconds: float) -> None:
        """Move the virtual clock: what would have happened in that time happens now."""
        if self._clock is None:
            raise RuntimeError("this broker runs in real time: make it with virtual_clock=True")
        self._clock.advance(seconds)

    # Trouble

    def drop_connections(self) -> None:
        """Cut every client off, as a network that fails."""
        for connection in tuple(self.broker.connections):
            connection.abort()

    def drop_after_frames(self, frames: int) -> None:
        """Cut each connection off once it has sent so many more frames."""
        for connection in self.broker.connections:
            assert isinstance(connection, BreakableConnection)
            connection.breakable.frames_left = frames

    def hold_confirms(self) -> None:
        """Send no publisher confirms until `release_confirms`."""
        self.broker.services.holds_confirms = True

    def release_confirms(self) -> None:
        """Send the confirms that were held."""
        self.broker.services.holds_confirms = False
        for connection in self.broker.connections:
            connection.output.flush_later()

    def block_publishers(self) -> None:
        """Refuse to read from publishers, as a memory alarm does: they get connection.blocked."""
        self.broker.services.alarms.set(MEMORY)

    def unblock_publishers(self) -> None:
        """The alarm is over."""
        self.broker.services.alarms.clear(MEMORY)

    # What there is

    def queue_length(self, queue: str, vhost: str = "/") -> int:
        """Ready messages in a queue. Raises KeyError if there is no such queue."""
        found = self.broker.services.vhosts[vhost].queues[queue]
        return found.figures.counts().ready


class ThreadedBroker:
    """An `EmbeddedBroker` in a thread of its own, to be called from any other thread."""

    def __init__(self, embedded: EmbeddedBroker) -> None:
        self._embedded = embedded
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="leveret", daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def start(self) -> None:
        """Serve clients."""
        self._thread.start()
        starting = asyncio.run_coroutine_threadsafe(self._embedded.start(), self._loop)
        try:
            starting.result(THREAD_SECONDS_MAX)
        except BaseException:
            self._end_thread()
            raise

    def stop(self) -> None:
        """Close every connection, and end the thread."""
        stopping = asyncio.run_coroutine_threadsafe(self._embedded.stop(), self._loop)
        try:
            stopping.result(THREAD_SECONDS_MAX)
        finally:
            self._end_thread()

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(THREAD_SECONDS_MAX)
        self._loop.close()

    def call(self, function: Callable[[EmbeddedBroker], Result]) -> Result:
        """Run a function of the embedded broker in its thread; what it returned."""

        async def run() -> Result:
            return function(self._embedded)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(THREAD_SECONDS_MAX)

    @property
    def url(self) -> str:
        """See `EmbeddedBroker.url`."""
        return self._embedded.url

    @property
    def host(self) -> str:
        """Where it listens."""
        return self._embedded.host

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._embedded.port

    @property
    def published(self) -> list[RecordedMessage]:
        """What clients published so far."""
        return list(self._embedded.published)

    @property
    def delivered(self) -> list[RecordedMessage]:
        """What clients were given so far."""
        return list(self._embedded.delivered)

    def advance(self, seconds: float) -> None:
        """See `EmbeddedBroker.advance`."""
        self.call(lambda embedded: embedded.advance(seconds))

    def drop_connections(self) -> None:
        """See `EmbeddedBroker.drop_connections`."""
        self.call(EmbeddedBroker.drop_connections)

    def drop_after_frames(self, frames: int) -> None:
        """See `EmbeddedBroker.drop_after_frames`."""
        self.call(lambda embedded: embedded.drop_after_frames(frames))

    def hold_confirms(self) -> None:
        """See `EmbeddedBroker.hold_confirms`."""
        self.call(EmbeddedBroker.hold_confirms)

    def release_confirms(self) -> None:
        """See `EmbeddedBroker.release_confirms`."""
        self.call(EmbeddedBroker.release_confirms)

    def block_publishers(self) -> None:
        """See `EmbeddedBroker.block_publishers`."""
        self.call(EmbeddedBroker.block_publishers)

    def unblock_publishers(self) -> None:
        """See `EmbeddedBroker.unblock_publishers`."""
        self.call(EmbeddedBroker.unblock_publishers)

    def queue_length(self, queue: str, vhost: str = "/") -> int:
        """See `EmbeddedBroker.queue_length`."""
        return self.call(lambda embedded: embedded.queue_length(queue, vhost))


class BreakableConnection(Connection):
    """A connection that can be told to break after some more frames.

    breakable: counts the frames that come in.
    """

    __slots__ = ("breakable",)

    def frame_sink(self) -> FrameSink:
        """What takes the frames that come in."""
        self.breakable = BreakableSink(self.incoming, self.abort)
        return self.breakable


class BreakableSink:
    """Hands frames on until there were too many.

    frames_left: how many; None if the connection is to hold.
    """

    def __init__(self, sink: FrameSink, abort: Callable[[], None]) -> None:
        self._sink = sink
        self._abort = abort
        self.frames_left: int | None = None

    def on_publish(
        self,
        channel: int,
        arguments: bytes,
        properties: bytes,
        body_bytes: int,
        bodies: list[bytes],
    ) -> None:
        """A run of messages, of which only some may come through."""
        if self.frames_left is not None:
            frames_a_message = 3 if body_bytes else 2
            allowed = min(self.frames_left // frames_a_message, len(bodies))
            self._spend(len(bodies) * frames_a_message)
            bodies = bodies[:allowed]
        if bodies:
            self._sink.on_publish(channel, arguments, properties, body_bytes, bodies)

    def on_ack(self, channel: int, delivery_tag: int, multiple: int) -> None:
        """A basic.ack."""
        if self._spend(1):
            self._sink.on_ack(channel, delivery_tag, multiple)

    def on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Any other frame."""
        if self._spend(1):
            self._sink.on_frame(kind, channel, payload)

    def _spend(self, frames: int) -> bool:
        """Count frames that came in; whether the connection still holds."""
        if self.frames_left is None:
            return True
        self.frames_left -= frames
        if self.frames_left < 0:
            self._abort()
            return False
        return True


class _Recorder:
    """Writes down what clients publish and are given (`services.Observer`)."""

    def __init__(self, embedded: EmbeddedBroker) -> None:
        self._embedded = embedded

    def published(self, vhost: str, message: Message, queues: list[str]) -> None:
        """A client published a message."""
        self._embedded.published.append(_record(vhost, message, tuple(queues), False))

    def delivered(self, vhost: str, queue: str, message: Message, redelivered: bool) -> None:
        """A client was given a message."""
        self._embedded.delivered.append(_record(vhost, message, (queue,), redelivered))


def _record(
    vhost: str, message: Message, queues: tuple[str, ...], redelivered: bool
) -> RecordedMessage:
    header = message.header
    assert isinstance(header, ContentHeader)
    properties = dict(header.properties)
    if "headers" in properties:
        properties["headers"] = _plain("F", properties["headers"])
    return RecordedMessage(
        vhost,
        message.address.exchange,
        message.address.routing_key,
        message.body,
        properties,
        queues,
        redelivered,
    )


def _plain(letter: str, value: Any) -> Any:
    """A field's value without its type."""
    if letter == "F":
        return {name: _plain(*field) for name, field in value.items()}
    if letter == "A":
        return [_plain(*field) for field in value]
    return value
