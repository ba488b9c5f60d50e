"""Alarms and maintenance of one node, as the others and their clients see them."""

import signal

import pika
import pytest

from leveret.mgmt.ctl.client import client_of
from tests.patience import PATIENCE_SECONDS


class Publisher:
    """A client that has published. heard: its notifications, in order."""

    def __init__(self, node):
        self._node = node
        self._connection = node.connect()
        self.heard = []
        self._connection.add_on_connection_blocked_callback(
            lambda _, method: self.heard.append(method.method.reason)
        )
        self._connection.add_on_connection_unblocked_callback(
            lambda _, method: self.heard.append("unblocked")
        )
        self._connection.channel().basic_publish("", "nowhere", b"")

    def wait_for(self, count):
        def has_heard():
            self._connection.process_data_events(0)
            return len(self.heard) >= count

        self._node.wait_until(has_heard, f"the publisher has heard {count} things")


def test_an_alarm_blocks_publishers_of_other_nodes_until_its_node_is_gone(nodes):
    a, b = nodes
    b.ctl("set_vm_memory_high_watermark", "absolute", "1")
    a.wait_for_log(f"memory alarm on node {b.name}")
    publisher = Publisher(a)
    publisher.wait_for(1)
    shown = a.ctl_json("cluster_status")
    assert shown["alarms"] == [f"Memory alarm on node {b.name}"]
    assert f"Memory alarm on node {b.name}" in a.ctl("check_alarms", succeeds=False)
    assert "no local alarms" in a.ctl("check_local_alarms")
    b.stop(signal.SIGKILL)
    publisher.wait_for(2)
    assert publisher.heard == ["low on memory", "unblocked"]
    assert "no alarms" in a.ctl("check_alarms")


def test_a_node_that_starts_during_an_alarm_learns_of_it(nodes):
    a, b = nodes
    b.stop()
    a.ctl("set_disk_free_limit", "100000GB")
    b.start()
    b.wait_for_log(f"disk alarm on node {a.name}")
    publisher = Publisher(b)
    publisher.wait_for(1)
    a.ctl("set_disk_free_limit", "1MB")
    publisher.wait_for(2)
    assert publisher.heard == ["low on disk", "unblocked"]


def test_a_node_under_maintenance_is_shown_everywhere_and_gets_no_new_queues(nodes):
    a, b = nodes
    connected = b.connect()
    b.ctl("drain")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
        connected.process_data_events(PATIENCE_SECONDS)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        b.connect()
    shown = a.ctl_json("cluster_status")
    assert shown["maintenance_status"] == {
        a.name: "not under maintenance", b.name: "under maintenance",
    }  # fmt: skip
    assert {one["name"]: one["being_drained"] for one in api(a).get("nodes")} == {
        a.name: False, b.name: True,
    }  # fmt: skip
    assert api(b).get("health", "checks", "is-in-service")["status"] == "failed"
    assert api(a).get("health", "checks", "is-in-service") == {"status": "ok"}
    with a.connect() as connection:
        channel = connection.channel()
        for number in range(3):
            locator = {"x-queue-master-locator": "min-masters"}
            channel.queue_declare(f"q{number}", arguments=locator)
    assert homes(a) == {a.name}
    b.ctl("revive")
    b.connect().close()
    with a.connect() as connection:
        connection.channel().queue_declare("later", arguments=locator)
    assert homes(a) == {a.name, b.name}
    b.ctl("drain")
    b.ctl("stop_app")
    b.ctl("start_app")
    b.connect().close()


def homes(node):
    """The nodes of all queues."""
    return {queue["node"] for queue in api(node).get("queues")}


def api(node):
    """The HTTP API of a node, over its control socket."""
    return client_of({"data_dir": node.data_dir})
