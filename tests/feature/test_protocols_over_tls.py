"""STOMP over TLS and over WebSockets with TLS, with real clients: certificates, logins by them."""

import asyncio
import queue
import ssl

import aiohttp
import pytest
import stomp

from leveret.broker.config import Config, Listener, StompSettings, TcpSettings, TlsSettings
from leveret.broker.config.tls_settings import VERIFY_PEER, TlsListenerOptions
from leveret.broker.config.web_socket_settings import WebStompSettings
from leveret.testing import EmbeddedBroker
from tests.feature.certificate_authority import CertificateAuthority
from tests.patience import PATIENCE_SECONDS

HOST = "127.0.0.1"
ANY = (Listener(HOST, 0),)
CONNECT = "CONNECT\naccept-version:1.2\nlogin:guest\npasscode:guest\nhost:/\n\n\0"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return CertificateAuthority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def client_certificate(authority):
    return authority.issue("guest")


@pytest.fixture(scope="module")
def web_certificate(authority):
    return authority.issue("web", names=[HOST])


@pytest.fixture(scope="module")
def broker(authority, web_certificate):
    """A broker with a certificate for STOMP, and another one for WebSockets."""
    server = authority.issue("server", names=[HOST])
    options = TlsListenerOptions(
        authority.certfile, server.certfile, server.keyfile, verify=VERIFY_PEER
    )
    own = TlsListenerOptions(certfile=web_certificate.certfile, keyfile=web_certificate.keyfile)
    config = Config(
        tcp=TcpSettings(listeners=ANY),
        tls=TlsSettings(options=options, login_from="common_name"),
        stomp=StompSettings(
            listeners=ANY, tls_listeners=ANY, ssl_cert_login=True, implicit_connect=True
        ),
        web_stomp=WebStompSettings(tls_listeners=ANY, tls=own, compresses=True),
    )
    with EmbeddedBroker.in_thread(config=config) as broker:
        yield broker


def port_of(broker, protocol):
    return broker.call(lambda embedded: embedded.broker.listeners.of(protocol)[0].port)


class Heard(stomp.ConnectionListener):
    """Keeps what the client gets."""

    def __init__(self):
        self.bodies = queue.Queue()

    def on_message(self, frame):
        self.bodies.put(frame.body)


@pytest.mark.parametrize("login", [("guest", "guest"), ()])
def test_stomp_over_tls_with_a_login_or_a_certificate(broker, authority, client_certificate, login):
    port = port_of(broker, "stomp/ssl")
    client = stomp.Connection12([(HOST, port)], vhost="/")
    files = {} if login else {
        "cert_file": client_certificate.certfile, "key_file": client_certificate.keyfile,
    }  # fmt: skip
    client.set_ssl([(HOST, port)], ca_certs=str(authority.certfile), **files)
    heard = Heard()
    client.set_listener("", heard)
    client.connect(*login, wait=True)
    client.subscribe("/queue/over-tls", id="0")
    client.send("/queue/over-tls", "hello")
    assert heard.bodies.get(timeout=PATIENCE_SECONDS) == "hello"
    client.disconnect()


async def test_a_client_that_leaves_out_connect(broker):
    reader, writer = await asyncio.open_connection(HOST, port_of(broker, "stomp"))
    writer.write(b"SUBSCRIBE\nid:0\ndestination:/queue/implicit\n\n\0")
    writer.write(b"SEND\ndestination:/queue/implicit\n\nhello\0")
    async with asyncio.timeout(PATIENCE_SECONDS):
        head = await reader.readuntil(b"\n\n")
        assert head.startswith(b"MESSAGE\n")
        assert await reader.readuntil(b"\0") == b"hello\0"
    writer.close()


async def test_a_web_socket_has_its_own_certificate_and_compresses(
    broker, authority, web_certificate
):
    url = f"https://{HOST}:{port_of(broker, 'https/web-stomp')}/ws"
    context = ssl.create_default_context(cafile=authority.certfile)
    body = 1000 * "x"
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        aiohttp.ClientSession() as session,
        session.ws_connect(url, ssl=context, compress=15, protocols=["v12.stomp"]) as client,
    ):
        assert client.compress == 15
        assert client.get_extra_info("ssl_object").getpeercert(True) == web_certificate.der
        await client.send_str(CONNECT)
        assert (await client.receive_str()).startswith("CONNECTED\n")
        await client.send_str("SUBSCRIBE\nid:0\ndestination:/queue/web\n\n\0")
        await client.send_str(f"SEND\ndestination:/queue/web\n\n{body}\0")
        assert body in await client.receive_str()
