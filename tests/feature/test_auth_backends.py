"""Logins and permissions from an HTTP server, a directory and tokens, with real ones of each."""

import base64
import hashlib
import hmac
import json
import shutil
import socket
import subprocess
import time
from contextlib import closing, contextmanager
from dataclasses import replace

import jwt
import pika
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from broker.auth.backends.chain import BackendError
from broker.config import Config
from broker.testing import EmbeddedBroker
from tests.feature.served import served

WAIT_SECONDS = 10


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
        """A server that knows anna, and notes what it is asked."""
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
        paths = {f"auth_http_{name}_path": f"{url}/{name}"
                 for name in ("user", "vhost", "resource", "topic")}  # fmt: skip
        config = replace(
            Config(), auth_backends=(("1", "http"), ("2", "internal")),
            auth_http_method=request.param, **paths,
        )  # fmt: skip
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
        """A queue that the broker names keeps its name while its permission is asked for."""
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


def test_a_server_that_is_down_locks_nobody_else_out():
    config = replace(Config(), auth_backends=(("1", "http"), ("2", "internal")),
                     auth_http_user_path="http://127.0.0.1:1/user")  # fmt: skip
    with EmbeddedBroker.in_thread(config) as broker:
        with closing(connect(broker, "guest", "guest")) as connection:
            connection.channel().queue_declare("q")
        with pytest.raises(REFUSED):
            connect(broker, "anna", "secret")


def test_a_backend_that_does_not_exist_stops_the_start():
    with pytest.raises(BackendError, match="there is no backend 'nis'"):
        with EmbeddedBroker.in_thread(replace(Config(), auth_backends=(("1", "nis"),))):
            pass


SLAPD = shutil.which("slapd") or shutil.which("/usr/sbin/slapd")
SLAPD_CONF = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {directory}/pid
database mdb
maxsize 10485760
suffix "dc=example,dc=com"
rootdn "cn=admin,dc=example,dc=com"
rootpw adminpw
directory {directory}/db
access to attrs=userPassword by anonymous auth by self read by * none
access to * by * read
"""
ENTRIES = """
dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
o: example
dc: example

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example,dc=com
objectClass: organizationalUnit
ou: groups

dn: uid=anna,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: anna
cn: Anna
sn: A
userPassword: secret

dn: uid=bert,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: bert
cn: Bert
sn: B
userPassword: secret

dn: cn=admins,ou=groups,dc=example,dc=com
objectClass: groupOfNames
cn: admins
member: uid=anna,ou=people,dc=example,dc=com

dn: cn=everybody,ou=groups,dc=example,dc=com
objectClass: groupOfNames
cn: everybody
member: cn=admins,ou=groups,dc=example,dc=com
"""


@contextmanager
def running_slapd(directory):
    (directory / "db").mkdir()
    (directory / "slapd.conf").write_text(SLAPD_CONF.format(directory=directory))
    (directory / "entries.ldif").write_text(ENTRIES)
    subprocess.run(
        ["slapadd" if shutil.which("slapadd") else "/usr/sbin/slapadd", "-f",
         str(directory / "slapd.conf"), "-l", str(directory / "entries.ldif")],
        check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [SLAPD, "-h", f"ldap://127.0.0.1:{port}", "-f", str(directory / "slapd.conf"), "-d", "0"],
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert time.monotonic() < deadline, "slapd does not answer"
            time.sleep(0.05)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.skipif(SLAPD is None, reason="slapd is not installed")
class TestLdap:
    @pytest.fixture(scope="class")
    def port(self, tmp_path_factory):
        with running_slapd(tmp_path_factory.mktemp("slapd")) as port:
            yield port

    @pytest.fixture
    def broker(self, port):
        config = replace(
            Config(),
            auth_backends=(("1", "ldap"),),
            auth_ldap_servers=("127.0.0.1",),
            auth_ldap_port=port,
            auth_ldap_user_dn_pattern="uid=${username},ou=people,dc=example,dc=com",
            auth_ldap_vhost_query='{in_group_nested, "cn=everybody,ou=groups,dc=example,dc=com"}',
            auth_ldap_resource_query=(
                '{for, [{permission, configure, {match, {string, "${name}"}, '
                '{string, "^${username}"}}}, {permission, write, {constant, true}}, '
                '{permission, read, {in_group, "cn=admins,ou=groups,dc=example,dc=com"}}]}'
            ),
            auth_ldap_tag_queries=(
                ("administrator", '{in_group, "cn=admins,ou=groups,dc=example,dc=com"}'),
            ),
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
        return replace(
            Config(), auth_backends=(("1", "oauth2"),), oauth2_resource_server_id="rabbit",
            oauth2_signing_keys=(("one", path),), oauth2_default_key="one",
        )  # fmt: skip

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
        public = config.oauth2_signing_keys[0][1].read_bytes()
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
                    doomed.process_data_events(WAIT_SECONDS)
                renewed.channel().queue_declare("q")

    def test_keys_come_from_the_issuer(self, config, key):
        published = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        published.update(kid="two", use="sig")

        async def keys(_request):
            return web.json_response({"keys": [published]})

        application = web.Application()
        application.router.add_get("/keys", keys)
        with served(application) as url:
            changed = replace(config, oauth2_signing_keys=(), oauth2_default_key="",
                              oauth2_jwks_url=f"{url}/keys")  # fmt: skip
            content = {"sub": "anna", "aud": "rabbit", "scope": "rabbit.read:*/*"}
            token = jwt.encode(content, key, algorithm="RS256", headers={"kid": "two"})
            with EmbeddedBroker.in_thread(changed) as broker:
                connect(broker, "", token).close()
                unknown = jwt.encode(content, key, algorithm="RS256", headers={"kid": "three"})
                with pytest.raises(REFUSED):
                    connect(broker, "", unknown)


def _signed_with_public_key(content, public):
    """The old trick: a public key, which everybody knows, as the secret of HS256."""

    def encoded(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    head = encoded(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "one"}).encode())
    signed = head + b"." + encoded(json.dumps(content).encode())
    signature = hmac.new(public, signed, hashlib.sha256).digest()
    return (signed + b"." + encoded(signature)).decode()
