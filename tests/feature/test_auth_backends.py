"""A broker with each backend: logins and permissions from a server, a directory and tokens.

The backends themselves are in test_auth_http.py, test_auth_ldap.py and test_auth_oauth2.py.
"""

import time
from contextlib import closing

import jwt
import pika
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from leveret.broker.config import (
    AuthenticationSettings,
    Config,
    HttpSettings,
    LdapSettings,
    OAuth2Settings,
)
from leveret.testing import EmbeddedBroker
from tests.feature.served import served
from tests.feature.slapd import NEEDS_SLAPD
from tests.patience import PATIENCE_SECONDS


def connect(broker, name, password):
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1", broker.port, credentials=pika.PlainCredentials(name, password)
        )
    )


REFUSED = (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AuthenticationError)


class TestHttp:
    @pytest.fixture
    def directory(self):
        """A server that knows anna, and records its requests."""
        asked = []

        async def answer(request):
            fields = dict(request.query) or dict(await request.post())
            asked.append((request.path, fields))
            if request.path == "/user":
                right = fields == {"username": "anna", "password": "secret"}
                return web.Response(text="allow administrator monitoring" if right else "deny")
            if request.path == "/resource":
                return web.Response(text="allow" if fields["name"].startswith("anna.") else "deny")
            if request.path == "/topic":
                return web.Response(text="allow" if fields["routing_key"] == "good" else "deny")
            return web.Response(text="ALLOW" if fields["vhost"] == "/" else "deny")

        application = web.Application()
        application.router.add_route("*", "/{path}", answer)
        with served(application) as url:
            yield url, asked

    @pytest.fixture(params=["get", "post"])
    def broker(self, request, directory):
        url, _ = directory
        paths = {f"{name}_path": f"{url}/{name}"
                 for name in ("user", "vhost", "resource", "topic")}  # fmt: skip
        config = Config(
            authentication=AuthenticationSettings(backends=(("1", "http"), ("2", "internal"))),
            auth_http=HttpSettings(method=request.param, **paths),
        )
        with EmbeddedBroker.in_thread(config) as broker:
            yield broker

    def test_the_server_decides(self, broker, directory):
        _, asked = directory
        with closing(connect(broker, "anna", "secret")) as connection:
            channel = connection.channel()
            channel.queue_declare("anna.queue")
            channel.basic_publish("", "anna.queue", b"refused: amq.default is not anna's")
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="refused for user"):
                channel.queue_declare("anna.queue", passive=True)
            channel = connection.channel()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
                channel.queue_declare("other")
            assert caught.value.reply_text == (
                "ACCESS_REFUSED - configure access to queue 'other' in vhost '/' refused for user "
                "'anna'"
            )
        paths = [path for path, _ in asked]
        assert paths[:2] == ["/user", "/vhost"]
        fields = next(fields for path, fields in asked if path == "/resource")
        assert fields == {"username": "anna", "vhost": "/", "resource": "queue",
                          "name": "anna.queue", "permission": "configure",
                          "tags": "administrator monitoring"}  # fmt: skip

    def test_a_name_of_the_broker_is_asked_about_once(self, broker):
        """A server-named queue keeps its name while the backend is queried for permission."""
        with closing(connect(broker, "anna", "secret")) as connection:
            channel = connection.channel()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="amq.gen-"):
                channel.queue_declare("")

    def test_many_declarations_in_a_row_are_done_in_order(self, broker):
        with closing(connect(broker, "anna", "secret")) as connection:
            channel = connection.channel()
            for number in range(30):
                channel.queue_declare(f"anna.{number}")
                channel.queue_delete(f"anna.{number}")

    def test_a_user_unknown_there_is_looked_up_in_the_next_backend(self, broker):
        with closing(connect(broker, "guest", "guest")) as connection:
            connection.channel().queue_declare("anything")
        with pytest.raises(REFUSED):
            connect(broker, "anna", "wrong")


@NEEDS_SLAPD
class TestLdap:
    @pytest.fixture
    def broker(self, slapd):
        settings = LdapSettings(
            servers=("127.0.0.1",),
            port=slapd.port,
            user_dn_pattern="uid=${username},ou=people,dc=example,dc=com",
            vhost_query='{in_group_nested, "cn=all,ou=groups,dc=example,dc=com"}',
            resource_query=(
                '{for, [{permission, configure, {match, {string, "${name}"}, '
                '{string, "^${username}"}}}, {permission, write, {constant, true}}, '
                '{permission, read, {in_group, "cn=admins,ou=groups,dc=example,dc=com"}}]}'
            ),
            tag_queries=(("administrator", '{in_group, "cn=admins,ou=groups,dc=example,dc=com"}'),),
        )
        config = Config(
            authentication=AuthenticationSettings(backends=(("1", "ldap"),)), ldap=settings
        )
        with EmbeddedBroker.in_thread(config) as broker:
            yield broker

    def test_the_directory_decides(self, broker):
        with closing(connect(broker, "anna", "secret")) as connection:
            channel = connection.channel()
            channel.queue_declare("anna-queue")
            channel.basic_publish("", "anna-queue", b"x")
            assert channel.basic_get("anna-queue", auto_ack=True)[2] == b"x"
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="configure access"):
                channel.queue_declare("queue")


class TestOAuth2:
    @pytest.fixture(scope="class")
    def key(self):
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @pytest.fixture
    def config(self, key, tmp_path):
        path = tmp_path / "key.pem"
        path.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        return Config(
            authentication=AuthenticationSettings(backends=(("1", "oauth2"),)),
            oauth2=OAuth2Settings(
                resource_server_id="rabbit", signing_keys=(("one", path),), default_key="one"
            ),
        )

    def token(self, key, scope, end_s=None):
        end_s = int(time.time()) + 60 if end_s is None else end_s
        content = {"sub": "anna", "aud": "rabbit", "scope": scope, "exp": end_s}
        return jwt.encode(content, key, algorithm="RS256", headers={"kid": "one"})

    def test_scopes_are_permissions(self, config, key):
        scope = "rabbit.configure:%2F/anna.* rabbit.write:*/* rabbit.read:*/anna.* other.read:*/*"
        with EmbeddedBroker.in_thread(config) as broker:
            with closing(connect(broker, "ignored", self.token(key, scope))) as connection:
                channel = connection.channel()
                channel.queue_declare("anna.q")
                channel.basic_publish("", "anna.q", b"x")
                assert channel.basic_get("anna.q", auto_ack=True)[2] == b"x"
                with pytest.raises(
                    pika.exceptions.ChannelClosedByBroker, match="refused for user 'anna'"
                ):
                    channel.queue_declare("q")

    def test_a_token_that_ends_ends_the_connection_unless_it_is_renewed(self, config, key):
        scope = "rabbit.configure:*/* rabbit.write:*/* rabbit.read:*/*"
        with EmbeddedBroker.in_thread(config, virtual_clock=True) as broker:
            now_s = broker.call(lambda it: int(it.broker.services.clock.wall_time_s()))
            with closing(connect(broker, "", self.token(key, scope, now_s + 2))) as renewed:
                doomed = connect(broker, "", self.token(key, scope, now_s + 2))
                renewed.update_secret(self.token(key, scope, now_s + 60), "it ends")
                broker.advance(2)
                with pytest.raises(
                    pika.exceptions.ConnectionClosedByBroker, match="credential expired"
                ):
                    doomed.process_data_events(PATIENCE_SECONDS)
                renewed.channel().queue_declare("q")
