"""As many clients as there are file descriptors, which never log in, stop no other client."""

import resource
import socket

import pika

from tests.crash.killed_node import Node
from tests.patience import PATIENCE_SECONDS

DESCRIPTORS = 120
IDLE_CLIENTS = 300
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def refused(node):
    """Connect and say nothing. Returns whether the node closed the socket."""
    client = socket.create_connection(("127.0.0.1", node.port))
    client.settimeout(PATIENCE_SECONDS)
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
    finally:
        client.close()


def connected(node):
    """A connection, as soon as one is let in, and logs in before the handshake is given up."""
    while True:
        try:
            return node.connect()
        except pika.exceptions.AMQPError:
            continue


def test_clients_that_never_log_in_leave_the_store_its_descriptors(tmp_path):
    node = Node(tmp_path / "data", LEVERET_HANDSHAKE_TIMEOUT="2000")
    assert node.start()
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    connection = connected(node)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("lazy", durable=True, arguments={"x-queue-mode": "lazy"})
    for number in range(200):
        channel.basic_publish("", "lazy", b"%d" % number + bytes(1000), PERSISTENT)
    idle = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(IDLE_CLIENTS)]
    assert refused(node)
    for number in range(200, 400):
        channel.basic_publish("", "lazy", b"%d" % number + bytes(1000), PERSISTENT)
    for number in range(400):
        _, _, body = channel.basic_get("lazy", auto_ack=True)
        assert body == b"%d" % number + bytes(1000)
    assert "are refused: sockets may take 60 of the 120 file descriptors" in node.text
    assert "Too many open files" not in node.text
    # Clients that have not logged in are disconnected, and then others are let in.
    connected(node).close()
    for client in idle:
        client.close()
    connection.close()
    node.kill()
