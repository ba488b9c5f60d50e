"""stomp.py: each version of STOMP, with acknowledgements, receipts and transactions."""

import queue

import pytest

from tests.clients.stomp_node import HOST, serve_stomp
from tests.patience import PATIENCE_SECONDS

stomp = pytest.importorskip("stomp")


@pytest.fixture(scope="module")
def address():
    yield from serve_stomp()


class Listener(stomp.ConnectionListener):
    """Keeps what the client gets."""

    def __init__(self):
        self.messages, self.receipts, self.errors = queue.Queue(), queue.Queue(), []

    def on_message(self, frame):
        self.messages.put(frame)

    def on_receipt(self, frame):
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame):
        self.errors.append(frame.body)

    def next(self):
        return self.messages.get(timeout=PATIENCE_SECONDS)


@pytest.fixture(params=["1.0", "1.1", "1.2"])
def client(request, address):
    """A connection, its listener and the version."""
    kinds = {
        "1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12,
    }  # fmt: skip
    options = {} if request.param == "1.0" else {"vhost": "/", "heartbeats": (5000, 5000)}
    connection = kinds[request.param]([(HOST, address.port)], **options)
    listener = Listener()
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    yield connection, listener, request.param
    connection.disconnect()
    assert listener.errors == []


def ack(connection, version, message):
    headers = message.headers
    if version == "1.2":
        connection.ack(headers["ack"])
    elif version == "1.1":
        connection.ack(headers["message-id"], headers["subscription"])
    else:
        connection.ack(headers["message-id"])


def test_messages_are_acknowledged_and_receipted(client):
    connection, listener, version = client
    destination = f"/queue/stomp-py-{version}"
    connection.subscribe(destination, id="1", ack="client")
    connection.send(destination, "héllo", "text/plain", receipt="r", headers={"x-own": "a:b"})
    message = listener.next()
    assert (message.body, message.headers["x-own"]) == ("héllo", "a:b")
    assert listener.receipts.get(timeout=PATIENCE_SECONDS) == "r"
    ack(connection, version, message)
    connection.send(destination, "next")
    again = listener.next()
    assert (again.body, again.headers["redelivered"]) == ("next", "false")
    ack(connection, version, again)


def test_a_transaction(client):
    connection, listener, version = client
    destination = f"/queue/stomp-py-tx-{version}"
    connection.subscribe(destination, id="1", ack="auto")
    aborted, committed = connection.begin(), connection.begin()
    connection.send(destination, "aborted", transaction=aborted)
    connection.send(destination, "committed", transaction=committed)
    connection.abort(aborted)
    connection.commit(committed)
    connection.send(destination, "last")
    assert [listener.next().body, listener.next().body] == ["committed", "last"]
