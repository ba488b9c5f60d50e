"""Clients of AMQP 1.0, MQTT and STOMP in management: the API, leveretctl and the metrics."""

import json
import socket
from urllib.parse import quote

import pytest

from leveret.analytics.journey_command import main as journey
from leveret.broker.protocols.amqp10.performatives import Accepted, Close
from tests.mgmt.ctl_command import Ctl
from tests.mgmt.served_node import ServedNode
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_ports
from tests.protocol.amqp10_peer import text
from tests.protocol.amqp10_socket import Amqp10Socket

HOST = "127.0.0.1"
MQTT_CONNECT = b"\x10\x12\x00\x04MQTT\x04\x02\x00\x1e\x00\x06sensor"
"""Of MQTT 3.1.1, with a clean session and a keep alive of 30 s."""
MQTT_PUBLISH = b"\x32\x0a\x00\x03a/b\x00\x01one"
"""With QoS 1, so that it is confirmed."""
STOMP_CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"
WRONG_STOMP_CONNECT = STOMP_CONNECT.replace(b"passcode:guest", b"passcode:wrong")


class Node(ServedNode):
    """A node with MQTT and STOMP, and a client of each."""

    def __init__(self, directory):
        self.ports = free_ports(2)
        mqtt, stomp = self.ports
        super().__init__(
            directory,
            f"mqtt.listeners.tcp.1 = {HOST}:{mqtt}\nstomp.listeners.tcp.1 = {HOST}:{stomp}\n"
            "compat = 4.x\n",
        )
        self.mqtt = self.client(mqtt, MQTT_CONNECT)
        self.stomp = self.client(stomp, STOMP_CONNECT)

    def client(self, port, first):
        connected = socket.create_connection((HOST, port), PATIENCE_SECONDS)
        connected.sendall(first)
        assert connected.recv(1000)
        return connected

    def stop(self):
        self.mqtt.close()
        self.stomp.close()
        super().stop()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    served = Node(tmp_path_factory.mktemp("node"))
    yield served
    served.stop()


@pytest.fixture
def ctl(node):
    return Ctl(node)


def test_connections_have_their_protocol_and_what_only_it_has(node):
    found = {one["protocol"]: one for one in node.get("connections")}
    assert found.keys() == {"MQTT 3-1-1", "STOMP 1.2"}
    mqtt, stomp = found["MQTT 3-1-1"], found["STOMP 1.2"]
    assert (mqtt["timeout"], mqtt["port"]) == (30, node.ports[0])
    assert mqtt["client_properties"] == {
        "client_id": "sensor", "product": "MQTT client", "version": "3-1-1"
    }  # fmt: skip
    assert mqtt["variable_map"]["client_id"] == "sensor"
    assert mqtt["variable_map"]["clean_sess"] is True
    assert stomp["client_properties"] == {"product": "STOMP client"}
    assert stomp["variable_map"]["session_id"].startswith("session-")
    assert (stomp["variable_map"]["version"], stomp["type"]) == ("1.2", "direct")


def test_listeners_and_plugins_are_named(node, ctl):
    listeners = {one["protocol"]: one["port"] for one in node.get("overview")["listeners"]}
    assert (listeners["mqtt"], listeners["stomp"]) == tuple(node.ports)
    assert f"port: {node.ports[0]}, protocol: mqtt, purpose: MQTT\n" in ctl("listeners")
    (facts,) = node.get("nodes")
    assert {"rabbitmq_mqtt", "rabbitmq_stomp"} < set(facts["enabled_plugins"])


def test_leveretctl_lists_the_connections_of_mqtt(node, ctl):
    name = f"{HOST}:{node.mqtt.getsockname()[1]} -> {HOST}:{node.ports[0]}"
    assert ctl("list_mqtt_connections").splitlines() == [
        "Listing MQTT connections ...", "client_id\tconn_name", f"sensor\t{name}"
    ]  # fmt: skip
    assert ctl("-q", "list_mqtt_connections", "--no-table-headers", "client_id", "user", "vhost",
               "clean_sess", "will_msg", "exchange") == (
        "sensor\tguest\t/\ttrue\t\tamq.topic\n"
    )  # fmt: skip
    (row,) = json.loads(ctl("list_mqtt_connections", "--verbose", "--formatter", "json"))
    assert row["host"] == [127, 0, 0, 1]
    assert ["client_id", "longstr", "sensor"] in row["client_properties"]
    code, error = ctl.fails("list_mqtt_connections", "nope")
    assert (code, "Info key(s) nope are not supported" in error) == (64, True)


def test_leveretctl_lists_the_connections_of_stomp(ctl):
    shown = ctl("-q", "list_stomp_connections", "version", "auth_login", "auth_mechanism")
    assert shown.splitlines()[1] == "1.2\tguest\tstomp_headers"
    assert ctl("-s", "list_stomp_connections").startswith("session-")


def test_login_attempts_are_counted_by_protocol(node):
    refused = node.client(node.ports[1], WRONG_STOMP_CONNECT)
    refused.close()
    page = node.metrics("/metrics").splitlines()
    assert 'rabbitmq_auth_attempts_succeeded_total{protocol="mqtt"} 1' in page
    assert 'rabbitmq_auth_attempts_succeeded_total{protocol="stomp"} 1' in page
    assert 'rabbitmq_auth_attempts_failed_total{protocol="stomp"} 1' in page


def test_messages_of_mqtt_are_counted_by_its_version(node):
    def counted(name, protocol):
        page = node.metrics("/metrics").splitlines()
        (line,) = [one for one in page if one.startswith(f'{name}{{protocol="{protocol}"}}')]
        return int(line.rpartition(" ")[2])

    node.mqtt.sendall(MQTT_PUBLISH)
    assert node.mqtt.recv(10) == b"\x40\x02\x00\x01"
    received, confirmed = (
        f"rabbitmq_global_messages_{one}_total" for one in ("received", "confirmed")
    )
    assert (counted(received, "mqtt311"), counted(confirmed, "mqtt311")) == (1, 1)
    assert counted(received, "amqp091") == 0
    node.mqtt.close()
    node.wait_until(lambda: len(node.get("connections")) == 1)
    assert counted(received, "mqtt311") == 1


@pytest.fixture
def amqp10(node):
    client = Amqp10Socket(node.port)
    yield client
    client.close()


def wait_until_settled(node, client):
    def has_settled():
        (session,) = node.get(f"{path_of(node, client)}/sessions")
        return session["outgoing_unsettled_deliveries"] == 0

    node.wait_until(has_settled)


def path_of(node, client):
    """The path of a client's connection in the API."""
    return "connections/" + quote(f"{HOST}:{client.port} -> {HOST}:{node.port}", safe="")


def test_a_connection_of_amqp_1_0_is_shown_with_its_sessions_and_links(node, ctl, amqp10):
    node.put("queues/%2F/links", {"durable": True})
    amqp10.publisher("/queues/links", 3)
    amqp10.publish("one", 3)
    assert amqp10.outcome() == (0, 0, Accepted())
    amqp10.consumer("/queues/links", 4, credit=5)
    amqp10.receive()
    shown = node.get(path_of(node, amqp10))
    assert (shown["protocol"], shown["container_id"]) == ("AMQP 1-0", "test")
    row = ctl("-q", "list_connections", "--no-table-headers", "protocol", "container_id")
    assert "{1,0}\ttest\n" in row
    (session,) = node.get(f"{path_of(node, amqp10)}/sessions")
    (incoming,), (outgoing,) = session["incoming_links"], session["outgoing_links"]
    assert (incoming["target_address"], incoming["delivery_count"]) == ("/queues/links", 1)
    assert (outgoing["queue_name"], outgoing["credit"]) == ("links", 4)
    assert session["outgoing_unsettled_deliveries"] == 1
    (consumer,) = node.get("consumers")
    assert (consumer["consumer_tag"], consumer["queue"]["name"]) == ("link 4", "links")
    assert consumer["has_channel"] is False


def test_only_connections_of_amqp_1_0_have_sessions(node):
    names = [one["name"] for one in node.get("connections") if one["protocol"] == "STOMP 1.2"]
    answer = node.request("GET", f"connections/{quote(names[0], safe='')}/sessions")
    assert (answer.status, answer.body["reason"]) == (400, "connection does not use AMQP 1.0")


def test_messages_of_amqp_1_0_are_counted_by_the_kind_of_their_queue(node, amqp10):
    node.put("queues/%2F/counted", {"durable": True})
    amqp10.publisher("/queues/counted")
    amqp10.publish("one")
    amqp10.outcome()
    amqp10.consumer("/queues/counted", 1)
    delivery_id, _ = amqp10.receive()
    amqp10.accept(delivery_id)

    wait_until_settled(node, amqp10)
    page = node.metrics("/metrics")
    protocol = 'protocol="amqp10"'
    assert f"rabbitmq_global_publishers{{{protocol}}} 1\n" in page
    assert f"rabbitmq_global_consumers{{{protocol}}} 1\n" in page
    received = int(page.partition(f"rabbitmq_global_messages_received_total{{{protocol}}} ")[2][0])
    assert received >= 1
    labels = f'{{{protocol},queue_type="rabbit_classic_queue"}}'
    acknowledged = page.partition(f"rabbitmq_global_messages_acknowledged_total{labels} ")[2]
    assert acknowledged.startswith("1\n")
    assert f"rabbitmq_auth_attempts_succeeded_total{{{protocol}}}" in page


def test_a_client_of_amqp_1_0_is_told_why_it_is_disconnected(node, amqp10):
    node.delete(path_of(node, amqp10), headers={"X-Reason": "no longer wanted"})
    error = amqp10.expect(Close).performative.error
    assert error[:2] == ("amqp:connection:forced", "no longer wanted")


def test_the_journey_of_a_message_over_amqp_1_0(node, ctl, amqp10, capsys):
    node.put("queues/%2F/traced", {"durable": True})
    ctl("trace_log_on")
    amqp10.publisher("/exchanges/amq.direct/nowhere", 0)
    amqp10.publisher("/queues/traced", 1)
    amqp10.consumer("/queues/traced", 2)
    amqp10.publish("lost", 0, properties={"message-id": text("order-8")})
    amqp10.publish("kept", 1, properties={"message-id": text("order-9")})
    delivery_id, _ = amqp10.receive()
    amqp10.accept(delivery_id)
    wait_until_settled(node, amqp10)
    ctl("trace_log_off")
    logs = node.data_dir / "trace"
    node.wait_until(lambda: {file.suffix for file in logs.rglob("*.*")} == {".gz"})

    def told(message_id):
        assert journey([str(logs), "--processes", "1", "--message-id", message_id]) == 0
        return capsys.readouterr().out

    client = f"user guest, connection {HOST}:{amqp10.port} -> {HOST}:{node.port}, channel 1"
    steps = [
        f"published to the default exchange with routing key traced, 4 bytes; routed to queue "
        f"traced ({client})",
        "queue traced: delivered to consumer link 2",
        "queue traced: acknowledged",
        "The end: acknowledged in queue traced.",
    ]
    found = told("order-9")
    places = [found.index(words) for words in steps]
    assert places == sorted(places)
    assert "routed to no queue" in told("order-8")
