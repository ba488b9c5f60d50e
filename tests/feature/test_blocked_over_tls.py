"""A blocked client over TLS that ends is gone at once, as one without TLS is."""

import socket
import ssl
import struct
from types import SimpleNamespace

import pytest
from pamqp import commands

from leveret.broker.config import Config, Listener, TlsListenerOptions, TlsSettings
from leveret.testing import LOOPBACK, EmbeddedBroker
from tests.feature.certificate_authority import CertificateAuthority
from tests.protocol.raw_client import RawClient, connection_count, wait_until

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of socket(7): what is unsent is dropped, and the other side gets a reset."""


@pytest.fixture
def authority(tmp_path):
    return CertificateAuthority(tmp_path)


@pytest.fixture
def broker(authority):
    server = authority.issue("server", names=["localhost", LOOPBACK])
    options = TlsListenerOptions(certfile=server.certfile, keyfile=server.keyfile)
    listeners = (Listener(LOOPBACK, 0),)
    with EmbeddedBroker.in_thread(
        Config(tls=TlsSettings(listeners=listeners, options=options))
    ) as broker:
        yield broker


def opened_over_tls(broker, authority):
    """Return a client without heartbeats, with an open connection and channel 1."""
    port = broker.call(lambda embedded: embedded.broker.listeners.of("amqp/ssl")[0].port)
    client = RawClient(SimpleNamespace(host=LOOPBACK, port=port))
    context = ssl.create_default_context(cafile=authority.certfile)
    client.socket = context.wrap_socket(client.socket, server_hostname=LOOPBACK)
    return client.open(heartbeat=0).open_channel()


@pytest.mark.parametrize("end", ["killed", "reset", "notified"])
def test_a_blocked_client_that_ends_is_gone(broker, authority, end):
    with (
        opened_over_tls(broker, authority) as stays,
        opened_over_tls(broker, authority) as publisher,
    ):
        stays.declare("q")
        broker.block_publishers()
        for client, queue in ((stays, "q"), (publisher, "other")):
            client.publish(1, queue, b"first")
            client.read_method(0, commands.Connection.Blocked)
            client.publish(1, queue, b"is not read")
        if end == "reset":
            publisher.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if end == "notified":
            publisher.socket.setblocking(False)
            with pytest.raises(ssl.SSLWantReadError):
                publisher.socket.unwrap()
        publisher.socket.close()
        wait_until(lambda: connection_count(broker) == 1)
        broker.unblock_publishers()
        stays.read_method(0, commands.Connection.Unblocked)
        assert stays.declare("q").message_count == 2
