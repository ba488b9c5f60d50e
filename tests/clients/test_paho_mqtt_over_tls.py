"""paho-mqtt over TLS, and over WebSockets with TLS, with a client certificate."""

import asyncio
import queue

import pytest

pytest.importorskip("paho.mqtt", reason="the extra [test] is not fully installed")

import paho.mqtt.client as paho

from leveret.broker.config import (
    Config,
    Listener,
    MqttSettings,
    TcpSettings,
    WebSocketSettings,
)
from leveret.broker.config.tls_settings import VERIFY_PEER, TlsListenerOptions, TlsSettings
from leveret.broker.declarations.values import Permission, PutPermission, PutUser, User
from leveret.broker.node.broker import Broker
from leveret.broker.plugins.own_plugins import MQTT, WEB_MQTT
from tests.feature.certificate_authority import CertificateAuthority
from tests.patience import PATIENCE_SECONDS

HOST = "127.0.0.1"
ANY_PORT = (Listener(HOST, 0),)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return CertificateAuthority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
async def broker(authority):
    """A node that knows the user `meter`, who has no password."""
    server = authority.issue("server", names=[HOST])
    options = TlsListenerOptions(
        cacertfile=authority.certfile, certfile=server.certfile, keyfile=server.keyfile,
        verify=VERIFY_PEER,
    )  # fmt: skip
    config = Config(
        tcp=TcpSettings(listeners=()),
        tls=TlsSettings(options=options, login_from="common_name"),
        mqtt=MqttSettings(tls_listeners=ANY_PORT, ssl_cert_login=True),
        web_mqtt=WebSocketSettings(tls_listeners=ANY_PORT),
        plugins=(MQTT, WEB_MQTT),
    )
    broker = Broker(config)
    await broker.start()
    for declaration in (
        PutUser(User("meter", (), b"", "")),
        PutPermission(Permission("/", "meter", ".*", ".*", ".*")),
    ):
        broker.services.declarations.submit(declaration).result()
    yield broker
    await broker.stop()


def talk(port, authority, transport):
    """Publish to itself, with no name but that of the certificate."""
    received, subscribed = queue.Queue(), queue.Queue()
    meter = authority.issue("meter")
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "paho", transport=transport)
    if transport == "websockets":
        client.ws_set_options(path="/ws")
    client.tls_set(str(authority.certfile), str(meter.certfile), str(meter.keyfile))
    client.on_message = lambda _client, _data, message: received.put(message)
    client.on_subscribe = lambda *_: subscribed.put(True)
    client.connect(HOST, port)
    client.loop_start()
    try:
        client.subscribe("a/#", qos=1)
        subscribed.get(timeout=PATIENCE_SECONDS)
        client.publish("a/b", "over TLS", qos=1)
        return received.get(timeout=PATIENCE_SECONDS).payload
    finally:
        client.disconnect()
        client.loop_stop()


@pytest.mark.parametrize(
    ("transport", "protocol"), [("tcp", "mqtt/ssl"), ("websockets", "https/web-mqtt")]
)
async def test_a_client_with_a_certificate(broker, authority, transport, protocol):
    (listener,) = broker.listeners.of(protocol)
    connected = asyncio.to_thread(talk, listener.port, authority, transport)
    assert await connected == b"over TLS"
