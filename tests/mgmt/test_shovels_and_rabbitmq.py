"""Shovels from a real RabbitMQ and to it, where one is installed."""

import pika
import pytest

from tests.bench.brokers import RABBITMQ_HOMES, rabbitmq
from tests.mgmt.test_shovels import BODIES, local, publish, ready, shovel, take_all
from tests.ports import free_port

pytestmark = pytest.mark.skipif(
    not any(RABBITMQ_HOMES.glob("rabbitmq_server-*/sbin/rabbitmq-server")),
    reason="RabbitMQ is not installed",
)
PROPERTIES = {"message_id": "m", "headers": {"n": 1, "text": "x"}, "type": "t", "priority": 3}


@pytest.fixture(scope="module")
def rabbit():
    with rabbitmq(choose_port=lambda preferred: free_port()) as broker:
        yield broker


@pytest.fixture
def there(rabbit):
    """A channel of a client of RabbitMQ."""
    address = pika.ConnectionParameters(rabbit.host, rabbit.port, heartbeat=0)
    with pika.BlockingConnection(address) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


def uri(broker):
    return f"amqp://guest:guest@{broker.host}:{broker.port}"


def test_messages_move_to_rabbitmq(node, vhost, channel, rabbit, there):
    channel.confirm_delivery()
    publish(channel, "from", BODIES, **PROPERTIES)
    shovel(
        node, vhost, src_uri=local(vhost), src_queue="from", dest_uri=uri(rabbit), dest_queue=vhost,
        src_delete_after="queue-length",
    )  # fmt: skip
    node.wait_until(lambda: not node.get(f"parameters/shovel/{vhost}"), "all are moved")
    assert ready(node, vhost, "from") == 0
    _, properties, body = there.basic_get(vhost, auto_ack=True)
    assert {name: getattr(properties, name) for name in PROPERTIES} == PROPERTIES
    assert [body, *take_all(there, vhost)] == BODIES
    there.queue_delete(vhost)


def test_messages_move_from_rabbitmq(node, vhost, channel, rabbit, there):
    publish(there, vhost, BODIES, **PROPERTIES)
    shovel(
        node, vhost, src_uri=uri(rabbit), src_queue=vhost, dest_uri=local(vhost), dest_queue="to",
        src_delete_after="queue-length",
    )  # fmt: skip
    node.wait_until(lambda: not node.get(f"parameters/shovel/{vhost}"), "all are moved")
    _, properties, body = channel.basic_get("to", auto_ack=True)
    assert {name: getattr(properties, name) for name in PROPERTIES} == PROPERTIES
    assert [body, *take_all(channel, "to")] == BODIES
    assert there.queue_delete(vhost).method.message_count == 0
