"""A federated exchange's link notices that an exchange upstream is gone and declares it again."""

import time

import pika
import pytest

from leveret.broker.moving.federation import exchange_mover
from leveret.testing import EmbeddedBroker
from tests.patience import PATIENCE_SECONDS

VHOSTS = "/", "up"
DEFINITIONS = {
    "vhosts": [{"name": name} for name in VHOSTS],
    "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
    "permissions": [
        {"user": "guest", "vhost": name, "configure": ".*", "write": ".*", "read": ".*"}
        for name in VHOSTS
    ],
    "parameters": [
        {
            "component": "federation-upstream", "vhost": "/", "name": "u",
            "value": {"uri": "amqp:///up", "reconnect-delay": 0.05},
        }
    ],
    "policies": [
        {
            "vhost": "/", "name": "p", "pattern": "^x$", "apply-to": "exchanges",
            "definition": {"federation-upstream": "u"},
        }
    ],
    "exchanges": [
        {
            "vhost": "/", "name": "x", "type": "topic", "durable": True, "auto_delete": False,
            "internal": False, "arguments": {},
        }
    ],
    "queues": [
        {"vhost": "/", "name": "q", "durable": True, "auto_delete": False, "arguments": {}}
    ],
    "bindings": [
        {
            "source": "x", "vhost": "/", "destination": "q", "destination_type": "queue",
            "routing_key": "k", "arguments": {},
        }
    ],
}  # fmt: skip


@pytest.fixture
def broker(monkeypatch):
    monkeypatch.setattr(exchange_mover, "CHECK_SECONDS", 0.02)
    with EmbeddedBroker.in_thread(definitions=DEFINITIONS) as broker:
        yield broker


def until(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def internal_exchanges(broker):
    """The names of the link's internal exchanges upstream, bound to the exchange there."""

    def bound(embedded):
        exchange = embedded.broker.services.vhosts["up"].exchanges.get("x")
        bindings = [] if exchange is None else exchange.bindings.values()
        return [binding.destination.name for binding in bindings]

    return broker.call(bound)


@pytest.mark.parametrize("is_internal", [True, False], ids=["internal", "federated"])
def test_an_exchange_that_is_deleted_upstream_is_declared_again(broker, is_internal):
    until(lambda: internal_exchanges(broker))
    (internal,) = internal_exchanges(broker)
    address = pika.ConnectionParameters(broker.host, broker.port, "up")
    with pika.BlockingConnection(address) as connection:
        connection.channel().exchange_delete(internal if is_internal else "x")
    until(lambda: internal_exchanges(broker))
    with pika.BlockingConnection(address) as connection:
        connection.channel().basic_publish("x", "k", b"body")
    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as connection:
        channel = connection.channel()
        until(lambda: channel.queue_declare("q", passive=True).method.message_count == 1)
