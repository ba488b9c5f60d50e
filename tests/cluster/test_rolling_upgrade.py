"""Programs that know all nodes survive an upgrade of each node in turn, and lose no message.

The nodes run an earlier version (tests/earlier_version.py) until they are upgraded.
"""

import pika
import pytest
from pika import exceptions

from tests.cluster.clients import take
from tests.cluster.clustered_nodes import ClusteredNode, declare, form, queues
from tests.cluster.mirrored import HA_ALL
from tests.cluster.surviving_programs import (
    QUEUES,
    ROBUST,
    STREAM,
    MqttProgram,
    PikaProgram,
    RobustProgram,
    StreamProgram,
)
from tests.earlier_version import earlier_sources, earlier_version
from tests.forked_programs import ROOT, start_program
from tests.ports import free_ports

STOPPED = "broker forced connection closure with reason 'shutdown'"
HOUR_MS = 3_600_000
ALL_QUEUES = {*QUEUES, *ROBUST, STREAM}


class UpgradedNode(ClusteredNode):
    """A node that runs an earlier version until it is upgraded. sources: of that version."""

    sources = ROOT
    is_upgraded = False

    def __init__(self, directory, name):
        self.mqtt_port, self.stream_port = free_ports(2)
        environment = {
            "LEVERET_MQTT_LISTENERS_TCP": f"127.0.0.1:{self.mqtt_port}",
            "LEVERET_MQTT_DURABLE_QUEUE_TYPE": "quorum",
            "LEVERET_STREAM_LISTENERS_TCP": f"127.0.0.1:{self.stream_port}",
        }
        super().__init__(directory, name, environment=environment)

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
        expected = (STOPPED, "quorum_delayed_messages")
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


def declare_replicated(node):
    """Declare the queues that programs share."""
    for queue, arguments in {**ROBUST, STREAM: ROBUST["stream"]}.items():
        node.wait_until(
            lambda queue=queue, arguments=arguments: is_declared(node, queue, arguments),
            f"{queue} is declared",
        )


def is_declared(node, queue, arguments):
    """Declare a queue. The earlier version refuses it if a group is not formed within seconds."""
    with node.connect() as connection:
        try:
            connection.channel().queue_declare(queue, durable=True, arguments=arguments)
        except exceptions.ConnectionClosedByBroker:
            return False
        return True


def wait_until_more_is_confirmed(node, programs):
    """Wait until each program has had messages confirmed since now."""
    seen = {program: program.confirmed_count for program in programs}
    for program in programs:
        node.wait_until(
            lambda program=program: program.confirmed_count > seen[program],
            f"more is confirmed to the {type(program).__name__}",
        )


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
    declare_replicated(nodes[0])
    delay_messages(nodes)
    kinds = (PikaProgram, RobustProgram, MqttProgram, StreamProgram)
    programs = [kind(nodes) for kind in kinds]
    for program in programs:
        program.start()
    try:
        for node in nodes:
            node.upgrade()
            wait_until_more_is_confirmed(node, programs)
            assert all(queues(one) >= ALL_QUEUES for one in nodes)
            assert_replicated_exchange(node, is_refused=earlier and node is not nodes[-1])
    finally:
        for program in programs:
            program.stop()
    assert_delayed_messages_come(nodes)
    for node in nodes:
        node.assert_nothing_failed()
    for program in programs:
        program.account()
    if earlier is None:
        pytest.skip(
            f"Git has no {earlier_version()}, as in a shallow clone: nodes of this version were "
            "restarted, and none was upgraded"
        )
