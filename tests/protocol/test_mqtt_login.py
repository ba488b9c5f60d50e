"""MQTT: who a client is, and which virtual host and topics it may use."""

import jwt
import pytest

from leveret.broker.config import AuthenticationSettings, OAuth2Settings
from leveret.broker.config.tls_settings import TlsListenerOptions, TlsSettings
from leveret.broker.declarations.values import (
    Permission,
    PutParameter,
    PutPermission,
    PutTopicPermission,
    PutUser,
    PutVhost,
    TopicPermission,
    User,
)
from leveret.broker.policies.parameters import GLOBAL, NO_VHOST
from leveret.broker.protocols.mqtt import codes
from tests.feature.certificate_authority import CertificateAuthority
from tests.protocol.mqtt_peer import MqttNode

CHECKED = {
    "tls": TlsSettings(options=TlsListenerOptions(verify="verify_peer"), login_from="common_name")
}
NAMELESS = {"user": None, "password": None}
OWN_PORT = "5672"
"""The port that every socket of these tests has connected to."""


class TlsSession:
    """A TLS session whose client has sent a certificate, or none."""

    def __init__(self, certificate=None):
        self._der = None if certificate is None else certificate.der

    def getpeercert(self, binary_form):
        assert binary_form
        return self._der

    def cipher(self):
        return "TLS_AES_256_GCM_SHA384", "TLSv1.3", 256

    def version(self):
        return "TLSv1.3"


@pytest.fixture(scope="module")
def meter(tmp_path_factory):
    """The certificate of a client."""
    authority = CertificateAuthority(tmp_path_factory.mktemp("certificates"))
    return authority.issue("meter", names=["meter-7.example", "meter-8.example"])


def mapping(name, **mapped):
    return PutParameter(GLOBAL, NO_VHOST, name, mapped)


def vhosts(node, *names):
    """Virtual hosts that the user guest may use."""
    for name in names:
        node.declare(PutVhost(name), PutPermission(Permission(name, "guest", ".*", ".*", ".*")))


def user(node, name, *permissions):
    """A user without a password, with permissions in the virtual host /."""
    node.declare(PutUser(User(name, (), b"", "")))
    node.declare(PutPermission(Permission("/", name, *permissions or (".*", ".*", ".*"))))


async def vhost_of(node, tls=None, **options):
    client = await node.connect(tls).connected(**options)
    return client.connection.vhost.name


class TestVirtualHost:
    async def test_without_a_certificate(self):
        async with MqttNode(vhost="configured") as node:
            vhosts(node, "configured", "of the port", "named")
            assert await vhost_of(node) == "configured"
            node.declare(PutParameter(GLOBAL, NO_VHOST, "mqtt_port_to_vhost_mapping",
                                      {OWN_PORT: "of the port", "1": "/"}))  # fmt: skip
            assert await vhost_of(node) == "of the port"
            assert await vhost_of(node, user="named:guest") == "named"

    async def test_with_a_certificate(self, meter):
        async with MqttNode(config=CHECKED) as node:
            vhosts(node, "of the certificate", "of the port", "named")
            tls = TlsSession(meter)
            assert await vhost_of(node, tls, user="named:guest") == "named"
            node.declare(PutParameter(GLOBAL, NO_VHOST, "mqtt_port_to_vhost_mapping",
                                      {OWN_PORT: "of the port"}))  # fmt: skip
            assert await vhost_of(node, tls) == "of the port"
            node.declare(mapping("mqtt_default_vhosts", meter="of the certificate", other="/"))
            assert await vhost_of(node, tls) == "of the certificate"
            assert await vhost_of(node, TlsSession()) == "of the port"

    async def test_a_mapping_to_one_that_is_missing_refuses(self):
        async with MqttNode() as node:
            node.declare(PutParameter(GLOBAL, NO_VHOST, "mqtt_port_to_vhost_mapping",
                                      {OWN_PORT: "missing"}))  # fmt: skip
            assert await node.connect().connect(level=5) == (0x86, False)


class TestCertificate:
    async def test_its_name_is_the_user(self, meter):
        async with MqttNode(config=CHECKED, ssl_cert_login=True) as node:
            assert await node.connect(TlsSession(meter)).connect(level=5, **NAMELESS) == (
                0x86, False
            )  # fmt: skip
            user(node, "meter")
            client = await node.connect(TlsSession(meter)).connected(**NAMELESS)
            assert client.connection.user.name == "meter"
            named = await node.connect(TlsSession(meter)).connected()
            assert named.connection.user.name == "guest"

    async def test_a_client_without_one_is_anonymous(self):
        async with MqttNode(config=CHECKED, ssl_cert_login=True) as node:
            client = await node.connect(TlsSession()).connected(**NAMELESS)
            assert client.connection.user.name == "guest"

    async def test_without_the_setting_it_is_no_login(self, meter):
        async with MqttNode(config=CHECKED, allow_anonymous=False) as node:
            user(node, "meter")
            assert await node.connect(TlsSession(meter)).connect(**NAMELESS) == (4, False)

    async def test_it_has_the_client_identifier(self, meter):
        settings = {
            "ssl_cert_client_id_from": "subject_alternative_name", "ssl_cert_login_san_index": 1
        }  # fmt: skip
        async with MqttNode(config=CHECKED, **settings) as node:
            await node.connect(TlsSession(meter)).connected("meter-8.example")
            for other in ("meter-7.example", ""):
                client = node.connect(TlsSession(meter))
                assert await client.connect(other, 5) == (codes.INVALID_CLIENT_ID, False)
                assert await node.connect(TlsSession(meter)).connect(other, 4) == (2, False)
            await node.connect(TlsSession()).connected("any")
            await node.connect().connected("other")

    async def test_its_subject_is_the_client_identifier(self, meter):
        async with MqttNode(config=CHECKED, ssl_cert_client_id_from="distinguished_name") as node:
            await node.connect(TlsSession(meter)).connected("CN=meter,O=Burrow")
            assert await node.connect(TlsSession(meter)).connect("meter") == (2, False)


class TestTopicPermissions:
    async def test_variables_stand_for_those_of_the_client(self):
        async with MqttNode() as node:
            vhosts(node, "plant")
            own = r"^{username}\.{client_id}\.{vhost}\."
            allowed = TopicPermission("plant", "guest", "amq.topic", own, own)
            node.declare(PutTopicPermission(allowed))
            client = await node.connect().connected("seven", level=5, user="plant:guest")
            assert await client.subscribe("guest/seven/plant/x", qos=1) == [1]
            client.publish("guest/seven/plant/x", b"m", qos=1)
            assert len(await client.delivered()) == 1
            client.publish("guest/eight/plant/x", b"m", qos=1)
            await client.packets()
            assert client.socket.is_closed

    async def test_a_filter_that_is_not_allowed(self):
        async with MqttNode() as node:
            allowed = TopicPermission("/", "guest", "amq.topic", ".*", r"^{client_id}\.")
            node.declare(PutTopicPermission(allowed))
            client = await node.connect().connected("seven", level=5)
            assert await client.subscribe("seven/#") == [0]
            assert await client.subscribe("#") == [codes.NOT_AUTHORIZED]
            assert client.socket.is_closed


SECRET = "a secret that is long enough for the algorithm of these tokens.."


async def test_a_token_is_the_password(tmp_path):
    key = tmp_path / "key"
    key.write_text(SECRET)
    config = {
        "authentication": AuthenticationSettings(backends=(("1", "oauth2"),)),
        "oauth2": OAuth2Settings(
            resource_server_id="rabbit", signing_keys=(("one", key),), algorithms=("HS256",)
        ),
    }
    scopes = "rabbit.configure:*/* rabbit.write:*/*/seven.* rabbit.read:*/*/seven.*"
    claims = {"sub": "anna", "aud": "rabbit", "scope": scopes}
    token = jwt.encode(claims, SECRET, algorithm="HS256", headers={"kid": "one"})
    async with MqttNode(config=config) as node:
        assert await node.connect().connect(level=5, user="any", password="no token") == (
            0x86, False
        )  # fmt: skip
        client = await node.connect().connected("c", 5, user="any", password=token)
        assert client.connection.user.name == "anna"
        assert await client.subscribe("seven/+", qos=1) == [1]
        client.publish("seven/x", b"m", qos=1)
        assert len(await client.delivered()) == 1
        client.publish("eight/x", b"m", qos=1)
        await client.packets()
        assert client.socket.is_closed
