"""MQTT, STOMP and WebSockets: the effects of settings that tests of their features leave alone."""

import pytest

from leveret.broker.config import (
    Config,
    ConfigError,
    Listener,
    MqttSettings,
    StompSettings,
    WebSocketSettings,
)
from leveret.broker.config.web_socket_settings import WebStompSettings
from leveret.broker.declarations.values import Permission, PutPermission, PutVhost
from leveret.broker.protocols.mqtt import codes
from leveret.broker.protocols.mqtt.properties import (
    SESSION_EXPIRY_INTERVAL,
    TOPIC_ALIAS,
)
from leveret.broker.protocols.websockets.frames import CLOSE
from leveret.broker.protocols.websockets.web_protocols import web_mqtt_protocol, web_stomp_protocol
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.services.client_addresses import ClientAddress, own_address
from tests.protocol.mqtt_peer import MqttNode
from tests.protocol.stomp_peer import StompNode, frame
from tests.protocol.web_socket_peer import WebSocketPeer, request
from tests.rabbitmq_conf import load

ANONYMOUS = {"user": None, "password": None}
ANY = (Listener("127.0.0.1", 1883),)
OTHER_VHOST = PutVhost("other"), PutPermission(Permission("other", "guest", ".*", ".*", ".*"))


@pytest.fixture
def clock():
    return VirtualClock()


class TestMqtt:
    async def test_the_login_timeout(self, clock):
        async with MqttNode(clock, login_timeout_ms=3_000) as node:
            client = node.connect()
            clock.advance(2)
            assert not client.socket.is_closed
            clock.advance(1)
            assert client.socket.is_closed
            client.lose()

    async def test_the_default_user_and_its_password(self):
        async with MqttNode(default_pass="wrong") as node:
            assert await node.connect().connect(**ANONYMOUS) == (4, False)
        async with MqttNode(default_user="nobody") as node:
            assert await node.connect().connect(**ANONYMOUS) == (4, False)
        async with MqttNode() as node:
            client = await node.connect().connected(**ANONYMOUS)
            assert client.connection.user.name == "guest"

    async def test_the_exchange(self):
        async with MqttNode(exchange="amq.fanout") as node:
            client = await node.connect().connected()
            await client.subscribe("bound")
            client.publish("anything", b"by a fanout exchange")
            assert [one.payload for one in await client.delivered()] == [b"by a fanout exchange"]

    async def test_the_topic_alias_maximum(self):
        async with MqttNode(topic_alias_maximum=2) as node:
            client = node.connect()
            await client.connect(level=5)
            client.publish("t", properties={TOPIC_ALIAS: 2})
            await client.packets()
            client.publish("t", properties={TOPIC_ALIAS: 3})
            assert await client.closed_with() == codes.TOPIC_ALIAS_INVALID

    @pytest.mark.parametrize(("longest_s", "told_s"), [(60, 60), (None, 3600)])
    async def test_the_longest_session_expiry_interval(self, longest_s, told_s):
        async with MqttNode(max_session_expiry_s=longest_s) as node:
            client = node.connect()
            client.level = 5
            asked = {SESSION_EXPIRY_INTERVAL: 3600}
            await client.connect(level=5, properties=asked)
            await client.subscribe("t", qos=1)
            queue = node.queue("mqtt-subscription-clientqos1")
            assert queue.options.expires_ms == told_s * 1000

    def test_the_address_that_is_advertised(self):
        advertised = MqttSettings(
            advertised_host="one", advertised_port=1, advertised_tls_host="two",
            advertised_tls_port=2,
        )  # fmt: skip
        assert own_address(advertised, "a@here", ANY, ()) == ClientAddress("one", 1, "two", 2)
        assert own_address(MqttSettings(), "a@here", ANY, ()) == ClientAddress(
            "here", 1883, "here", 0
        )


class TestStomp:
    async def test_the_login_timeout(self, clock):
        async with StompNode(clock, stomp=StompSettings(login_timeout_ms=3_000)) as node:
            client = node.connect()
            clock.advance(2)
            assert not client.is_closed
            clock.advance(1)
            assert client.is_closed

    async def test_the_default_user_with_password_and_vhost(self):
        settings = StompSettings(default_user="nobody", default_pass="x")
        async with StompNode(stomp=settings) as node:
            assert await node.connect().call("CONNECT") == []
        async with StompNode(stomp=StompSettings(default_vhost="other")) as node:
            for declaration in OTHER_VHOST:
                node.broker.services.declarations.submit(declaration).result()
            client = node.connect()
            await client.call("CONNECT")
            assert client.connection.vhost.name == "other"

    async def test_the_exchange_of_topics(self):
        async with StompNode(stomp=StompSettings(default_topic_exchange="amq.fanout")) as node:
            client = await node.client()
            await client.subscribe("/topic/bound")
            (got,) = await client.call("SEND", "m", destination="/topic/anything")
            assert got.body == "m"

    async def test_a_nack_requeues_unless_the_setting_says_otherwise(self):
        for requeues in (True, False):
            settings = StompSettings(default_nack_requeue=requeues)
            async with StompNode(stomp=settings) as node:
                client = await node.client()
                await client.subscribe("/queue/q", ack="client-individual", prefetch_count=1)
                (got,) = await client.call("SEND", "m", destination="/queue/q")
                again = await client.call("NACK", id=got.headers["ack"])
                assert [one.headers["redelivered"] for one in again] == ["true"] * requeues

    async def test_server_and_trailing_line_feed_can_be_left_out(self):
        async with StompNode() as node:
            client = node.connect()
            client.send("CONNECT")
            answer = await client.written()
            assert b"\nserver:RabbitMQ/" in answer
            assert answer.endswith(b"\0\n")
        async with StompNode(stomp=StompSettings(hide_server_info=True, trailing_lf=False)) as node:
            client = node.connect()
            client.send("CONNECT")
            answer = await client.written()
            assert b"server:" not in answer
            assert answer.endswith(b"\0")


class TestWebSockets:
    def peer(self, node):
        served = web_mqtt_protocol(node.broker.services, node.broker.connections)
        return WebSocketPeer(served)

    async def test_the_path(self):
        async with StompNode(web_mqtt=WebSocketSettings(path="/mqtt")) as node:
            client = self.peer(node)
            client.web_socket.data_received(request("/mqtt", subprotocol="mqtt"))
            assert (await client.written()).startswith(b"HTTP/1.1 101 ")
            client = self.peer(node)
            client.web_socket.data_received(request("/ws", subprotocol="mqtt"))
            assert (await client.written()).startswith(b"HTTP/1.1 404 ")

    async def test_the_largest_frame(self):
        async with StompNode(web_mqtt=WebSocketSettings(frame_bytes_max=100)) as node:
            client = await self.peer(node).open("mqtt")
            client.send(bytes(101))
            (close,) = await client.messages()
            assert (close.opcode, close.payload[:2]) == (CLOSE, (1009).to_bytes(2, "big"))

    @pytest.mark.parametrize(("idle_timeout_ms", "is_closed"), [(5_000, True), (None, False)])
    async def test_the_idle_timeout(self, clock, idle_timeout_ms, is_closed):
        settings = WebStompSettings(idle_timeout_ms=idle_timeout_ms)
        async with StompNode(clock, web_stomp=settings) as node:
            served = web_stomp_protocol(node.broker.services, node.broker.connections)
            client = await WebSocketPeer(served).open()
            client.send(frame("CONNECT"))
            await client.messages()
            clock.advance(100)
            assert client.socket.is_closed == is_closed

    def test_ports_and_addresses_in_place_of_listeners(self, tmp_path):
        config = load(
            "web_mqtt.tcp.port = 1\nweb_mqtt.tcp.ip = ::1\n"
            "web_stomp.ssl.port = 2\nweb_stomp.ssl.ip = 127.0.0.1\n",
            directory=tmp_path,
        )
        assert config.web_mqtt.listeners == (Listener("::1", 1),)
        assert config.web_stomp.tls_listeners == (Listener("127.0.0.1", 2),)

    @pytest.mark.parametrize("name", ["use_http_auth = true", "ws_frame = text"])
    def test_settings_of_stomp_only(self, tmp_path, name):
        load(f"web_stomp.{name}", directory=tmp_path)
        with pytest.raises(ConfigError, match=f"web_mqtt.{name.partition(' ')[0]}"):
            load(f"web_mqtt.{name}", directory=tmp_path)


def test_sections_have_their_defaults():
    assert Config().web_mqtt == WebSocketSettings()
