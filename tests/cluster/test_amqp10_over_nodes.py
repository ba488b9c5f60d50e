"""Clients of AMQP 1.0 on a node that is not the queue's: its leader is killed under them."""

import signal

from leveret.broker.protocols.amqp10.performatives import Accepted
from tests.cluster.clustered_nodes import ClusteredNode, form
from tests.protocol.amqp10_socket import Amqp10Socket

QUORUM = {"x-queue-type": "quorum"}


class Amqp10ClusteredNode(ClusteredNode):
    """A node that serves AMQP 1.0."""

    def __init__(self, directory, name):
        super().__init__(directory, name, environment={"LEVERET_COMPAT": "4.0"})


def test_links_go_on_when_the_leader_of_their_queue_is_killed(tmp_path):
    nodes = form(tmp_path, "a", "b", "c", kind=Amqp10ClusteredNode)
    leader, other, _ = nodes
    with leader.connect() as connection:
        connection.channel().queue_declare("orders", durable=True, arguments=QUORUM)
    client = Amqp10Socket(other.port)
    client.publisher("/queues/orders")
    client.consumer("/queues/orders", 1, credit=10)
    client.publish("before")
    assert client.outcome() == (0, 0, Accepted())
    delivery_id, message = client.receive()
    assert message.data == b"before"
    leader.stop(signal.SIGKILL)
    client.publish("after")
    assert client.outcome() == (1, 1, Accepted())
    delivery_id, message = client.receive()
    while message.data != b"after":
        delivery_id, message = client.receive()
    client.accept(delivery_id)
    client.close()
    for node in nodes:
        node.stop()
