"""Plugins of a running node: what they contribute, how they start and stop, and how they fail."""

import asyncio
import socket
from contextlib import suppress

import aiormq
import pytest

from leveret.broker.config import Config, Listener, TcpSettings
from leveret.broker.config.stream_settings import StreamSettings
from leveret.broker.exchanges import EXCHANGE_TYPES
from leveret.broker.exchanges.direct import Direct
from leveret.broker.net.client_listeners import ServedProtocol
from leveret.broker.node import guarded_plugins, running_plugins
from leveret.broker.node.broker import Broker
from leveret.broker.node.guarded_plugins import measured
from leveret.broker.plugins.known_plugins import PLUGINS
from leveret.broker.plugins.plugin import INTERFACE, Plugin
from leveret.broker.policies.policy_keys import PolicyError, check_definition
from leveret.broker.runtime.loop_watch import LoopWatch
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port

LOOPBACK = "127.0.0.1"
NO_AMQP = TcpSettings(listeners=())


class FirstWord(Direct):
    name = "x-first-word"

    def route(self, routing_key, header):
        return super().route(routing_key.partition(" ")[0], header)


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


async def connected(broker):
    return await aiormq.connect(f"amqp://guest:guest@{LOOPBACK}:{broker.listening_on[0].port}")


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
        broker = Broker(Config(**{"tcp": NO_AMQP, "plugins": enabled, **settings}))
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
    assert issubclass(EXCHANGE_TYPES["x-first-word"], FirstWord)
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


async def test_events_are_heard_while_the_plugin_runs(install, start):
    heard = []
    install(plugin("ear", event_listeners={"all": heard.append}))
    broker = await start("ear")
    broker.services.events.notify("queue.created", {"name": "q"})
    await broker.plugins.change([])
    broker.services.events.notify("queue.created", {"name": "r"})
    assert [event["name"] for event in heard if event["event"] == "queue.created"] == ["q"]


async def test_an_interceptor_changes_what_clients_publish(install, start):
    def mark(message):
        headers = message.properties.get("headers", {})
        message.properties["headers"] = {**headers, "seen": ("S", message.exchange)}
        message.body = message.body.upper()

    install(plugin("marker", interceptors={"mark": mark}))
    broker = await start("marker", tcp=TcpSettings(listeners=(Listener(LOOPBACK, 0),)))
    async with await connected(broker) as connection:
        channel = await connection.channel()
        queue = (await channel.queue_declare("")).queue
        await channel.queue_bind(queue, "amq.fanout")
        for enabled in (["marker"], []):
            await broker.plugins.change(enabled)
            await channel.basic_publish(b"one", exchange="amq.fanout")
        seen, plain = [await channel.basic_get(queue, no_ack=True) for _ in range(2)]
    assert (seen.body, seen.header.properties.headers) == (b"ONE", {"seen": "amq.fanout"})
    assert (plain.body, plain.header.properties.headers) == (b"one", None)


async def test_an_interceptor_changes_what_clients_get(install, start):
    def mark(message):
        message.body = f"{message.queue} to {message.protocol}".encode()

    install(plugin("marker", outgoing_interceptors={"mark": mark}))
    broker = await start(tcp=TcpSettings(listeners=(Listener(LOOPBACK, 0),)))
    async with await connected(broker) as connection:
        channel = await connection.channel()
        await channel.queue_declare("q")
        await channel.basic_publish(b"one", routing_key="q")
        await broker.plugins.change(["marker"])
        seen = await channel.basic_get("q")
        await channel.basic_nack(seen.delivery_tag)
        await broker.plugins.change([])
        plain = await channel.basic_get("q", no_ack=True)
    assert (seen.body, plain.body) == (b"q to amqp091", b"one")


async def test_an_interceptor_that_raises_is_named(install, start, caplog):
    def fail(_):
        raise ValueError("no words")

    install(plugin("marker", interceptors={"mark": fail}))
    broker = await start("marker", tcp=TcpSettings(listeners=(Listener(LOOPBACK, 0),)))
    async with await connected(broker) as connection:
        channel = await connection.channel()
        with pytest.raises(aiormq.ConnectionInternalError, match="interceptor of plugin marker f"):
            await channel.basic_publish(b"1", exchange="amq.fanout")
    assert "plugin marker: interceptor failed: ValueError: no words" in caplog.messages


async def test_a_policy_key_is_known_while_its_plugin_runs(install, start):
    key = {"max-words": (lambda value: isinstance(value, int), "valid number of words")}
    install(plugin("words", policy_keys=key))
    broker = await start("words")
    check_definition("p", {"max-words": 7}, is_operator=False, may_lift_limits=False)
    with pytest.raises(PolicyError, match='"x">> is not a valid number of words'):
        check_definition("p", {"max-words": "x"}, is_operator=False, may_lift_limits=False)
    await broker.plugins.change([])
    with pytest.raises(PolicyError, match="not recognised"):
        check_definition("p", {"max-words": 7}, is_operator=False, may_lift_limits=False)


async def test_a_plugin_starts_after_those_that_it_requires_and_stops_before_them(install, start):
    steps = []

    def steps_of(name, *requires):
        return plugin(
            name, requires=requires, start=lambda _: steps.append(f"{name} starts"),
            stop=lambda _: steps.append(f"{name} stops"),
        )  # fmt: skip

    install(steps_of("a", "b"), steps_of("b"))
    broker = await start("a")
    await broker.plugins.change([])
    assert steps == ["b starts", "a starts", "a stops", "b stops"]


async def test_one_that_was_not_started_is_not_stopped(install):
    stops = []
    install(plugin("a", stop=stops.append, exchange_types={"x-first-word": FirstWord}))
    broker = Broker(Config(tcp=NO_AMQP, plugins=("a",)))
    broker.plugins.prepare()
    assert "x-first-word" in EXCHANGE_TYPES
    await broker.stop()
    assert (stops, "x-first-word" in EXCHANGE_TYPES) == ([], False)


class TestExchangesWithoutTheirType:
    @pytest.fixture
    async def broker(self, install, start):
        install(plugin("words", exchange_types={"x-first-word": FirstWord}))
        return await start("words", tcp=TcpSettings(listeners=(Listener(LOOPBACK, 0),)))

    @pytest.fixture
    async def channel(self, broker):
        async with await connected(broker) as connection:
            yield await connection.channel()

    async def test_publishers_are_refused_until_the_plugin_runs_again(self, broker, channel):
        await channel.exchange_declare("e", exchange_type="x-first-word")
        queue = (await channel.queue_declare("")).queue
        await channel.queue_bind(queue, "e", "red")
        assert (await channel.basic_publish(b"1", exchange="e", routing_key="red car")).name
        await broker.plugins.change([])
        other = await channel.connection.channel()
        with pytest.raises(aiormq.ChannelPreconditionFailed) as refused:
            await other.basic_publish(b"2", exchange="e", routing_key="red car")
        assert "Cannot route message through exchange 'e' in vhost '/': exchange type " in str(
            refused.value
        )
        await broker.plugins.change(["words"])
        await channel.basic_publish(b"3", exchange="e", routing_key="red car")
        bodies = [(await channel.basic_get(queue, no_ack=True)).body for _ in range(2)]
        assert bodies == [b"1", b"3"]

    async def test_a_type_that_raises_is_named(self, broker, channel, monkeypatch, caplog):
        def route(*_):
            raise ValueError("no words")

        monkeypatch.setattr(FirstWord, "route", route)
        await broker.plugins.change([])
        await broker.plugins.change(["words"])
        await channel.exchange_declare("e", exchange_type="x-first-word")
        with pytest.raises(aiormq.ConnectionInternalError, match="of plugin words cannot route: V"):
            await channel.basic_publish(b"1", exchange="e", routing_key="red")
        assert "plugin words: exchange type x-first-word cannot route: ValueError: no words" in (
            caplog.messages
        )


class TestFailures:
    """The node starts without a plugin that fails, and the log names it."""

    async def reason(self, start, name="greeter"):
        broker = await start(name)
        assert broker.plugins.running == []
        return broker.plugins.failures[name]

    async def test_it_is_not_installed(self, start, caplog):
        assert (await self.reason(start)).startswith("plugin greeter is not installed: install")
        assert any(text.startswith("plugin greeter is not installed") for text in caplog.messages)

    async def test_it_is_made_for_another_interface(self, install, start):
        install(plugin("greeter", interface=INTERFACE + 1))
        assert "is written for version 2 of the plugin interface" in await self.reason(start)

    async def test_it_is_no_plugin(self, install, start):
        install(plugin("greeter"))
        PLUGINS.load_installed()["greeter"] = object()
        assert "is not a leveret.broker.plugins.plugin.Plugin" in await self.reason(start)

    async def test_it_requires_one_that_does_not_run(self, install, start):
        install(plugin("greeter", requires=("missing",)))
        assert (await self.reason(start)).endswith("requires missing, which is not running")

    async def test_a_module_cannot_be_imported(self, install, start):
        install(plugin("greeter", queue_kinds={"q": "no_such_module:make"}))
        assert "ModuleNotFoundError: No module named 'no_such_module'" in await self.reason(start)

    async def test_a_name_is_taken(self, install, start):
        install(plugin("greeter", exchange_types={"direct": FirstWord}))
        assert "'direct' of leveret.exchange_types is defined by Leveret" in await self.reason(
            start
        )

    async def test_its_start_raises(self, install, start):
        def fail(_):
            raise RuntimeError("no licence")

        install(plugin("greeter", start=fail, exchange_types={"x-first-word": FirstWord}))
        assert await self.reason(start) == ("plugin greeter cannot start: RuntimeError: no licence")
        assert "x-first-word" not in EXCHANGE_TYPES

    async def test_its_start_does_not_end(self, install, start, monkeypatch):
        monkeypatch.setattr(running_plugins, "STEP_SECONDS_MAX", 0.01)

        async def wait(_):
            await asyncio.Event().wait()

        install(plugin("greeter", start=wait))
        assert "cannot start: it took longer than" in await self.reason(start)

    async def test_those_that_require_it_stop(self, install, start):
        install(plugin("base", start="no_such_module:start"), plugin("greeter", requires=("base",)))
        assert (await self.reason(start)).endswith("requires base, which is not running")


class TestTasks:
    async def test_they_are_cancelled_when_the_plugin_stops(self, install, start):
        tasks = []

        def run(node):
            tasks.append(node.run(asyncio.Event().wait(), "waiting"))

        install(plugin("greeter", start=run))
        broker = await start("greeter")
        await broker.plugins.change([])
        assert tasks[0].cancelled()

    async def test_one_that_does_not_end_is_named(self, install, start, monkeypatch, caplog):
        monkeypatch.setattr(running_plugins, "TASKS_SECONDS_MAX", 0)
        left = asyncio.Event()
        begun = asyncio.Event()

        async def insist():
            begun.set()
            while not left.is_set():
                with suppress(asyncio.CancelledError):
                    await left.wait()

        async def run(node):
            node.run(insist(), "insisting")
            await begun.wait()

        install(plugin("greeter", start=run))
        broker = await start("greeter")
        await broker.plugins.change([])
        left.set()
        said = "plugin greeter: task insisting did not end within 0 s of being cancelled"
        assert said in caplog.messages

    async def test_an_error_of_one_is_logged(self, install, start, caplog):
        async def fail():
            raise RuntimeError("no licence")

        install(plugin("greeter", start=lambda node: node.run(fail(), "reading") and None))
        await start("greeter")
        said = "plugin greeter: task reading failed: RuntimeError: no licence"
        await until(lambda: said in caplog.messages)

    async def test_a_step_that_takes_long_is_noted_for_the_plugin(self, monkeypatch):
        monkeypatch.setattr(guarded_plugins, "NOTED_SECONDS", -1.0)
        watch = LoopWatch(asyncio.get_running_loop().call_later)
        noted = []
        monkeypatch.setattr(watch, "note", lambda _seconds, cause: noted.append(cause))

        async def steps():
            await asyncio.sleep(0)
            return 7

        assert await measured(steps(), watch, "plugin greeter") == 7
        assert noted == ["plugin greeter"] * 2


async def test_a_configured_listener_enables_its_plugin_unless_plugins_are_listed():
    listeners = (Listener(LOOPBACK, 0),)
    config = Config(tcp=NO_AMQP, stream=StreamSettings(listeners=listeners))
    broker = Broker(config)
    assert broker.plugins.enabled == ("rabbitmq_stream",)
    await broker.stop()
