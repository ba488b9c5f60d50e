"""Logins and permissions from a real HTTP server, a real directory and tokens."""

import base64
import hashlib
import hmac
import json
import time
from contextlib import closing
from dataclasses import replace

import jwt
import pika
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from leveret.broker.auth.backends.chain import BackendError
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

    def test_who_is_not_known_there_is_looked_for_in_the_next_backend(self, broker):
        with closing(connect(broker, "guest", "guest")) as connection:
            connection.channel().queue_declare("anything")
        with pytest.raises(REFUSED):
            connect(broker, "anna", "wrong")


def test_a_server_that_is_down_locks_no_other_user_out():
    config = Config(
        authentication=AuthenticationSettings(backends=(("1", "http"), ("2", "internal"))),
        auth_http=HttpSettings(user_path="http://127.0.0.1:1/user"),
    )
    with EmbeddedBroker.in_thread(config) as broker:
        with closing(connect(broker, "guest", "guest")) as connection:
            connection.channel().queue_declare("q")
        with pytest.raises(REFUSED):
            connect(broker, "anna", "secret")


def test_a_backend_that_does_not_exist_stops_the_start():
    with pytest.raises(BackendError, match="there is no backend 'nis'"):
        settings = AuthenticationSettings(backends=(("1", "nis"),))
        with EmbeddedBroker.in_thread(Config(authentication=settings)):
            pass


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

    def test_who_is_in_no_group_may_not_open_the_vhost(self, broker):
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
            connect(broker, "bert", "secret")

    @pytest.mark.parametrize(
        ("name", "password"),
        [("anna", "wrong"), ("nobody", "secret"), ("anna", ""), ("anna,ou=people", "secret"),
         ("*", "secret")],
    )  # fmt: skip
    def test_wrong_credentials(self, broker, name, password):
        with pytest.raises(REFUSED):
            connect(broker, name, password)


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

    def token(self, key, scope, seconds=60, **claims):
        content = {"sub": "anna", "aud": "rabbit", "scope": scope,
                   "exp": int(time.time()) + seconds, **claims}  # fmt: skip
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

    def test_topics(self, config, key):
        scope = "rabbit.configure:*/* rabbit.write:*/*/good.* rabbit.read:*/*"
        with EmbeddedBroker.in_thread(config) as broker:
            with closing(connect(broker, "", self.token(key, scope))) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.basic_publish("amq.topic", "good.one", b"x")
                with pytest.raises(
                    pika.exceptions.ChannelClosedByBroker, match="write access to topic 'bad'"
                ):
                    channel.basic_publish("amq.topic", "bad", b"x")

    def test_bad_tokens(self, config, key):
        scope = "rabbit.configure:*/* rabbit.write:*/* rabbit.read:*/*"
        other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = config.oauth2.signing_keys[0][1].read_bytes()
        header = {"kid": "one"}
        content = {"sub": "anna", "aud": "rabbit", "scope": scope}
        bad = [
            self.token(key, scope, seconds=-10),
            self.token(other, scope),
            self.token(key, scope, aud="somebody else"),
            jwt.encode(content, "", algorithm="none", headers=header),
            _signed_with_public_key(content, public),
            "no token",
            "",
        ]
        with EmbeddedBroker.in_thread(config) as broker:
            for token in bad:
                with pytest.raises(REFUSED):
                    connect(broker, "anna", token)

    def test_a_token_that_ends_ends_the_connection_unless_it_is_renewed(self, config, key):
        scope = "rabbit.configure:*/* rabbit.write:*/* rabbit.read:*/*"
        with EmbeddedBroker.in_thread(config) as broker:
            with closing(connect(broker, "", self.token(key, scope, seconds=2))) as renewed:
                doomed = connect(broker, "", self.token(key, scope, seconds=2))
                renewed.update_secret(self.token(key, scope), "it ends")
                with pytest.raises(
                    pika.exceptions.ConnectionClosedByBroker, match="credential expired"
                ):
                    doomed.process_data_events(PATIENCE_SECONDS)
                renewed.channel().queue_declare("q")

    def test_keys_come_from_the_issuer(self, config, key):
        published = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        published.update(kid="two", use="sig")

        async def keys(_request):
            return web.json_response({"keys": [published]})

        application = web.Application()
        application.router.add_get("/keys", keys)
        with served(application) as url:
            settings = OAuth2Settings(resource_server_id="rabbit", jwks_url=f"{url}/keys")
            changed = replace(config, oauth2=settings)
            content = {"sub": "anna", "aud": "rabbit", "scope": "rabbit.read:*/*"}
            token = jwt.encode(content, key, algorithm="RS256", headers={"kid": "two"})
            with EmbeddedBroker.in_thread(changed) as broker:
                connect(broker, "", token).close()
                unknown = jwt.encode(content, key, algorithm="RS256", headers={"kid": "three"})
                with pytest.raises(REFUSED):
                    connect(broker, "", unknown)


def _signed_with_public_key(content, public):
    """A known attack: the public key used as the secret of HS256."""

    def encoded(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    head = encoded(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "one"}).encode())
    signed = head + b"." + encoded(json.dumps(content).encode())
    signature = hmac.new(public, signed, hashlib.sha256).digest()
    return (signed + b"." + encoded(signature)).decode()
