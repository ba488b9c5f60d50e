"""Federated queues whose upstream is a real RabbitMQ, where one is installed."""

import pika
import pytest

from tests.bench.brokers import RABBITMQ_HOMES, rabbitmq
from tests.mgmt.test_federated_queues import BODIES, Place, Taker
from tests.mgmt.test_shovels import publish
from tests.ports import free_port

pytestmark = pytest.mark.skipif(
    not any(RABBITMQ_HOMES.glob("rabbitmq_server-*/sbin/rabbitmq-server")),
    reason="RabbitMQ is not installed",
)


@pytest.fixture(scope="module")
def rabbit():
    with rabbitmq(choose_port=lambda preferred: free_port()) as broker:
        yield broker


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
def test_messages_come_from_rabbitmq_while_a_consumer_has_room(node, vhost, rabbit, ack_mode):
    here = Place(node, vhost)
    address = pika.ConnectionParameters(rabbit.host, rabbit.port, heartbeat=0)
    with pika.BlockingConnection(address) as connection:
        there = connection.channel()
        there.confirm_delivery()
        publish(there, vhost, BODIES, message_id="m")
        here.channel.queue_declare("q", durable=True)
        uri = f"amqp://guest:guest@{rabbit.host}:{rabbit.port}/%2F"
        here.federate(uri, queue=vhost, ack_mode=ack_mode)
        here.wait_for_link()
        assert there.queue_declare(vhost, passive=True).method.consumer_count == 0
        taker = Taker(here, prefetch=10)
        taker.wait_for_count(len(BODIES))
        assert taker.bodies == BODIES
        (came,) = taker.headers[0]["x-received-from"]
        assert (came["queue"], came["visit-count"]) == ("q", 1)
        assert there.queue_delete(vhost).method.message_count == 0
    here.close()
