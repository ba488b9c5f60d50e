"""The exchange amq.rabbitmq.event, with real clients. Headers are as RabbitMQ 3.10.8 sends them."""

import re
import time

import pika
import pytest

from tests.mgmt.ctl_command import Ctl
from tests.mgmt.served_node import ServedNode
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    served = ServedNode(tmp_path_factory.mktemp("events"), "event_exchange.vhost = /")
    yield served
    served.stop()


def connected(node, vhost="/"):
    address = pika.ConnectionParameters("127.0.0.1", node.port, vhost, heartbeat=0)
    return pika.BlockingConnection(address)


class Heard:
    """The events with some routing keys, from now on."""

    def __init__(self, channel, *keys):
        self._channel = channel
        self._queue = channel.queue_declare("", exclusive=True).method.queue
        for key in keys:
            channel.queue_bind(self._queue, "amq.rabbitmq.event", key)

    def next(self, key):
        """The headers of the next event with this routing key."""
        return self.message(key)[1].headers

    def message(self, key):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            method, properties, body = self._channel.basic_get(self._queue, auto_ack=True)
            if method is None:
                self._channel.connection.process_data_events(0.01)
            elif method.routing_key == key:
                return method, properties, body
        raise AssertionError(f"there was no event {key}")


@pytest.fixture
def channel(node):
    with connected(node) as connection:
        yield connection.channel()


def without_time(headers):
    return {name: one for name, one in headers.items() if name != "timestamp_in_ms"}


def test_the_exchange_is_rabbitmqs(node):
    shown = node.get("exchanges/%2F/amq.rabbitmq.event")
    assert (shown["type"], shown["durable"], shown["internal"]) == ("topic", True, True)


def test_an_event_is_a_message_with_the_fields_as_headers(node, channel):
    heard = Heard(channel, "queue.#")
    arguments = {"x-max-length": 5, "x-overflow": "reject-publish"}
    channel.queue_declare("told", durable=True, arguments=arguments)
    method, properties, body = heard.message("queue.created")
    assert (method.exchange, method.redelivered, body) == ("amq.rabbitmq.event", False, b"")
    assert properties.delivery_mode == 2
    assert properties.timestamp == properties.headers["timestamp_in_ms"] // 1000
    assert without_time(properties.headers) == {
        "name": "told", "vhost": "/", "type": "rabbit_classic_queue", "durable": True,
        "auto_delete": False, "exclusive": False, "owner_pid": "",
        "arguments": [
            '{<<"x-max-length">>,signedint,5}', '{<<"x-overflow">>,longstr,<<"reject-publish">>}',
        ],
        "user_who_performed_action": "guest",
    }  # fmt: skip
    channel.queue_delete("told")
    assert heard.next("queue.deleted")["name"] == "told"


def test_a_client_is_told_with_addresses_as_in_erlang(node, channel):
    heard = Heard(channel, "connection.*", "user.authentication.*")
    connected(node).close()
    login, opened = heard.next("user.authentication.success"), heard.next("connection.created")
    for headers in (login, opened):
        assert headers["protocol"] == "{0,9,1}"
        assert headers["host"] == headers["peer_host"] == "{127,0,0,1}"
    product = '{<<"product">>,longstr,<<"Pika Python Client Library">>}'
    assert product in opened["client_properties"]
    assert heard.next("connection.closed")["name"] == opened["name"]


def test_a_policy_is_told_as_a_table(node, channel):
    heard = Heard(channel, "policy.set")
    definition = {"max-length": 3, "overflow": "reject-publish"}
    node.put("policies/%2F/p", {"pattern": "^nothing", "definition": definition})
    assert heard.next("policy.set")["definition"] == definition
    node.delete("policies/%2F/p")


def test_what_a_shovel_does(node, channel):
    heard = Heard(channel, "shovel.#")
    ends = {"src-queue": "from", "dest-queue": "to"}
    value = {"src-uri": "amqp://", "dest-uri": "amqp://", **ends}
    node.put("parameters/shovel/%2F/mover", {"value": value})
    identity = {"name": "mover", "vhost": "/"}
    assert without_time(heard.next("shovel.worker.status")) == {**identity, "status": "starting"}
    assert without_time(heard.next("shovel.worker.status")) == {
        **identity, "status": "running", "src_uri": "amqp://", "dest_uri": "amqp://",
        "src_protocol": "amqp091", "dest_protocol": "amqp091", "src_queue": "from",
        "dest_queue": "to",
    }  # fmt: skip
    node.delete("parameters/shovel/%2F/mover")
    assert without_time(heard.next("shovel.worker.removed")) == identity


def test_why_a_shovel_does_not_run(node, channel):
    heard = Heard(channel, "shovel.#")
    nowhere = f"amqp://guest:secret@127.0.0.1:{free_port()}"
    value = {"src-uri": nowhere, "src-queue": "a", "dest-uri": "amqp://", "reconnect-delay": 3600}
    node.put("parameters/shovel/%2F/broken", {"value": value})
    assert heard.next("shovel.worker.status")["status"] == "starting"
    told = heard.next("shovel.worker.status")
    assert told["status"] == "terminated"
    assert told["reason"].startswith("failed to connect to source: amqp://127.0.0.1:")
    assert "secret" not in told["reason"]
    node.delete("parameters/shovel/%2F/broken")


def test_what_a_federation_link_does(node, channel):
    heard = Heard(channel, "federation.#")
    node.put("queues/%2F/federated", {"durable": True})
    nowhere = f"amqp://127.0.0.1:{free_port()}"
    value = {"uri": nowhere.replace("//", "//guest:secret@"), "reconnect-delay": 3600}
    node.put("parameters/federation-upstream/%2F/up", {"value": value})
    policy = {"pattern": "^federated$", "definition": {"federation-upstream": "up"}}
    node.put("policies/%2F/federated", policy)
    told = [without_time(heard.next("federation.link.status")) for _ in range(2)]
    identity = {
        "queue": "federated", "upstream_queue": "federated", "type": "queue", "vhost": "/",
        "upstream": "up", "id": told[0]["id"], "consumer_tag": "federation-link-up",
    }  # fmt: skip
    for one in told:
        assert re.fullmatch(r"\{\{\d+,\d+,\d+},\{\d+,\d+,\d+}}", one.pop("timestamp"))
    starting, failed = told
    assert starting == {**identity, "status": "starting", "uri": nowhere}
    error = failed.pop("error")
    assert error.startswith(f"failed to connect to upstream: {nowhere}: ")
    assert failed == {**identity, "status": "error", "uri": nowhere}
    node.delete("policies/%2F/federated")
    assert without_time(heard.next("federation.link.removed")) == identity


def test_events_go_on_after_the_broker_was_stopped_and_started(node):
    ctl = Ctl(node)
    ctl("stop_app")
    ctl("start_app")
    with connected(node) as connection:
        channel = connection.channel()
        heard = Heard(channel, "exchange.created")
        channel.exchange_declare("later", "fanout", auto_delete=True)
        assert heard.next("exchange.created")["name"] == "later"
