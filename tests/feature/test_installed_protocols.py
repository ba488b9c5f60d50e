"""A protocol of a plugin: a listener of its own, beside AMQP's."""

import asyncio
import socket

import pytest

from leveret.broker.config import Config, Listener, SettingError, TcpSettings
from leveret.broker.node.broker import Broker
from leveret.broker.plugins.known_plugins import PLUGINS
from tests.installed_package import install_in

LOOPBACK = "127.0.0.1"
CONFIG = Config(tcp=TcpSettings(listeners=(Listener(LOOPBACK, 0),)), plugins=("greet",))
SOURCE = """
import asyncio

from leveret.broker.config import Listener
from leveret.broker.net.client_listeners import ServedProtocol
from leveret.broker.plugins.plugin import Plugin


class Greeting(asyncio.Protocol):
    def __init__(self, name):
        self.name = name

    def connection_made(self, transport):
        transport.write(b"hello from " + self.name.encode())
        transport.close()


def greet(services, connections):
    def accept():
        return Greeting(services.config.node_name)

    address = Listener("127.0.0.1", 0)
    return ServedProtocol("greet", [address], [], "greet.port", "greet.tls_port", accept)


PLUGIN = Plugin(
    name="greet", description="Greets", version="1.0", interface=1, protocols={"greet": greet}
)
"""


@pytest.fixture
def install(monkeypatch, tmp_path):
    def install_protocol(source=SOURCE):
        install_in(monkeypatch, tmp_path, [PLUGINS], "greet", source, "PLUGIN")

    return install_protocol


@pytest.fixture
async def start():
    brokers = []

    async def start_broker():
        broker = Broker(CONFIG)
        brokers.append(broker)
        await broker.start()
        return broker

    yield start_broker
    for broker in brokers:
        await broker.stop()


async def greeting(port):
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, (LOOPBACK, port))
        found = b""
        while data := await loop.sock_recv(client, 100):
            found += data
        return found.decode()


async def test_its_clients_are_served_beside_those_of_amqp(install, start):
    install()
    broker = await start()
    assert [name for name, _ in broker.listeners.addresses] == ["amqp", "greet"]
    port = broker.listeners.of("greet")[0].port
    assert await greeting(port) == f"hello from {CONFIG.node_name}"


async def test_suspended_listeners_open_again_on_the_same_ports(install, start):
    install()
    broker = await start()
    before = broker.listeners.addresses
    broker.listeners.suspend()
    broker.listeners.suspend()
    assert broker.listeners.addresses == []
    broker.listeners.resume()
    broker.listeners.resume()
    assert broker.listeners.addresses == before
    port = broker.listeners.of("greet")[0].port
    assert (await greeting(port)).startswith("hello")


async def test_listeners_stay_suspended_while_a_port_is_taken(start):
    broker = await start()
    address = broker.listening_on[0]
    broker.listeners.suspend()
    with socket.create_server((LOOPBACK, address.port)):
        with pytest.raises(SettingError, match="Address already in use"):
            broker.listeners.resume()
        assert broker.listeners.addresses == []
    broker.listeners.resume()
    assert broker.listening_on == [address]


async def test_one_that_cannot_be_made_is_logged_and_left_out(install, start, caplog):
    install(
        SOURCE.replace(
            "    def accept():\n", "    raise RuntimeError('no licence')\n\n    def accept():\n"
        )
    )
    broker = await start()
    assert [name for name, _ in broker.listeners.addresses] == ["amqp"]
    assert "plugin greet cannot start: RuntimeError: no licence" in caplog.messages
