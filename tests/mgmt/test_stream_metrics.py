"""The metrics of streams: what clients of both protocols have done, and how far they are behind."""

import asyncio
from contextlib import suppress

import pika
import pytest

from leveret.broker.protocols.stream import codes
from tests.jepsen.stream_protocol import PUBLISHER, StreamClient
from tests.mgmt.served_node import ServedNode
from tests.mgmt.test_metrics import samples, value
from tests.ports import free_port

PROTOCOL = {"protocol": "stream"}
BY_TYPE = {"protocol": "stream", "queue_type": "rabbit_stream_queue"}
STREAM = {"x-queue-type": "stream"}
FIRST = b"\0\1"
AT_OFFSET_2 = b"\0\4" + (2).to_bytes(8)


@pytest.fixture(scope="module")
def stream_node(tmp_path_factory):
    port = free_port()
    node = ServedNode(tmp_path_factory.mktemp("node"), f"stream.listeners.tcp.default = {port}")
    node.stream_port = port
    yield node
    node.stop()


@pytest.fixture
def stream(stream_node, request):
    """A stream with four messages, published by AMQP 0-9-1."""
    name = request.node.name
    address = pika.ConnectionParameters("127.0.0.1", stream_node.port, heartbeat=0)
    connection = pika.BlockingConnection(address)
    channel = connection.channel()
    channel.queue_declare(name, durable=True, arguments=STREAM)
    channel.confirm_delivery()
    for number in range(4):
        channel.basic_publish("", name, b"%d" % number)
    yield name
    channel.queue_delete(name)
    connection.close()


async def page_of(node, path="/metrics"):
    return await asyncio.to_thread(node.metrics, path)


async def test_what_clients_of_the_protocol_did_is_counted_also_when_they_have_ended(
    stream_node, stream
):
    before = samples(await page_of(stream_node))
    async with StreamClient("127.0.0.1", stream_node.stream_port) as client:
        await client.declare_publisher(stream, "p")
        for number in (1, 2):
            client.publish(number, b"x")
        confirmed = 0
        while confirmed < 2:
            confirmed += len(await client.confirmed(30))
        await client.subscribe(stream, FIRST)
        read = 0
        while read < 6:
            read += len((await client.chunk())[1])
        during = await page_of(stream_node)
        assert value(during, "rabbitmq_global_publishers", **PROTOCOL) == 1
        assert value(during, "rabbitmq_global_consumers", **PROTOCOL) == 1
        await client.request(codes.DELETE_PUBLISHER, bytes([PUBLISHER]))
    await asyncio.to_thread(
        stream_node.wait_until,
        lambda: value(stream_node.metrics(), "rabbitmq_global_consumers", **PROTOCOL) == 0,
    )
    after = samples(await page_of(stream_node))

    def growth(name, **labels):
        key = f"rabbitmq_global_{name}", tuple(sorted(labels.items()))
        return after[key] - before[key]

    for name in ("received", "received_confirm", "routed", "confirmed"):
        assert growth(f"messages_{name}_total", **PROTOCOL) == 2
    assert growth("messages_delivered_total", **BY_TYPE) == 6
    assert after["rabbitmq_global_publishers", (("protocol", "stream"),)] == 0


async def test_how_far_consumers_are_behind(stream_node, stream):
    async with StreamClient("127.0.0.1", stream_node.stream_port) as client:
        await client.subscribe_without_credit(stream, AT_OFFSET_2)
        place = {"vhost": "/", "queue": stream}
        detailed = await page_of(stream_node, "/metrics/detailed?family=stream_consumer_metrics")
        name = "rabbitmq_detailed_stream_consumer_max_offset_lag"
        assert value(detailed, name, **place) == 2
        per_object = await page_of(stream_node, "/metrics/per-object")
        assert value(per_object, "rabbitmq_stream_consumer_max_offset_lag", **place) == 2
        assert value(await page_of(stream_node), "rabbitmq_stream_consumer_max_offset_lag") == 2


async def test_a_consumer_of_amqp_is_behind(stream_node, stream):
    address = pika.ConnectionParameters("127.0.0.1", stream_node.port, heartbeat=0)
    connection = pika.BlockingConnection(address)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(stream, lambda *delivery: None, arguments={"x-stream-offset": "first"})
    while not value(stream_node.metrics(), "rabbitmq_stream_consumer_max_offset_lag"):
        connection.process_data_events(0.01)
    with suppress(pika.exceptions.AMQPError):
        connection.close()  # pika rejects what it holds, and streams refuse that.


async def test_a_consumer_that_retention_may_overtake(stream_node):
    name = "short"
    limits = {"x-max-length-bytes": 40_000, "x-stream-max-segment-size-bytes": 10_000}
    stream_node.put(f"queues/%2F/{name}", {"durable": True, "arguments": {**STREAM, **limits}})
    payload = {"payload": "x" * 1000, "payload_encoding": "string", "routing_key": name}

    def publish_until(condition):
        while not condition(stream_node.get(f"queues/%2F/{name}")):
            publish = "exchanges/%2F/amq.default/publish"
            stream_node.post(publish, {**payload, "properties": {}})

    await asyncio.to_thread(publish_until, lambda stream: stream.get("next_offset", 0) >= 1)
    near = "rabbitmq_streams_consumers_near_retention"
    async with StreamClient("127.0.0.1", stream_node.stream_port) as client:
        await client.subscribe_without_credit(name, FIRST)
        assert value(await page_of(stream_node), near) == 0
        await asyncio.to_thread(publish_until, lambda stream: stream.get("first_offset", 0) > 0)
        page = await page_of(stream_node)
        assert value(page, near) == 1
        assert value(page, "rabbitmq_streams_bytes") > 20_000
        lags = (await asyncio.to_thread(stream_node.get, f"queues/%2F/{name}"))["consumer_lags"]
        assert lags["stream.subid-1"]["lag"] > 0
    stream_node.delete(f"queues/%2F/{name}")


def test_segments_and_members(stream_node, stream):
    page = stream_node.metrics("/metrics/detailed?family=queue_metrics&family=ra_metrics")
    place = {"vhost": "/", "queue": stream}
    assert value(page, "rabbitmq_detailed_stream_segments", **place) == 1
    assert value(page, "rabbitmq_detailed_raft_log_commit_index", **place) >= 4
    totals = stream_node.metrics()
    assert value(totals, "rabbitmq_stream_segments") == 1
    assert value(totals, "rabbitmq_streams_without_leader") == 0
    assert value(totals, "rabbitmq_quorum_queues_without_leader") == 0
