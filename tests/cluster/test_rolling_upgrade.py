"""Programs that know all nodes survive an upgrade of each node in turn, and lose no message.

The nodes run an earlier version (tests/earlier_version.py) until they are upgraded.
"""

import asyncio
import contextlib
import threading

import aio_pika
import pika
import pytest
from pika import exceptions

from tests.cluster.clients import PERSISTENT, bodies, take
from tests.cluster.clustered_nodes import ClusteredNode, declare, form, queues
from tests.cluster.mirrored import HA_ALL
from tests.earlier_version import earlier_sources, earlier_version
from tests.forked_programs import ROOT, start_program
from tests.patience import PATIENCE_SECONDS

QUEUES = ("on-a", "on-b", "on-c")
LOST = (aio_pika.exceptions.AMQPError, RuntimeError, OSError, asyncio.CancelledError)
"""What aio-pika raises when a connection is lost: it also cancels what waits for an answer."""
ROBUST = {
    "robust-on-a": {},
    "mirrored": {},
    "quorum": {"x-queue-type": "quorum"},
    "stream": {"x-queue-type": "stream"},
}
"""The queues of the robust program, and their arguments."""
HOUR_MS = 3_600_000
ALL_QUEUES = {*QUEUES, *ROBUST}


class Publisher:
    """Publishes to all queues in turn and notes what was confirmed, on whichever node runs."""

    def __init__(self, nodes):
        self._nodes = nodes
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.confirmed = {queue: set() for queue in QUEUES}

    def start(self):
        self._thread.start()

    def stop(self):
        self._is_done.set()
        self._thread.join()

    def _run(self):
        number = 0
        while not self._is_done.is_set():
            node = self._nodes[number % len(self._nodes)]
            number += 1
            # The node is down, or goes down: the next one is tried.
            with contextlib.suppress(exceptions.AMQPError), node.connect() as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                while not self._is_done.is_set():
                    number += 1
                    self._publish(channel, QUEUES[number % len(QUEUES)], number)

    def _publish(self, channel, queue, number):
        """Publish a message, which is returned or refused while the node of its queue is down."""
        with contextlib.suppress(exceptions.UnroutableError, exceptions.NackError):
            body = b"%d" % number
            channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)
            self.confirmed[queue].add(body)


class RobustProgram:
    """An aio-pika program with a robust connection to each node, which come back by themselves.

    It consumes a queue of each kind, each over one of the connections, and publishes to all of them
    over each connection. confirmed, taken: bodies.
    """

    def __init__(self, nodes):
        self._urls = [f"amqp://guest:guest@127.0.0.1:{node.port}/" for node in nodes]
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._is_connected = threading.Event()
        self.confirmed, self.taken = set(), set()

    def start(self):
        """Start the program, and wait until it has connected to all nodes."""
        self._thread.start()
        assert self._is_connected.wait(PATIENCE_SECONDS)

    def stop(self):
        """Publish no more, and wait until everything that was confirmed is taken."""
        self._is_done.set()
        self._thread.join()

    async def _run(self):
        connections = [
            await aio_pika.connect_robust(url, reconnect_interval=0.1) for url in self._urls
        ]
        for place, (queue, arguments) in enumerate(ROBUST.items()):
            channel = await connections[place % len(connections)].channel()
            await channel.set_qos(prefetch_count=100)
            declared = await channel.declare_queue(queue, durable=True, arguments=arguments)
            start = {"x-stream-offset": "first"} if queue == "stream" else None
            await declared.consume(self._take, arguments=start)
        channels = [await one.channel(on_return_raises=True) for one in connections]
        self._is_connected.set()
        await asyncio.gather(*map(self._publish, range(len(channels)), channels))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not self.confirmed <= self.taken:
                    await asyncio.sleep(0.02)
        for connection in connections:
            await connection.close()

    async def _take(self, message):
        is_first = message.body not in self.taken
        self.taken.add(message.body)
        # If its node goes down first, it is delivered again.
        with contextlib.suppress(*LOST):
            if is_first and message.routing_key == "quorum":
                await message.nack(requeue=True)
            else:
                await message.ack()

    async def _publish(self, place, channel):
        queues, number = tuple(ROBUST), 0
        while not self._is_done.is_set():
            number += 1
            body = b"%d of %d" % (number, place)
            message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await channel.default_exchange.publish(message, queues[number % len(queues)])
                self.confirmed.add(body)
            except (*LOST, TimeoutError):
                # Returned, refused, or the connection is lost and will come back.
                await asyncio.sleep(0.02)


class UpgradedNode(ClusteredNode):
    """A node that runs an earlier version until it is upgraded. sources: of that version."""

    sources = ROOT
    is_upgraded = False

    def upgrade(self):
        """Stop it, and start this version with its data."""
        self.stop()
        self.assert_nothing_failed()
        self.is_upgraded = True
        self.start()

    def assert_nothing_failed(self):
        """Check that the log has no errors but those of connections that a stop has closed, and of
        the declaration that is refused until all are upgraded.
        """
        errors = [line for line in self.log.splitlines() if "[error]" in line]
        expected = ("CONNECTION_FORCED", "quorum_delayed_messages")
        assert [line for line in errors if not any(one in line for one in expected)] == []

    def _start_program(self, *arguments):
        return start_program(
            self.program, *arguments, output=self._log, environment=self._environment,
            sources=ROOT if self.is_upgraded else self.sources,
        )  # fmt: skip


@pytest.fixture
def earlier(tmp_path):
    """The sources of the earlier version; None if Git does not have them."""
    return earlier_sources(earlier_version(), tmp_path / "earlier")


@pytest.fixture
def nodes(tmp_path, earlier):
    class Node(UpgradedNode):
        sources = earlier or ROOT

    nodes = form(tmp_path, "a", "b", "c", kind=Node)
    yield nodes
    for node in nodes:
        node.stop()


def delay_messages(nodes):
    """Publish a message on each node that waits there for an hour."""
    for node in nodes:
        with node.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.exchange_declare(
                "later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
            )
            channel.queue_declare("released", durable=True)
            channel.queue_bind("released", "later")
            properties = pika.BasicProperties(headers={"x-delay": HOUR_MS}, delivery_mode=2)
            channel.basic_publish("later", "", node.name.encode(), properties)


def assert_replicated_exchange(node, is_refused):
    """Declare a delayed message exchange that all nodes have to know."""
    arguments = {"x-delayed-type": "fanout", "x-delayed-queue-type": "quorum"}
    with node.connect() as connection:
        channel = connection.channel()
        if is_refused:
            with pytest.raises(exceptions.ChannelClosedByBroker, match="quorum_delayed_messages"):
                channel.exchange_declare(
                    "replicated", "x-delayed-message", durable=True, arguments=arguments
                )
            return
        channel.exchange_declare(
            "replicated", "x-delayed-message", durable=True, arguments=arguments
        )


def assert_delayed_messages_come(nodes):
    """The messages of all nodes still wait, and are sent when an operator wants that."""
    for node in nodes:
        shown = node.ctl("list_delayed_messages", "later")
        assert [one.name for one in nodes if one.name not in shown] == []
    assert "3 messages" in nodes[0].ctl("send_delayed_messages", "later", "--all")
    with nodes[0].connect() as connection:
        taken = take(connection.channel(), "released", len(nodes))
    assert {body for body, _ in taken} == {node.name.encode() for node in nodes}


def test_no_confirmed_message_is_lost_in_a_rolling_upgrade(nodes, earlier):
    nodes[0].ctl(*HA_ALL)
    for node, queue in zip(nodes, QUEUES, strict=True):
        declare(node, queue)
    delay_messages(nodes)
    publisher, robust = Publisher(nodes), RobustProgram(nodes)
    publisher.start()
    robust.start()
    try:
        for node in nodes:
            count = sum(map(len, publisher.confirmed.values()))
            robust_count = len(robust.confirmed)
            node.upgrade()
            node.wait_until(
                lambda seen=count: sum(map(len, publisher.confirmed.values())) > seen,
                "more is confirmed",
            )
            node.wait_until(
                lambda seen=robust_count: len(robust.confirmed) > seen, "more is confirmed"
            )
            assert all(queues(one) >= ALL_QUEUES for one in nodes)
            assert_replicated_exchange(node, is_refused=earlier and node is not nodes[-1])
    finally:
        publisher.stop()
        robust.stop()
    assert_delayed_messages_come(nodes)
    for node in nodes:
        node.assert_nothing_failed()
    assert robust.confirmed <= robust.taken
    for queue in QUEUES:
        assert publisher.confirmed[queue]
        assert publisher.confirmed[queue] <= set(bodies(nodes[0], queue))
    if earlier is None:
        pytest.skip(
            f"Git has no {earlier_version()}, as in a shallow clone: nodes of this version were "
            "restarted, and none was upgraded"
        )
