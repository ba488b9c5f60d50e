"""The storage tiers of a queue in management, before and after a restart."""

import pika

MESSAGES = 2000
NEARLY_ALL = 1800
"""The newest messages stay in memory until more arrive."""
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def test_a_lazy_queue_is_on_disk_after_a_restart_too(own_node):
    parameters = pika.ConnectionParameters("127.0.0.1", own_node.port)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("lazy", durable=True, arguments={"x-queue-mode": "lazy"})
    for _ in range(MESSAGES):
        channel.basic_publish("", "lazy", bytes(1000), PERSISTENT)
    connection.close()
    own_node.wait_until(lambda: on_disk_only(own_node) > NEARLY_ALL, "it is paged out")
    own_node.stop()
    own_node.start()
    own_node.wait_until(lambda: on_disk_only(own_node) > NEARLY_ALL, "it is paged out again")


def on_disk_only(node):
    return node.get("queues/%2F/lazy")["tiers"]["delta"]["messages"]
