"""Steps of tests of the members of quorum queues on real nodes."""

from tests.cluster.clients import take

QUORUM = {"x-queue-type": "quorum"}


def declare(node, queue, *bodies, **arguments):
    """A quorum queue with messages."""
    with node.connect() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True, arguments={**QUORUM, **arguments})
        for body in bodies:
            channel.basic_publish("", queue, body, mandatory=True)


def shown(node, queue):
    """What a node shows of a queue: its leader, and its members in order."""
    rows = node.ctl_json("list_queues", "name", "leader", "members")
    (row,) = [one for one in rows if one["name"] == queue]
    return row["leader"], sorted(row["members"])


def wait_until_shown(node, queue, leader, *members):
    """Wait until a node shows a queue as led by one node, with members on these nodes.

    A queue that has lost its leader is shown with the next one when that has declared so.
    """
    wanted = leader.name, sorted(one.name for one in members)
    node.wait_until(
        lambda: shown(node, queue) == wanted, f"{queue} is led and has members: {wanted}"
    )


def bodies(node, queue, count):
    """Take messages by a client of a node."""
    with node.connect() as connection:
        return [body for body, _ in take(connection.channel(), queue, count)]
