"""Plugins of a running node: what they contribute, how they start and stop, and how they fail."""

import asyncio
import socket

import pytest

from leveret.broker.config import Config, Listener, TcpSettings
from leveret.broker.config.stream_settings import StreamSettings
from leveret.broker.exchanges import EXCHANGE_TYPES
from leveret.broker.exchanges.direct import Direct
from leveret.broker.net.client_listeners import ServedProtocol
from leveret.broker.node import running_plugins
from leveret.broker.node.broker import Broker
from leveret.broker.plugins.known_plugins import PLUGINS
from leveret.broker.plugins.plugin import INTERFACE, Plugin
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port

LOOPBACK = "127.0.0.1"
NO_AMQP = TcpSettings(listeners=())


class FirstWord(Direct):
    name = "x-first-word"


class Echo(asyncio.Protocol):
    """A connection that the node can close."""

    def __init__(self, connections):
        self.connections = connections
        self.name = ""

    def connection_made(self, transport):
        self.transport = transport
        self.name = f"x -> {LOOPBACK}:{transport.get_extra_info('sockname')[1]}"
        self.connections.add(self)

    def connection_lost(self, _error):
        self.connections.discard(self)

    def force_close(self, reason):
        self.transport.write(reason.encode())
        self.transport.close()


def echo(services, connections):
    address = Listener(LOOPBACK, 0)
    return ServedProtocol("echo", [address], [], "echo.port", "", lambda: Echo(connections))


def plugin(name, **fields):
    given = {"description": "", "version": "1.0", "interface": INTERFACE, **fields}
    return Plugin(name=name, **given)


@pytest.fixture
def install(monkeypatch):
    def install_plugins(*plugins):
        installed = {one.name: one for one in plugins}
        monkeypatch.setitem(vars(PLUGINS), "_installed", installed)

    return install_plugins


@pytest.fixture
async def start():
    brokers = []

    async def start_broker(*enabled, **settings):
        broker = Broker(Config(tcp=NO_AMQP, plugins=enabled, **settings))
        brokers.append(broker)
        await broker.start()
        return broker

    yield start_broker
    for broker in brokers:
        await broker.stop()


async def test_an_exchange_type_is_known_while_its_plugin_runs(install, start):
    install(plugin("words", exchange_types={"x-first-word": FirstWord}))
    broker = await start()
    assert "x-first-word" not in EXCHANGE_TYPES
    assert await broker.plugins.change(["words"]) == (["words"], [])
    assert EXCHANGE_TYPES["x-first-word"] is FirstWord
    assert broker.plugins.running == ["words"]
    assert await broker.plugins.change([]) == ([], ["words"])
    assert "x-first-word" not in EXCHANGE_TYPES


async def test_the_clients_of_a_protocol_are_disconnected_when_its_plugin_stops(install, start):
    install(plugin("echo", protocols={"echo": echo}))
    broker = await start("echo")
    (address,) = broker.listeners.of("echo")
    reader, writer = await asyncio.open_connection(LOOPBACK, address.port)
    await until(lambda: broker.connections)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await broker.plugins.change([])
        assert await reader.read() == b"plugin echo is stopped"
    writer.close()
    assert broker.listeners.of("echo") == []
    with socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect((LOOPBACK, address.port))


async def test_the_stream_protocol_is_a_plugin_with_a_usual_port(start, monkeypatch):
    port = free_port()
    usual = {"rabbitmq_stream": ("stream.listeners", "stream.tls_listeners", port)}
    monkeypatch.setattr(running_plugins, "USUAL_PORTS", usual)
    broker = await start(bind=LOOPBACK)
    assert await broker.plugins.change(["rabbitmq_stream"]) == (["rabbitmq_stream"], [])
    assert broker.listeners.of("stream") == [Listener(LOOPBACK, port)]
    assert await broker.plugins.change([]) == ([], ["rabbitmq_stream"])
    assert broker.listeners.addresses == []


async def test_a_configured_listener_enables_its_plugin_unless_plugins_are_listed():
    listeners = (Listener(LOOPBACK, 0),)
    config = Config(tcp=NO_AMQP, stream=StreamSettings(listeners=listeners))
    broker = Broker(config)
    assert broker.plugins.enabled == ("rabbitmq_stream",)
    await broker.stop()
