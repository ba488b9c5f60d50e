"""The embedded broker: in the event loop of a test, or in a thread of its own.

`EmbeddedBroker` is used in one event loop. `ThreadedBroker` has one in a thread, and its methods,
for any other thread, have those of the `EmbeddedBroker` run there. Each misuse (before the start,
after the stop, in another event loop, with the wrong kind of `with`) raises an error that says what
to do instead.
"""

from collections.abc import Callable, Coroutine
from copy import copy
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar
from urllib.parse import quote

from leveret.broker.amqp.errors import Fault
from leveret.broker.auth.identity import Identity
from leveret.broker.auth.unrestricted import Unrestricted
from leveret.broker.config import Config
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.node.broker import Broker
from leveret.broker.resources.alarms import MEMORY
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.sessions.direct import DirectConnection
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.node.lone_node import LoneNode
from leveret.mgmt.api.properties import PropertyError, header_of_json
from leveret.testing.breaking import BreakableConnection
from leveret.testing.initial_definitions import GivenDefinitions
from leveret.testing.loop_thread import THREAD_SECONDS_MAX, LoopThread
from leveret.testing.records import RecordedMessage, Records
from leveret.testing.serving import ASYNC_START, LOOPBACK, THREAD_START, Serving

WAIT_SECONDS = 10.0
THE_TEST = Identity("test", authorization=Unrestricted())
"""Publishes messages for the test, with every permission."""

Result = TypeVar("Result")


class EmbeddedBroker:
    """A broker that runs in the event loop of a test.

    config: anything but the listeners, which are one on a free port of the loopback interface.
    port: instead of a free one. virtual_clock: time stands still until `advance` is called.
    definitions: what is declared at the start, as the content of a definitions file or its path.
    management_port: of the HTTP API and the web pages; 0 for a free one, None for no management.
    streams: listen for clients of RabbitMQ's stream protocol, too, on a free port (`stream_port`).
    Without it, clients of AMQP 0-9-1 can use streams.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        port: int = 0,
        virtual_clock: bool = False,
        definitions: GivenDefinitions | None = None,
        management_port: int | None = None,
        streams: bool = False,
    ) -> None:
        if not isinstance(config, Config | None):
            raise TypeError(
                f"EmbeddedBroker takes a leveret.broker.config.Config, not {config!r}: a port is "
                "given as port=5672, definitions as definitions=..."
            )
        self._records = Records()
        self._clock = VirtualClock() if virtual_clock else None
        self._serving = Serving(
            config or Config(), self._make_broker,
            port=port, definitions=definitions, management_port=management_port, streams=streams,
        )  # fmt: skip

    def _make_broker(self) -> Broker:
        broker = Broker(
            self.config, clock=self._clock, connection_type=BreakableConnection,
            clustering=LoneNode(self.config),
        )  # fmt: skip
        broker.services.observer = self._records
        return broker

    # Starting and stopping

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

    def __enter__(self) -> NoReturn:
        raise TypeError(
            f"an EmbeddedBroker is started with {ASYNC_START}; where there is no event loop, with "
            f"{THREAD_START}"
        )

    def __exit__(self, *exception: object) -> None:
        """Python looks for it before it calls `__enter__`."""

    async def start(self) -> None:
        """Serve clients. Raises OSError if a port is taken, ValueError for definitions."""
        await self._serving.start()

    async def stop(self) -> None:
        """Close every connection and stop. What was published and delivered stays."""
        await self._serving.stop()

    @classmethod
    def in_thread(
        cls,
        config: Config | None = None,
        *,
        port: int = 0,
        virtual_clock: bool = False,
        definitions: GivenDefinitions | None = None,
        management_port: int | None = None,
        streams: bool = False,
    ) -> "ThreadedBroker":
        """A broker in a thread of its own, for synchronous clients. The arguments are the same."""
        embedded = cls(
            config,
            port=port,
            virtual_clock=virtual_clock,
            definitions=definitions,
            management_port=management_port,
            streams=streams,
        )
        embedded._serving.how_to_start = THREAD_START
        return ThreadedBroker(embedded)

    # Access

    @property
    def config(self) -> Config:
        """The configuration, with the listener."""
        return self._serving.config

    @property
    def broker(self) -> Broker:
        """The broker itself, for a look at its inside. Raises RuntimeError if it does not run."""
        return self._serving.running("broker")

    @property
    def host(self) -> str:
        """The address it listens on."""
        return LOOPBACK

    @property
    def port(self) -> int:
        """The port it listens on. Raises RuntimeError if it does not run, unless it was given."""
        return self._serving.port("port")

    @property
    def url(self) -> str:
        """`amqp://guest:guest@127.0.0.1:PORT/`, with the default user and vhost.

        Raises RuntimeError as `port` does.
        """
        config, port = self.config, self._serving.port("url")
        user = f"{quote(config.default_user, safe='')}:{quote(config.default_pass, safe='')}"
        vhost = "" if config.default_vhost == "/" else quote(config.default_vhost, safe="")
        return f"amqp://{user}@{LOOPBACK}:{port}/{vhost}"

    @property
    def management_url(self) -> str:
        """`http://127.0.0.1:PORT`: of the web pages; the HTTP API is below `/api`.

        Raises RuntimeError if it does not run, or without management.
        """
        return self._serving.management_url

    @property
    def stream_port(self) -> int:
        """The port for clients of the stream protocol.

        Raises RuntimeError if it does not run, or without `streams=True`.
        """
        return self._serving.stream_port

    def _vhost(self, asked: str, name: str) -> VirtualHost:
        vhosts = self._serving.running(asked).services.vhosts
        if name not in vhosts:
            raise KeyError(f"{asked}: there is no vhost '{name}', only {', '.join(vhosts)}")
        return vhosts[name]

    def queue_length(self, queue: str, vhost: str = "/") -> int:
        """Ready messages in a queue. Raises KeyError if there is no such queue."""
        queues = self._vhost("queue_length", vhost).queues
        if queue not in queues:
            raise KeyError(f"queue_length: there is no queue '{queue}' in vhost '{vhost}'")
        return queues[queue].figures.counts().ready

    # Messages

    @property
    def published(self) -> list[RecordedMessage]:
        """What clients published, in order."""
        return self._records.published_messages

    @property
    def delivered(self) -> list[RecordedMessage]:
        """What clients were given, in order."""
        return self._records.delivered_messages

    def clear_records(self) -> None:
        """Forget what was published and delivered so far."""
        self._records.clear()

    async def wait_for(
        self, count: int, *, queue: str | None = None, timeout: float = WAIT_SECONDS
    ) -> list[RecordedMessage]:
        """Wait until clients have published `count` messages, and return all that they published.

        queue: only those routed to this queue. timeout: in seconds of real time. What was recorded
        before counts, too: see `clear_records`. Raises TimeoutError.
        """
        self._serving.running("wait_for")
        return await self._records.wait_for("published", count, queue, timeout)

    async def wait_for_delivered(
        self, count: int, *, queue: str | None = None, timeout: float = WAIT_SECONDS
    ) -> list[RecordedMessage]:
        """Wait until `count` messages were delivered to clients, as `wait_for` does."""
        self._serving.running("wait_for_delivered")
        return await self._records.wait_for("delivered", count, queue, timeout)

    async def publish(
        self,
        body: bytes | str,
        routing_key: str,
        *,
        exchange: str = "",
        vhost: str = "/",
        properties: dict[str, Any] | None = None,
        mandatory: bool = True,
    ) -> None:
        """Publish a message without a client. It is not recorded in `published`.

        routing_key: the queue's name, with the default exchange. properties: by their names, with
        `headers` as a dict. Raises LookupError if it reaches no queue, unless mandatory is False,
        and if there is no such exchange; ValueError for invalid properties.
        """
        where = f"exchange '{exchange}' and routing key '{routing_key}' in vhost '{vhost}'"
        found = self._vhost("publish", vhost)
        try:
            header = header_of_json(properties)
        except PropertyError as error:
            raise ValueError(f"publish: {error.reason} in the properties {properties}") from None
        # The same services without the observer: the test knows its own messages.
        services = copy(self._serving.running("publish").services)
        services.observer = None
        data = body.encode() if isinstance(body, str) else bytes(body)
        try:
            with DirectConnection(services, THE_TEST, found, LOOPBACK, THE_NODE) as connection:
                is_routed = await connection.publish(exchange, routing_key, header, data)
        except Fault as fault:
            raise LookupError(f"publish to {where}: {fault.reply_text}") from None
        if mandatory and not is_routed:
            raise LookupError(
                f"publish to {where}: the message reached no queue; declare or bind one before, or "
                "pass mandatory=False"
            )

    # Time

    def advance(self, seconds: float) -> None:
        """Move the virtual clock: what would have happened in that time happens now.

        Raises ValueError unless the seconds are a number that is not negative.
        """
        self._serving.running("advance")
        if self._clock is None:
            raise RuntimeError("this broker runs in real time: make it with virtual_clock=True")
        self._clock.advance(seconds)

    # Faults

    def drop_connections(self) -> None:
        """Abort every connection, as a network failure does."""
        for connection in tuple(self._serving.running("drop_connections").connections):
            connection.abort()

    def drop_after_frames(self, frames: int) -> None:
        """Abort each open connection once it has sent `frames` more frames."""
        if type(frames) is not int or frames < 0:
            raise ValueError(f"drop_after_frames takes a number of frames from 0, not {frames!r}")
        for connection in self._serving.running("drop_after_frames").connections:
            assert isinstance(connection, BreakableConnection)
            connection.breakable.frames_left = frames

    def hold_confirms(self) -> None:
        """Send no publisher confirms until `release_confirms`."""
        self._serving.running("hold_confirms").services.holds_confirms = True

    def release_confirms(self) -> None:
        """Send the confirms that were held."""
        broker = self._serving.running("release_confirms")
        broker.services.holds_confirms = False
        for connection in broker.connections:
            for channel in connection.channels.values():
                if channel.has_confirms_due:
                    channel.send_confirms_later()

    def block_publishers(self) -> None:
        """Refuse to read from publishers, as a memory alarm does: they get connection.blocked."""
        self._serving.running("block_publishers").services.alarms.set(MEMORY)

    def unblock_publishers(self) -> None:
        """The alarm is over."""
        self._serving.running("unblock_publishers").services.alarms.clear(MEMORY)


class ThreadedBroker:
    """An `EmbeddedBroker` in a thread of its own, to be called from any other thread."""

    def __init__(self, embedded: EmbeddedBroker) -> None:
        self._embedded = embedded
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> NoReturn:
        raise TypeError(
            f"a broker in a thread is started with {THREAD_START}; use {ASYNC_START} for one in "
            "the event loop"
        )

    async def __aexit__(self, *exception: object) -> None:
        """Python looks for it before it calls `__aenter__`."""

    def start(self) -> None:
        """Serve clients. Raises as `EmbeddedBroker.start` does."""
        if self._thread is not None:
            raise RuntimeError("the embedded broker was started twice: it is running")
        thread = LoopThread()
        try:
            thread.run(self._embedded.start())
        except BaseException:
            thread.end()
            raise
        self._thread = thread

    def stop(self) -> None:
        """Close every connection, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            thread.run(self._embedded.stop())
        finally:
            thread.end()

    def _run(
        self, asked: str, steps: Callable[[], Coroutine[Any, Any, Result]],
        timeout: float = THREAD_SECONDS_MAX,
    ) -> Result:  # fmt: skip
        if self._thread is None:
            self._embedded._serving.running(asked)
        assert self._thread is not None, "the broker is not running without its thread"
        return self._thread.run(steps(), timeout)

    def _ask(self, function: Callable[[], Result]) -> Result:
        """Run a function of the embedded broker, which raises an error if it is not running."""
        if self._thread is None:
            return function()

        async def run() -> Result:
            return function()

        return self._thread.run(run())

    def call(self, function: Callable[[EmbeddedBroker], Result]) -> Result:
        """Run a function of the embedded broker in its thread; what it returned."""
        return self._ask(lambda: function(self._embedded))

    @property
    def host(self) -> str:
        """The address it listens on."""
        return LOOPBACK

    @property
    def port(self) -> int:
        """The port it listens on. Raises RuntimeError if it does not run, unless it was given."""
        return self._ask(lambda: self._embedded.port)

    @property
    def url(self) -> str:
        """`amqp://guest:guest@127.0.0.1:PORT/`, with the default user and vhost."""
        return self._ask(lambda: self._embedded.url)

    @property
    def management_url(self) -> str:
        """`http://127.0.0.1:PORT`: of the web pages; the HTTP API is below `/api`."""
        return self._ask(lambda: self._embedded.management_url)

    @property
    def stream_port(self) -> int:
        """The port for clients of the stream protocol."""
        return self._ask(lambda: self._embedded.stream_port)

    @property
    def published(self) -> list[RecordedMessage]:
        """What clients published so far."""
        return list(self._embedded.published)

    @property
    def delivered(self) -> list[RecordedMessage]:
        """What clients were given so far."""
        return list(self._embedded.delivered)

    def clear_records(self) -> None:
        """Forget what was published and delivered so far."""
        self._embedded.clear_records()

    def wait_for(
        self, count: int, *, queue: str | None = None, timeout: float = WAIT_SECONDS
    ) -> list[RecordedMessage]:
        """Wait until clients have published `count` messages; return all that they published."""
        wait_for = self._embedded.wait_for
        seconds = timeout + THREAD_SECONDS_MAX
        return self._run("wait_for", lambda: wait_for(count, queue=queue, timeout=timeout), seconds)

    def wait_for_delivered(
        self, count: int, *, queue: str | None = None, timeout: float = WAIT_SECONDS
    ) -> list[RecordedMessage]:
        """Wait until `count` messages were delivered to clients, as `wait_for` does."""
        wait_for = self._embedded.wait_for_delivered
        seconds = timeout + THREAD_SECONDS_MAX
        return self._run(
            "wait_for_delivered", lambda: wait_for(count, queue=queue, timeout=timeout), seconds
        )

    def publish(
        self,
        body: bytes | str,
        routing_key: str,
        *,
        exchange: str = "",
        vhost: str = "/",
        properties: dict[str, Any] | None = None,
        mandatory: bool = True,
    ) -> None:
        """Publish a message without a client. It is not recorded in `published`."""
        self._run(
            "publish",
            lambda: self._embedded.publish(
                body, routing_key, exchange=exchange, vhost=vhost, properties=properties,
                mandatory=mandatory,
            ),
        )  # fmt: skip

    def advance(self, seconds: float) -> None:
        """Move the virtual clock: what would have happened in that time happens now."""
        self._ask(lambda: self._embedded.advance(seconds))

    def drop_connections(self) -> None:
        """Abort every connection, as a network failure does."""
        self._ask(self._embedded.drop_connections)

    def drop_after_frames(self, frames: int) -> None:
        """Abort each open connection once it has sent `frames` more frames."""
        self._ask(lambda: self._embedded.drop_after_frames(frames))

    def hold_confirms(self) -> None:
        """Send no publisher confirms until `release_confirms`."""
        self._ask(self._embedded.hold_confirms)

    def release_confirms(self) -> None:
        """Send the confirms that were held."""
        self._ask(self._embedded.release_confirms)

    def block_publishers(self) -> None:
        """Refuse to read from publishers, as a memory alarm does: they get connection.blocked."""
        self._ask(self._embedded.block_publishers)

    def unblock_publishers(self) -> None:
        """The alarm is over."""
        self._ask(self._embedded.unblock_publishers)

    def queue_length(self, queue: str, vhost: str = "/") -> int:
        """Ready messages in a queue. Raises KeyError if there is no such queue."""
        return self._ask(lambda: self._embedded.queue_length(queue, vhost))
