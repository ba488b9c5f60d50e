"""Requests over TCP to a server that takes long, or that is none."""

import socket
import threading

import pytest

from leveret.mgmt.ctl import client
from leveret.mgmt.ctl.client import NodeClient
from leveret.mgmt.ctl.errors import CtlError
from tests.patience import PATIENCE_SECONDS

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def serve():
    """Answer a connection by a function, which gets the socket and what came after the request."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads = []

    def serving(answer):
        def run():
            connection, _ = listener.accept()
            with connection:
                read = b""
                while b"\r\n\r\n" not in read:
                    read += connection.recv(4096)
                answer(connection, read.partition(b"\r\n\r\n")[2])

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        port = listener.getsockname()[1]
        return NodeClient(
            data_dir=None, url=f"http://127.0.0.1:{port}", username="", password="",
            timeout=PATIENCE_SECONDS,
        )  # fmt: skip

    yield serving
    for one in threads:
        one.join()
    listener.close()


def test_a_server_that_takes_long_hears_of_its_client(serve, monkeypatch):
    """RabbitMQ closes a connection on which it has got nothing for a minute."""
    monkeypatch.setattr(client, "STAY_SECONDS", 0.001)
    heard = []

    def answer(connection, came):
        while len(came) < 2:
            came += connection.recv(1)
        heard.append(came)
        connection.sendall(ANSWER)

    assert serve(answer).get("queues") == {}
    assert client.NEXT_REQUEST.startswith(heard[0])


def test_a_server_of_another_protocol(serve):
    api = serve(lambda connection, _: connection.sendall(b"AMQP\0\0\x09\x01"))
    with pytest.raises(CtlError, match="does not speak HTTP, or only HTTPS"):
        api.get("queues")


def test_a_host_name_that_is_none():
    api = NodeClient(
        data_dir=None, url=f"http://{'x' * 64}.com", username="", password="", timeout=1
    )
    with pytest.raises(CtlError, match="does not answer"):
        api.get("queues")
