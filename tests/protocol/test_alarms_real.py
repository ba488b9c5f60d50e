"""Alarms that a node with a data directory sets according to its measurements."""

import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from pamqp import commands

from leveret.broker.config import Config, DiskSettings, Listener, MemorySettings, TcpSettings
from leveret.broker.node.broker import Broker
from leveret.broker.resources.disk_monitor import DiskMonitor
from leveret.broker.resources.memory_monitor import MemoryMonitor
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.storage.metadata.metadata import SqliteMetadata
from leveret.testing import LOOPBACK, ThreadedBroker
from tests.patience import PATIENCE_SECONDS
from tests.protocol.raw_client import opened, side_of_broker, wait_until_read

A_WHILE_S = 10
"""Both monitors have measured by then."""
FAR_TOO_MUCH = 2**60


class Node:
    """A broker as created by `leveret serve`, with a virtual clock."""

    host = LOOPBACK

    def __init__(self, data_dir, settings):
        self.clock = VirtualClock()
        self.config = Config(tcp=TcpSettings(listeners=(Listener(LOOPBACK, 0),)), **settings)
        self.data_dir = data_dir

    async def start(self):
        metadata = SqliteMetadata(self.data_dir / "metadata.sqlite")
        self.broker = Broker(self.config, metadata, clock=self.clock, data_dir=self.data_dir)
        await self.broker.start()
        self.port = self.broker.listening_on[0].port

    async def stop(self):
        await self.broker.stop()

    def advance(self, seconds):
        self.clock.advance(seconds)

    def monitor(self, kind):
        """Return the monitor of memory or disk."""
        return next(found for found in self.broker.monitors if isinstance(found, kind))


@pytest.fixture
def start(tmp_path):
    """Starts a node with settings in a thread."""
    nodes = []

    def start_with(**settings):
        threaded = ThreadedBroker(Node(tmp_path, settings))
        threaded.start()
        nodes.append(threaded)
        return threaded

    yield start_with
    for node in nodes:
        node.stop()


def bytes_in(node, client):
    return node.call(lambda inside: side_of_broker(inside, client).bytes_in)


def set_limit(node, kind, limit_bytes):
    """Set another limit; it takes effect at the monitor's next measurement."""
    node.call(lambda inside: setattr(inside.monitor(kind), "limit_bytes", limit_bytes))


def blocked_for(client):
    """Read connection.blocked, and return its reason."""
    return client.read_method(0, commands.Connection.Blocked).reason


def test_a_process_above_its_watermark_reads_no_publisher_and_serves_consumers(start):
    node = start(memory=MemorySettings(high_watermark_bytes=1_000_000))
    with opened(node) as publisher, opened(node) as consumer:
        consumer.declare("q")
        consumer.consume("q", no_ack=True)
        publisher.publish(1, "q", b"first")
        assert blocked_for(publisher) == "low on memory"

        read = bytes_in(node, publisher)
        publisher.publish(1, "q", b"second")
        node.advance(A_WHILE_S)
        for _ in range(10):
            assert consumer.declare("q").message_count == 0
        assert bytes_in(node, publisher) == read

        set_limit(node, MemoryMonitor, FAR_TOO_MUCH)
        node.advance(A_WHILE_S)
        publisher.read_method(0, commands.Connection.Unblocked)
        assert consumer.read_content(1, commands.Basic.Deliver).body == b"first"
        assert consumer.read_content(1, commands.Basic.Deliver).body == b"second"


def test_a_consumer_empties_its_queue_during_an_alarm(start):
    node = start(memory=MemorySettings(high_watermark_bytes=FAR_TOO_MUCH))
    with opened(node) as publisher, opened(node) as consumer:
        publisher.declare("q", durable=True)
        for number in range(20):
            publisher.publish(1, "q", b"%d" % number, delivery_mode=2)
        wait_until_read(node, publisher)
        set_limit(node, MemoryMonitor, 1)
        node.advance(A_WHILE_S)
        publisher.publish(1, "q", b"20")
        assert blocked_for(publisher) == "low on memory"
        consumer.consume("q")
        for number in range(20):
            assert consumer.read_content(1, commands.Basic.Deliver).body == b"%d" % number
            consumer.send_method(1, commands.Basic.Ack, delivery_tag=number + 1)
        assert consumer.declare("q", durable=True).message_count == 0


def test_less_free_space_than_the_limit(start):
    node = start(disk=DiskSettings(free_limit_bytes=FAR_TOO_MUCH))
    with opened(node) as publisher:
        publisher.declare("q")
        publisher.publish(1, "q", b"x")
        assert blocked_for(publisher) == "low on disk"
        set_limit(node, DiskMonitor, 0)
        node.advance(A_WHILE_S)
        publisher.read_method(0, commands.Connection.Unblocked)
        assert publisher.get("q") == b"x"


def test_free_space_below_a_multiple_of_the_memory(start):
    node = start(
        disk=DiskSettings(free_limit_bytes=None, free_limit_relative=2.0),
        memory=MemorySettings(total_bytes=FAR_TOO_MUCH),
    )
    with opened(node) as publisher:
        publisher.publish(1, "nowhere", b"x")
        assert blocked_for(publisher) == "low on disk"


def test_unblocked_comes_when_the_last_alarm_is_over(start):
    node = start(
        memory=MemorySettings(high_watermark_bytes=1),
        disk=DiskSettings(free_limit_bytes=FAR_TOO_MUCH),
    )
    with opened(node) as publisher:
        publisher.publish(1, "nowhere", b"x")
        assert blocked_for(publisher) == "low on memory & low on disk"
        set_limit(node, DiskMonitor, 0)
        node.advance(A_WHILE_S)
        assert node.call(lambda inside: inside.broker.services.alarms.reason) == "low on memory"
        set_limit(node, MemoryMonitor, FAR_TOO_MUCH)
        node.advance(A_WHILE_S)
        publisher.read_method(0, commands.Connection.Unblocked)
        assert publisher.declare("q").message_count == 0


def test_a_node_with_the_default_limits_has_no_alarm(start):
    node = start()
    node.advance(A_WHILE_S)
    assert not node.call(lambda inside: inside.broker.services.alarms.are_in_force)


def test_an_embedded_broker_watches_neither(broker):
    assert broker.call(lambda embedded: embedded.broker.monitors) == []


@contextmanager
def served(folder, settings):
    """Run `leveret serve` with a configuration file; returns its address."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = probe.getsockname()[1]
    file = folder / "rabbitmq.conf"
    file.write_text(settings)
    command = [sys.executable, "-m", "leveret.mgmt.cli.entry", "serve", "--config", str(file)]
    command += [
        "--bind",
        LOOPBACK,
        "--port",
        str(port),
        "--management-port",
        "0",
        "--prometheus-port",
        "0",
    ]
    command += ["--data-dir", str(folder / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            next(line for line in process.stdout if "ready" in line)
            yield SimpleNamespace(host=LOOPBACK, port=port)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=PATIENCE_SECONDS)


def test_a_served_node_takes_its_limits_from_the_configuration_file(tmp_path):
    settings = "vm_memory_high_watermark.relative = 0\ndisk_free_limit.absolute = 1000000GB\n"
    with served(tmp_path, settings) as server, opened(server) as publisher:
        publisher.publish(1, "nowhere", b"x")
        assert blocked_for(publisher) == "low on memory & low on disk"
