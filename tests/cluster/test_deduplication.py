"""A publisher repeats its messages on another node, when its own is killed."""

import signal

import pika

from tests.cluster.mirrored import HA_ALL, wait_until_synchronised

EXCHANGE = {"x-cache-size": 100, "x-cache-persistence": "disk"}
MESSAGES = 20


def repeat(node, exchange, key):
    """Publish the same messages, with confirms. Returns how many are in the queue."""
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(MESSAGES):
            headers = {"x-deduplication-header": number}
            properties = pika.BasicProperties(delivery_mode=2, headers=headers)
            channel.basic_publish(exchange, key, b"", properties)
        return channel.queue_declare(key, passive=True).method.message_count


def test_a_message_that_is_repeated_after_a_failover_is_refused(running):
    a, b = running("a", "b")
    a.ctl(*HA_ALL)
    with a.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("x", "x-message-deduplication", durable=True, arguments=EXCHANGE)
        for name in ("mirrored by x", "mirrored"):
            arguments = {} if name == "mirrored by x" else {"x-message-deduplication": True}
            channel.queue_declare(name, durable=True, arguments=arguments)
            wait_until_synchronised(a, b, queue=name)
        channel.queue_bind("mirrored by x", "x")
    ways = (("x", "mirrored by x"), ("", "mirrored"))
    assert [repeat(a, *way) for way in ways] == [MESSAGES, MESSAGES]
    a.stop(signal.SIGKILL)
    assert [repeat(b, *way) for way in ways] == [MESSAGES, MESSAGES]
    a.start()
    assert [repeat(a, *way) for way in ways] == [MESSAGES, MESSAGES]
    assert f"x\t{MESSAGES}\n" in b.ctl("list_exchanges", "name", "messages_duplicate")
