"""Actions of clients of real nodes, with pika. All waits end, as tests/patience.py says."""

import time

import pika
from pika import exceptions

from tests.patience import PATIENCE_SECONDS

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def publish(node, queue, *bodies, properties=PERSISTENT):
    """Publish messages to a queue through a node, and have them confirmed."""
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", queue, body, properties, mandatory=True)


def bodies(node, queue):
    """Take the messages that a queue has now; return their bodies.

    Messages published meanwhile stay: a queue that is filled as fast as this takes from it is
    never empty.
    """
    with node.connect() as connection:
        channel = connection.channel()
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return []
        answers = [channel.basic_get(queue, auto_ack=True) for _ in range(method.message_count)]
        return [body, *(body for method, _, body in answers if method is not None)]


def has_queue(node, queue):
    """Whether a node knows a queue."""
    with node.connect() as connection:
        try:
            connection.channel().queue_declare(queue, passive=True)
        except exceptions.ChannelClosedByBroker:
            return False
        return True


def take(channel, queue, count):
    """Take and acknowledge `count` messages; return their bodies and redelivered flags."""
    found = []
    for method, _, body in channel.consume(queue, inactivity_timeout=PATIENCE_SECONDS):
        assert method is not None, f"{queue} has no more messages than {found}"
        channel.basic_ack(method.delivery_tag)
        found.append((body, method.redelivered))
        if len(found) == count:
            channel.cancel()
            return found
    raise AssertionError(f"the consumer of {queue} was cancelled after {found}")


def serve_until(connection, condition, what):
    """Let a connection receive its frames until a condition is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited until {what}"
        connection.process_data_events(time_limit=0.05)
