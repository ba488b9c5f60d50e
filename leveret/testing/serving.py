"""The running broker behind an `EmbeddedBroker`: its start, its stop, and who may ask it what when.

Every question goes through `running`, which raises an error with a sentence for a broker that was
not started, was stopped, or runs in another event loop.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from leveret.broker.config import Config, Listener, SettingError, StreamSettings
from leveret.broker.node.broker import Broker
from leveret.broker.protocols.stream.connection import STREAM
from leveret.testing.initial_definitions import GivenDefinitions, import_definitions

LOOPBACK = "127.0.0.1"
ASYNC_START = "`async with EmbeddedBroker() as broker:`"
THREAD_START = "`with EmbeddedBroker.in_thread() as broker:`"


class Serving:
    """Starts and stops a broker on the loopback interface.

    config: with its listener. how_to_start: for the error of a broker that was not started.
    """

    def __init__(
        self,
        config: Config,
        make_broker: Callable[[], Broker],
        *,
        port: int,
        definitions: GivenDefinitions | None,
        management_port: int | None,
        streams: bool,
    ) -> None:
        self.config = replace(
            config, tcp=replace(config.tcp, listeners=(Listener(LOOPBACK, port),))
        )
        if streams:
            self.config = replace(self.config, stream=_stream_settings(config.stream))
        self.how_to_start = ASYNC_START
        self._make_broker = make_broker
        self._fixed_port = port
        self._definitions = definitions
        self._management_port = management_port
        self._management_listener: Listener | None = None
        self._broker: Broker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[], Coroutine[Any, Any, None]] | None = None

    async def start(self) -> None:
        """Serve clients. Raises OSError if a port is taken, ValueError for definitions."""
        if self._broker is not None:
            raise RuntimeError("the embedded broker was started twice: it is running")
        broker = self._make_broker()
        self._stop = broker.stop
        try:
            await self._start(broker)
        except BaseException:
            await self.stop()
            raise
        self._broker, self._loop = broker, asyncio.get_running_loop()

    async def _start(self, broker: Broker) -> None:
        try:
            await broker.start()
        except SettingError as error:
            raise OSError(f"the embedded broker {error}") from None
        if self._definitions is not None:
            await import_definitions(broker, self._definitions)
        if self._management_port is not None:
            await self._start_management(broker, self._management_port)

    async def _start_management(self, broker: Broker, port: int) -> None:
        # It imports an HTTP server, which takes as long as all the rest.
        from leveret.testing.management_server import EmbeddedManagement  # noqa: PLC0415

        management = EmbeddedManagement(self.config, broker)
        self._stop = management.stop
        try:
            await management.start(Listener(LOOPBACK, port))
        except OSError as error:
            raise OSError(
                f"the embedded broker cannot serve management on port {port}: {error.strerror}"
            ) from None
        self._management_listener = management.listener

    async def stop(self) -> None:
        """Close every connection and stop; nothing if it does not run."""
        stop, self._stop = self._stop, None
        self._broker = None
        if stop is not None:
            await stop()

    def running(self, asked: str) -> Broker:
        """Return the broker. Raises RuntimeError unless it runs, in this event loop if in any.

        asked: the attribute or method that a test used.
        """
        if self._broker is None:
            raise RuntimeError(f"`{asked}` was asked of an embedded broker that {self._why_not()}")
        if _running_loop() not in (None, self._loop):
            raise RuntimeError(
                f"`{asked}` was asked in another event loop than the embedded broker's, which does "
                "not run meanwhile: give the fixture that starts it and the test one loop scope"
            )
        return self._broker

    def _why_not(self) -> str:
        if self._loop is None:
            return f"was not started: start it with {self.how_to_start}"
        return (
            "was stopped: use it inside its `with` block. What was published and delivered can be "
            "looked at after it"
        )

    def port(self, asked: str) -> int:
        """Return the port. Raises as `running` does, unless the port was given."""
        return self._fixed_port or self.running(asked).listening_on[0].port

    @property
    def stream_port(self) -> int:
        """The port of the stream protocol. Raises RuntimeError without streams."""
        if not self.config.stream.listeners:
            raise RuntimeError(
                "`stream_port` was asked of an embedded broker without a listener for streams: "
                "create it with streams=True"
            )
        return self.running("stream_port").listeners.of(STREAM)[0].port

    @property
    def management_url(self) -> str:
        """`http://127.0.0.1:PORT`. Raises RuntimeError without management."""
        if self._management_port is None:
            raise RuntimeError(
                "`management_url` was asked of an embedded broker without management: create it "
                "with management_port=0"
            )
        self.running("management_url")
        assert self._management_listener is not None, "management runs as long as the broker"
        return f"http://{self._management_listener}"


def _stream_settings(given: StreamSettings) -> StreamSettings:
    """A free port of the loopback interface, which clients are told, too."""
    return replace(
        given, listeners=(Listener(LOOPBACK, 0),), tls_listeners=(), advertised_host=LOOPBACK,
        advertised_port=0,
    )  # fmt: skip


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
