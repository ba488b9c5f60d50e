"""Shovels from a real RabbitMQ and to it, where one is installed."""

import pika
import pytest

from tests.bench.brokers import rabbitmq
from tests.interop import INTEROP
from tests.mgmt.served_node import ServedNode
from tests.mgmt.test_shovels import BODIES, local, publish, ready, shovel, take_all
from tests.ports import free_port

pytestmark = INTEROP
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


STATIC = """[{rabbitmq_shovel, [{shovels, [
    {from_rabbit, [
        {source, [{uris, ["RABBIT"]}, {queue, <<>>}, {declarations, [
            {'exchange.declare', [{exchange, <<"static">>}, {type, <<"fanout">>}, durable]},
            {'queue.declare', [exclusive]},
            {'queue.bind', [{exchange, <<"static">>}, {queue, <<>>}]}]}]},
        {destination, [{uris, ["amqp://"]},
            {declarations, [{'queue.declare', [{queue, <<"here">>}, durable]}]},
            {publish_fields, [{exchange, <<>>}, {routing_key, <<"here">>}]}]}]},
    {to_rabbit, [
        {source, [{uris, ["amqp://"]}, {queue, <<"here">>},
            {declarations, [{'queue.declare', [{queue, <<"here">>}, durable]}]}]},
        {destination, [{uris, ["RABBIT"]},
            {declarations, [
                {'queue.declare', [{queue, <<"back">>}, durable,
                                   {arguments, [{<<"x-max-length">>, long, 10000}]}]},
                {'queue.bind', [{exchange, <<"amq.topic">>}, {queue, <<"back">>},
                                {routing_key, <<"k">>}]}]},
            {publish_fields, [{exchange, <<"amq.topic">>}, {routing_key, <<"k">>}]},
            {publish_properties, [{headers, [{<<"n">>, signedint, 5}]}]},
            {add_forward_headers, true}]}]}]}]}].
"""


def test_static_shovels_move_messages_from_rabbitmq_and_back(rabbit, there, tmp_path):
    (tmp_path / "advanced.config").write_text(STATIC.replace("RABBIT", uri(rabbit)))
    static = ServedNode(tmp_path)
    try:
        static.wait_until(
            lambda: [one["state"] for one in static.get("shovels")] == ["running"] * 2, "both run"
        )
        for body in BODIES:
            there.basic_publish("static", "", body)
        came = []

        def all_are_back():
            while (got := there.basic_get("back", auto_ack=True))[0] is not None:
                came.append(got)
            return len(came) >= len(BODIES)

        static.wait_until(all_are_back, "all are back")
        assert [body for _, _, body in came] == BODIES
        headers = came[0][1].headers
        assert headers["n"] == 5
        assert headers["x-shovelled"][0]["shovel-name"] == "to_rabbit"
    finally:
        static.stop()
