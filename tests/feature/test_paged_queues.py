"""All features of queues with nearly all messages on disk only.

The node may keep almost nothing in memory, so it pages at once. All tests would also pass on a node
with enough memory.
"""

import time

import pika
import pytest

from tests.crash.killed_node import Node
from tests.patience import PATIENCE_SECONDS

PERSISTENT = pika.BasicProperties(delivery_mode=2)
FILLING = bytes(3000)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(
        tmp_path_factory.mktemp("node") / "data",
        LEVERET_VM_MEMORY_HIGH_WATERMARK_PAGING_RATIO="0.0001",
        LEVERET_MSG_LOG_FILE_SIZE_LIMIT="1000000",
    )
    node.start()
    yield node
    node.kill()


@pytest.fixture
def channel(node):
    connection = node.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    connection.close()


@pytest.fixture
def queue(request, channel):
    """Declares a durable queue of the test's name with these arguments."""

    def declare(**arguments):
        name = request.node.name
        table = {key.replace("_", "-"): value for key, value in arguments.items()}
        channel.queue_declare(name, durable=True, arguments=table)
        return name

    yield declare
    channel.queue_delete(request.node.name)


def publish(channel, queue, numbers, properties=PERSISTENT):
    for number in numbers:
        channel.basic_publish("", queue, b"%d " % number + FILLING, properties)


def take(channel, queue, count, auto_ack=True):
    """Return the numbers of some messages, and their redelivered flags."""
    got = []
    for method, _, body in channel.consume(
        queue, auto_ack=auto_ack, inactivity_timeout=PATIENCE_SECONDS
    ):
        assert body is not None, f"only {len(got)} came"
        got.append((int(body.split()[0]), method.redelivered))
        if len(got) == count:
            break
    if auto_ack:
        channel.cancel()
    return got


def numbers(got):
    return [number for number, _ in got]


def count(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def until(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_messages_come_in_order(channel, queue):
    name = queue()
    publish(channel, name, range(400))
    assert numbers(take(channel, name, 400)) == list(range(400))


def test_length_limits(channel, queue):
    name = queue(x_max_length=100)
    publish(channel, name, range(300))
    # A message that has to be read from the disk first is dropped a moment later.
    until(lambda: count(channel, name) == 100)
    assert numbers(take(channel, name, 100)) == list(range(200, 300))


def test_priorities(channel, queue):
    name = queue(x_max_priority=2)
    for priority in (0, 1, 2):
        properties = pika.BasicProperties(delivery_mode=2, priority=priority)
        publish(channel, name, range(priority * 100, priority * 100 + 100), properties)
    expected = [*range(200, 300), *range(100, 200), *range(100)]
    assert numbers(take(channel, name, 300)) == expected


def test_requeued_messages_go_back_to_their_places(channel, queue):
    name = queue()
    publish(channel, name, range(200))
    channel.basic_qos(prefetch_count=100)
    first = take(channel, name, 100, auto_ack=False)
    assert numbers(first) == list(range(100))
    publish(channel, name, range(200, 300))
    channel.cancel()
    channel.basic_nack(delivery_tag=0, multiple=True, requeue=True)
    again = take(channel, name, 300)
    assert numbers(again) == list(range(300))
    assert [number for number, redelivered in again if redelivered] == list(range(100))


def test_rejected_and_expired_messages_are_dead_lettered(channel, queue):
    channel.queue_declare("dead", durable=True)
    rejecting = queue(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    publish(channel, rejecting, range(50))
    for _ in range(50):
        method, _, _ = channel.basic_get(rejecting)
        channel.basic_reject(method.delivery_tag, requeue=False)
    until(lambda: count(channel, "dead") == 50)
    expires = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("expires", durable=True, arguments={**expires, "x-message-ttl": 100})
    publish(channel, "expires", range(50, 200))
    until(lambda: count(channel, "dead") == 200)
    assert count(channel, "expires") == 0
    channel.queue_delete("expires")
    assert numbers(take(channel, "dead", 200)) == list(range(200))
    channel.queue_delete("dead")


def test_a_purged_queue_is_empty_and_goes_on(channel, queue):
    name = queue()
    publish(channel, name, range(200))
    assert channel.queue_purge(name).method.message_count == 200
    publish(channel, name, range(5))
    assert numbers(take(channel, name, 5)) == list(range(5))


def test_a_transient_queue_pages_too(channel):
    name = channel.queue_declare("", exclusive=True).method.queue
    publish(channel, name, range(400), pika.BasicProperties())
    assert numbers(take(channel, name, 400)) == list(range(400))


def test_large_bodies_of_a_fanout(channel):
    channel.exchange_declare("large", "fanout")
    for name in ("large-1", "large-2"):
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "large")
    for number in range(40):
        channel.basic_publish("large", "", b"%d " % number + bytes(50_000), PERSISTENT)
    for name in ("large-1", "large-2"):
        assert numbers(take(channel, name, 40)) == list(range(40))
        channel.queue_delete(name)


def test_a_transaction_is_on_disk_when_it_is_answered(node):
    connection = node.connect()
    channel = connection.channel()
    for name in ("tx-1", "tx-2"):
        channel.queue_declare(name, durable=True)
    channel.tx_select()
    for number in range(20):
        channel.basic_publish("", f"tx-{number % 2 + 1}", b"%d" % number, PERSISTENT)
    channel.tx_commit()
    node.kill()
    node.start()
    connection = node.connect()
    channel = connection.channel()
    assert numbers(take(channel, "tx-1", 10)) == list(range(0, 20, 2))
    assert numbers(take(channel, "tx-2", 10)) == list(range(1, 20, 2))
    channel.queue_delete("tx-1")
    channel.queue_delete("tx-2")
    connection.close()


def test_everything_is_there_after_a_restart(node):
    connection = node.connect()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("kept", durable=True, arguments={"x-message-ttl": 600_000})
    publish(channel, "kept", range(300))
    for _ in range(20):
        # One by one: a consumer would receive more than it asks for, and those would be lost.
        channel.basic_get("kept", auto_ack=True)
    node.kill()
    node.start()
    connection = node.connect()
    channel = connection.channel()
    left = count(channel, "kept")
    assert 280 <= left <= 300
    assert numbers(take(channel, "kept", left)) == list(range(300 - left, 300))
    channel.queue_delete("kept")
    connection.close()
