"""Tokens whose keys a real server publishes, and tokens at a real broker."""

import asyncio
import base64
import contextlib
import json
import ssl
import time
from contextlib import closing

import jwt
import pika
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from leveret.broker.auth.backends.oauth2 import OAuth2Backend
from leveret.broker.auth.backends.oauth2_keys import (
    KEYS_MAX,
    REFRESH_AFTER_FAILURE_MS,
    REFRESH_MS,
)
from leveret.broker.auth.identity import BackendUnavailable, LoginAttempt
from leveret.broker.config import load_config
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.testing import EmbeddedBroker
from tests.feature.certificate_authority import CertificateAuthority
from tests.feature.served import serving

ONE, TWO = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in "12")
CURVE = ec.generate_private_key(ec.SECP256R1())
WELL_KNOWN = "/realm/.well-known/openid-configuration"


def published(key, key_id, **more):
    algorithm = jwt.algorithms.ECAlgorithm if key is CURVE else jwt.algorithms.RSAAlgorithm
    return json.loads(algorithm.to_jwk(key.public_key())) | {"kid": key_id} | more


def token_of(key=ONE, key_id="one", algorithm="RS256", **claims):
    content = {"sub": "anna", "aud": "rabbit", "scope": "rabbit.read:*/*", **claims}
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(content, key, algorithm=algorithm, headers=headers)


class Issuer:
    """Publishes its keys, and counts requests."""

    def __init__(self):
        self.keys = [published(ONE, "one", use="sig", alg="RS256")]
        self.status, self.text, self.asked, self.delay_s = 200, None, [], 0.0
        self.url, self.headers = "", {}

    async def handle(self, request):
        self.asked.append(request.path)
        await asyncio.sleep(self.delay_s)
        if request.path == WELL_KNOWN:
            content = json.dumps({"issuer": f"{self.url}/realm", "jwks_uri": f"{self.url}/keys"})
        else:
            content = json.dumps({"keys": self.keys})
        return web.Response(text=self.text or content, status=self.status, headers=self.headers)

    @contextlib.asynccontextmanager
    async def running(self, context=None):
        application = web.Application()
        application.router.add_get("/{path:.*}", self.handle)
        async with serving(application, context) as self.url:
            yield self


@pytest.fixture
async def issuer():
    async with Issuer().running() as issuer:
        yield issuer


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def make(tmp_path, clock):
    """Creates a backend, given settings without the prefix `auth_oauth2.`."""

    def make(*settings):
        file = tmp_path / "rabbitmq.conf"
        lines = ("resource_server_id = rabbit", *settings)
        file.write_text("".join(f"auth_oauth2.{line}\n" for line in lines))
        return OAuth2Backend(load_config(file, {}, {}).oauth2, clock)

    return make


async def log_in(backend, token):
    return await backend.authenticate(LoginAttempt("", token, "127.0.0.1"))


class TestPublishedKeys:
    async def test_they_are_asked_for_once(self, make, issuer):
        backend = make(f"jwks_url = {issuer.url}/keys")
        assert issuer.asked == []
        for _ in range(3):
            assert (await log_in(backend, token_of())).name == "anna"
        assert issuer.asked == ["/keys"]

    @pytest.mark.parametrize("end", ["", "/"])
    async def test_the_issuer_says_where_they_are(self, make, issuer, end):
        backend = make(f"issuer = {issuer.url}/realm{end}")
        assert await log_in(backend, token_of())
        assert issuer.asked == [WELL_KNOWN, "/keys"]

    async def test_logins_at_the_same_time_wait_for_one_answer(self, make, issuer):
        issuer.delay_s = 0.05
        backend = make(f"jwks_url = {issuer.url}/keys")
        identities = await asyncio.gather(*(log_in(backend, token_of()) for _ in range(10)))
        assert all(identities)
        assert issuer.asked == ["/keys"]

    async def test_new_keys_are_found(self, make, issuer, clock):
        backend = make(f"jwks_url = {issuer.url}/keys")
        assert await log_in(backend, token_of())
        issuer.keys = [published(TWO, "two")]
        clock.advance(REFRESH_MS / 1000)
        assert await log_in(backend, token_of(TWO, "two"))
        assert await log_in(backend, token_of()) is None, "it is published no longer"

    async def test_made_up_ids_do_not_make_the_node_ask_without_end(self, make, issuer, clock):
        backend = make(f"jwks_url = {issuer.url}/keys")
        for number in range(5):
            assert await log_in(backend, token_of(key_id=f"made-up-{number}")) is None
        assert issuer.asked == ["/keys"]
        clock.advance(REFRESH_MS / 1000)
        assert await log_in(backend, token_of(key_id="made-up")) is None
        assert issuer.asked == ["/keys", "/keys"]

    async def test_a_redirect_to_another_origin_is_not_followed(self, make, issuer):
        async with Issuer().running() as other:
            other.keys = [published(TWO, "two")]
            issuer.status, issuer.headers = 307, {"Location": f"{other.url}/keys"}
            with pytest.raises(BackendUnavailable, match="another origin"):
                await log_in(make(f"jwks_url = {issuer.url}/keys"), token_of(TWO, "two"))
            assert other.asked == []

    async def test_a_secret_that_is_published_is_no_key(self, make, issuer, caplog):
        secret = b"anyone can read this secret, which is long"
        encoded = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
        issuer.keys = [{"kty": "oct", "kid": "one", "alg": "HS256", "k": encoded}]
        backend = make(f"jwks_url = {issuer.url}/keys")
        assert await log_in(backend, token_of(secret, "one", "HS256")) is None
        assert "'one' cannot be used: it is a secret" in caplog.text

    async def test_a_token_without_an_id_has_the_default_key(self, make, issuer):
        issuer.keys.append(published(TWO, "two"))
        url = f"jwks_url = {issuer.url}/keys"
        token = token_of(TWO, None)
        assert await log_in(make(url), token) is None
        assert await log_in(make(url, "default_key = two"), token)

    async def test_keys_of_files_count_too(self, make, issuer, tmp_path):
        path = tmp_path / "two.pem"
        path.write_bytes(
            TWO.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        backend = make(f"jwks_url = {issuer.url}/keys", f"signing_keys.two = {path}")
        assert await log_in(backend, token_of(TWO, "two"))
        assert issuer.asked == []
        assert await log_in(backend, token_of())

    async def test_a_key_is_good_for_its_own_algorithms(self, make, issuer):
        issuer.keys = [published(ONE, "one", alg="RS512"), published(CURVE, "curve")]
        backend = make(f"jwks_url = {issuer.url}/keys")
        assert await log_in(backend, token_of()) is None
        assert await log_in(backend, token_of(algorithm="RS512"))
        assert await log_in(backend, token_of(CURVE, "curve", "ES256"))

    async def test_those_that_are_for_something_else_are_left_out(self, make, issuer, caplog):
        issuer.keys = [
            published(TWO, "enc", use="enc"), {"kty": "new kind", "kid": "new"}, "junk", {},
            published(TWO, "odd", alg="ES256"), published(ONE, "one"),
        ]  # fmt: skip
        backend = make(f"jwks_url = {issuer.url}/keys")
        assert await log_in(backend, token_of())
        for key_id in ("enc", "odd"):
            assert await log_in(backend, token_of(TWO, key_id)) is None
        assert "the published key 'new' cannot be used" in caplog.text


class TestTrouble:
    async def test_no_server_listens(self, make):
        with pytest.raises(BackendUnavailable, match="no keys from http://127.0.0.1:1/keys"):
            await log_in(make("jwks_url = http://127.0.0.1:1/keys"), token_of())

    @pytest.mark.parametrize(
        ("status", "text", "problem"),
        [
            (500, None, "answered with status 500"),
            (404, None, "answered with status 404"),
            (200, "<html>", "no keys from"),
            (200, "[]", "it is not a set of keys"),
            (200, '{"keys": {}}', "it is not a set of keys"),
            (200, "[" * 100_000, "no keys from"),
            (200, " " * (1 << 21), "is too long"),
            (200, '{"keys": [%s]}' % ("1" * 5000), "Integer value out of range"),
            (200, '{"keys": [%s{}]}' % ("{}," * KEYS_MAX), "at most 200 are read"),
        ],
    )
    async def test_an_answer_without_keys(self, make, issuer, status, text, problem):
        issuer.status, issuer.text = status, text
        backend = make(f"jwks_url = {issuer.url}/keys")
        with pytest.raises(BackendUnavailable, match=problem):
            await log_in(backend, token_of())

    async def test_an_issuer_that_does_not_say_where(self, make, issuer):
        issuer.text = "{}"
        with pytest.raises(BackendUnavailable, match="it has no jwks_uri"):
            await log_in(make(f"issuer = {issuer.url}/realm"), token_of())

    async def test_it_is_asked_again_soon(self, make, issuer, clock):
        backend = make(f"jwks_url = {issuer.url}/keys")
        issuer.status = 503
        for _ in range(2):
            with pytest.raises(BackendUnavailable, match="status 503"):
                await log_in(backend, token_of())
        issuer.status = 200
        clock.advance(REFRESH_AFTER_FAILURE_MS / 1000)
        assert await log_in(backend, token_of())
        assert len(issuer.asked) == 2

    async def test_known_keys_stay_good(self, make, issuer, clock):
        backend = make(f"jwks_url = {issuer.url}/keys")
        assert await log_in(backend, token_of())
        issuer.status = 503
        clock.advance(REFRESH_MS / 1000)
        with pytest.raises(BackendUnavailable):
            await log_in(backend, token_of(TWO, "two"))
        assert await log_in(backend, token_of())


async def test_the_certificate_of_the_issuer_is_checked(make, tmp_path):
    authority = CertificateAuthority(tmp_path)
    own = authority.issue("issuer", names=["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.certfile, own.keyfile)
    async with Issuer().running(context) as issuer:
        url = f"jwks_url = {issuer.url}/keys"
        with pytest.raises(BackendUnavailable, match="certificate verify failed"):
            await log_in(make(url), token_of())
        assert await log_in(make(url, f"https.cacertfile = {authority.certfile}"), token_of())
        assert await log_in(make(url, "https.verify = verify_none"), token_of())
        assert await log_in(make(url, "https.peer_verification = verify_none"), token_of())


class TestAtABroker:
    """OAuth 2 behind a cache, followed by the node's own users."""

    @pytest.fixture
    def broker(self, tmp_path):
        key, file = tmp_path / "one.pem", tmp_path / "rabbitmq.conf"
        key.write_bytes(
            ONE.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        file.write_text(
            "auth_backends.1 = cache\n"
            "auth_backends.2 = internal\n"
            "auth_cache.cached_backend = oauth2\n"
            "auth_oauth2.resource_server_id = rabbit\n"
            f"auth_oauth2.signing_keys.one = {key}\n"
        )
        with EmbeddedBroker.in_thread(load_config(file, {}, {})) as broker:
            yield broker

    def connect(self, broker, password, name="anyone"):
        credentials = pika.PlainCredentials(name, password)
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", broker.port, credentials=credentials)
        )

    def test_two_tokens_of_one_user_allow_different_things(self, broker):
        may = token_of(scope="rabbit.configure:%2F/* rabbit.read:%2F/*")
        may_not = token_of(scope="rabbit.read:%2F/*")
        for _ in range(2):
            with closing(self.connect(broker, may)) as connection:
                connection.channel().queue_declare("q")
            with closing(self.connect(broker, may_not)) as connection:
                with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="user 'anna'"):
                    connection.channel().queue_declare("q")

    def test_a_renewed_token_allows_what_it_says(self, broker):
        end = int(time.time()) + 60
        connection = self.connect(broker, token_of(scope="rabbit.read:%2F/*", exp=end))
        more = "rabbit.configure:%2F/* rabbit.read:%2F/*"
        connection.update_secret(token_of(scope=more, exp=end + 60), "more")
        connection.channel().queue_declare("q")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="refused"):
            connection.update_secret(token_of(sub="bert"), "somebody else")

    def test_users_of_the_node_get_in_with_their_passwords(self, broker):
        with closing(self.connect(broker, "guest", "guest")) as connection:
            connection.channel().queue_declare("q")
