"""Shared parts of the tests of mirrored queues of real nodes."""

from tests.cluster.clients import PERSISTENT, take

HA_ALL = ("set_policy", "ha", "^mirrored", '{"ha-mode": "all"}')


def declared(node, queue="mirrored"):
    """A channel with confirms on which the queue was declared."""
    channel = node.connect().channel()
    channel.confirm_delivery()
    channel.queue_declare(queue, durable=True)
    return channel


def publish(channel, *bodies, queue="mirrored"):
    """Publish messages on a channel with confirms."""
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT, mandatory=True)


def wait_until_mirrored(leader, *others, queue="mirrored"):
    """Wait until nodes have mirrors, which may lack messages."""
    for node in others:
        leader.wait_for_log(f"{log_of(queue)} adding a mirror on node {node.name}")


def wait_until_synchronised(leader, *others, queue="mirrored"):
    """Wait until the mirrors on nodes have all messages."""
    for node in others:
        leader.wait_for_log(f"{log_of(queue)} the mirror on node {node.name} is synchronised")


def log_of(queue="mirrored"):
    """The beginning of log lines about a mirrored queue."""
    return f"mirrored queue '{queue}' in vhost '/':"


def consumed(node, count, queue="mirrored"):
    """Take the first `count` messages; return their bodies and redelivered flags."""
    with node.connect() as connection:
        return take(connection.channel(), queue, count)
