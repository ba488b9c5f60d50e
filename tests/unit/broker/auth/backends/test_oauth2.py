"""Valid and invalid tokens."""

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from leveret.broker.auth.backends.oauth2 import OAuth2Backend
from leveret.broker.auth.backends.oauth2_keys import key_of_file
from leveret.broker.auth.identity import LoginAttempt
from leveret.broker.config import OAuth2Settings
from leveret.broker.runtime.virtual_clock import VirtualClock

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEYS = {curve.name: ec.generate_private_key(curve)
           for curve in (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1())}  # fmt: skip
EDWARDS_KEY = ed25519.Ed25519PrivateKey.generate()
SECRET = b"a secret that is long enough for every one of the algorithms...."
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


def pem(private_key):
    return private_key.public_key().public_bytes(serialization.Encoding.PEM, SPKI)


@pytest.fixture
def clock():
    clock = VirtualClock()
    clock.advance(1_000_000)
    return clock


@pytest.fixture
def make(clock, tmp_path):
    """A backend with the key `one`, and other settings."""

    def backend(key=None, **changes):
        path = tmp_path / "one.pem"
        path.write_bytes(pem(RSA_KEY) if key is None else key)
        settings = OAuth2Settings(resource_server_id="rabbit", signing_keys=(("one", path),))
        return OAuth2Backend(replace(settings, **changes), clock)

    return backend


@pytest.fixture
def log_in(clock):
    async def log_in(backend, token, name="anyone"):
        return await backend.authenticate(LoginAttempt(name, token, "127.0.0.1"))

    return log_in


def token_of(key=RSA_KEY, algorithm="RS256", key_id="one", **claims):
    content = {"sub": "anna", "aud": "rabbit", "scope": "rabbit.read:*/*", **claims}
    content = {name: value for name, value in content.items() if value is not None}
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(content, key, algorithm=algorithm, headers=headers)


def by_hand(header, claims, sign=lambda data: b""):
    """Return a token that violates the standard."""

    def encoded(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    signed = b".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
    return (signed + b"." + encoded(sign(signed))).decode()


class TestWhoItIs:
    async def test_the_token_says_it(self, make, log_in):
        identity = await log_in(make(), token_of(scope="rabbit.tag:management rabbit.read:*/*"))
        assert (identity.name, identity.tags) == ("anna", ("management",))
        assert identity.expires_at_s is None

    @pytest.mark.parametrize(
        ("claims", "name"),
        [
            ({"sub": None, "client_id": "robot"}, "robot"),
            ({"email": "a@x", "user": "nickname"}, "nickname"),
            ({"user": 5, "email": "a@x"}, "a@x"),
            ({"sub": None}, "unknown"),
            ({"sub": ""}, "unknown"),
        ],
    )
    async def test_in_one_of_these_claims(self, make, log_in, claims, name):
        backend = make(username_claims=("user", "email"))
        assert (await log_in(backend, token_of(**claims), name="guest")).name == name

    @pytest.mark.parametrize("token", [None, "", "guest", "a.b.c", "....", "\udcff", "é.é.é"])
    async def test_without_a_token(self, make, log_in, token):
        assert await log_in(make(), token) is None


class TestAudience:
    @pytest.mark.parametrize("audience", ["rabbit", ["other", "rabbit"], "other rabbit"])
    async def test_that_is_ours(self, make, log_in, audience):
        assert await log_in(make(), token_of(aud=audience))

    @pytest.mark.parametrize("audience", ["other", [], "", None, ["rabbits"], {"rabbit": 1}, 5])
    async def test_that_is_not(self, make, log_in, audience, caplog):
        token = token_of(aud=audience)
        assert await log_in(make(), token) is None
        assert "without 'rabbit'" in caplog.text
        assert token not in caplog.text
        assert await log_in(make(verify_audience=False), token)


class TestTimes:
    async def test_it_is_good_until_its_end(self, make, log_in, clock):
        backend, now_s = make(), clock.wall_time_s()
        identity = await log_in(backend, token_of(exp=int(now_s) + 60))
        assert identity.expires_at_s == int(now_s) + 60
        assert backend.may_use(identity, "/", "queue", "q", "read")
        clock.advance(60)
        assert not backend.may_use(identity, "/", "queue", "q", "read")
        assert not backend.may_use_vhost(identity, "/", "127.0.0.1")
        assert not backend.may_use_topic(identity, "/", "x", "k", "read")

    @pytest.mark.parametrize("after_s", [0, -1, -1e9])
    async def test_it_is_over(self, make, log_in, clock, after_s):
        assert await log_in(make(), token_of(exp=int(clock.wall_time_s() + after_s))) is None

    @pytest.mark.parametrize("end", ["tomorrow", True, [], float("inf"), float("nan"), 10**400])
    async def test_an_end_that_is_no_time(self, make, log_in, end):
        claims = {"sub": "anna", "aud": "rabbit", "exp": end}
        header = {"alg": "HS256", "kid": "one"}
        token = by_hand(header, claims, lambda data: hmac.digest(SECRET, data, hashlib.sha256))
        assert await log_in(make(SECRET), token) is None

    async def test_it_has_not_begun(self, make, log_in, clock):
        token = token_of(nbf=int(clock.wall_time_s()) + 60)
        backend = make()
        assert await log_in(backend, token) is None
        clock.advance(61)
        assert await log_in(backend, token)

    async def test_when_it_was_made_does_not_matter(self, make, log_in, clock):
        assert await log_in(make(), token_of(iat=int(clock.wall_time_s()) + 5))


class TestSignatures:
    @pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
    async def test_rsa(self, make, log_in, algorithm):
        assert await log_in(make(), token_of(algorithm=algorithm))

    @pytest.mark.parametrize(
        ("curve", "algorithm"),
        [("secp256r1", "ES256"), ("secp384r1", "ES384"), ("secp521r1", "ES512")],
    )
    async def test_elliptic_curves(self, make, log_in, curve, algorithm):
        backend = make(pem(EC_KEYS[curve]))
        assert await log_in(backend, token_of(EC_KEYS[curve], algorithm))
        assert await log_in(backend, token_of()) is None

    async def test_edwards_curves(self, make, log_in):
        assert await log_in(make(pem(EDWARDS_KEY)), token_of(EDWARDS_KEY, "EdDSA"))

    @pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
    async def test_a_secret(self, make, log_in, algorithm):
        backend = make(SECRET + b"\n")
        assert await log_in(backend, token_of(SECRET, algorithm))
        assert await log_in(backend, token_of(SECRET + b"!", algorithm)) is None

    async def test_only_algorithms_of_the_configuration(self, make, log_in):
        backend = make(algorithms=("RS256", "HS256"))
        assert await log_in(backend, token_of())
        assert await log_in(backend, token_of(algorithm="RS512")) is None

    async def test_another_key(self, make, log_in, caplog):
        assert await log_in(make(), token_of(OTHER_RSA_KEY)) is None
        assert "Signature verification failed" in caplog.text

    async def test_a_key_that_is_not_there(self, make, log_in, caplog):
        assert await log_in(make(), token_of(key_id="two")) is None
        assert "there is no key 'two'" in caplog.text

    async def test_the_default_key(self, make, log_in):
        assert await log_in(make(), token_of(key_id=None)), "there is only one"
        assert await log_in(make(default_key="one"), token_of(key_id=None))
        assert await log_in(make(default_key="two"), token_of(key_id=None)) is None

    @pytest.mark.parametrize("name", ["none", "None", "NONE", "", None])
    async def test_no_algorithm(self, make, log_in, name):
        claims = {"sub": "anna", "aud": "rabbit"}
        assert await log_in(make(), by_hand({"alg": name, "kid": "one"}, claims)) is None
        assert await log_in(make(), by_hand({"kid": "one"}, claims)) is None

    @pytest.mark.parametrize("public", [pem(RSA_KEY), pem(RSA_KEY).strip()])
    async def test_a_public_key_is_no_secret(self, make, log_in, public):
        claims = {"sub": "anna", "aud": "rabbit"}
        header = {"alg": "HS256", "kid": "one"}
        token = by_hand(header, claims, lambda data: hmac.digest(public, data, hashlib.sha256))
        assert await log_in(make(), token) is None

    async def test_a_token_that_brings_its_own_key(self, make, log_in):
        own = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(OTHER_RSA_KEY.public_key()))
        claims = {"sub": "anna", "aud": "rabbit"}
        headers = {"jwk": own, "jku": "http://127.0.0.1:1/keys", "kid": "one"}
        token = jwt.encode(claims, OTHER_RSA_KEY, algorithm="RS256", headers=headers)
        assert await log_in(make(), token) is None

    async def test_a_changed_token(self, make, log_in):
        head, claims, signature = token_of().split(".")
        _, other_claims, _ = token_of(sub="bert").split(".")
        assert await log_in(make(), f"{head}.{other_claims}.{signature}") is None
        assert await log_in(make(), f"{head}.{claims}.") is None

    @pytest.mark.parametrize("header", [{}, {"kid": "k" * 20_000}, {"kid": "\0" * 9_000}])
    async def test_the_log_has_the_beginning_of_a_bad_answer(self, make, log_in, caplog, header):
        token = by_hand({"alg": "RS256", **header}, {})
        assert await log_in(make(), token, name="anyone" * 5_000) is None
        (line,) = caplog.messages
        assert len(line) < 400

    async def test_a_token_that_is_too_long_is_not_read(self, make, log_in, caplog, monkeypatch):
        wide = {f"claim{number}": number for number in range(5_000)}
        monkeypatch.setattr(jwt, "get_unverified_header", None)
        assert await log_in(make(), by_hand({"alg": "RS256", "kid": "one", **wide}, {})) is None
        assert "characters, at most 65536 are read" in caplog.text

    async def test_a_header_that_is_nested_without_end(self, make, log_in):
        head = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 100_000).rstrip(b"=").decode()
        assert await log_in(make(), f"{head}.e30.e30") is None


class TestKeyFiles:
    def test_a_certificate(self, tmp_path):
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder().subject_name(name).issuer_name(name)
            .public_key(RSA_KEY.public_key()).serial_number(1)
            .not_valid_before(now).not_valid_after(now + timedelta(days=1))
            .sign(RSA_KEY, hashes.SHA256())
        )  # fmt: skip
        path = tmp_path / "certificate.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        assert key_of_file(path).material == RSA_KEY.public_key()

    def test_a_jwk(self, tmp_path):
        path = tmp_path / "key.json"
        path.write_text(jwt.algorithms.RSAAlgorithm.to_jwk(RSA_KEY.public_key()))
        assert key_of_file(path).material == RSA_KEY.public_key()

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"", "it is empty"),
            (b"\n", "it is empty"),
            (b"-----BEGIN PUBLIC KEY-----\nxx\n-----END PUBLIC KEY-----\n", "cannot be used"),
            (b'{"kty": "RSA"}', "cannot be used"),
            (b"{not json", "cannot be used"),
            (
                RSA_KEY.public_key().public_bytes(serialization.Encoding.DER, SPKI),
                "it is a public key that is not in PEM",
            ),
            (
                RSA_KEY.public_key().public_bytes(
                    serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
                ),
                "it is a public key that is not in PEM",
            ),
        ],
    )
    def test_that_cannot_be_used(self, tmp_path, content, problem):
        path = tmp_path / "key"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=problem):
            key_of_file(path)


class TestRenewing:
    async def test_with_a_new_token(self, make, log_in):
        backend = make()
        identity = await log_in(backend, token_of())
        renewed = await backend.renew(identity, token_of(scope="rabbit.write:*/*"))
        assert backend.may_use(renewed, "/", "queue", "q", "write")
        assert not backend.may_use(renewed, "/", "queue", "q", "read")

    async def test_with_a_token_of_another_user_or_a_bad_one(self, make, log_in, caplog):
        backend = make()
        identity = await log_in(backend, token_of())
        assert await backend.renew(identity, token_of(sub="bert")) is None
        assert "'anna' sent a token for another user, 'bert'" in caplog.text
        assert await backend.renew(identity, token_of(OTHER_RSA_KEY)) is None
        assert await backend.renew(identity, "") is None


class TestSettings:
    async def test_aliases(self, make, log_in):
        backend = make(
            scope_aliases=(("dev", "rabbit.write:dev/*"),),
            numbered_aliases=(("1", "api://x/Admin.All"),),
            numbered_scopes=(("1", "rabbit.tag:administrator"),),
        )
        identity = await log_in(backend, token_of(scope="dev api://x/Admin.All"))
        assert identity.is_administrator
        assert backend.may_use(identity, "dev", "queue", "q", "write")

    def test_half_an_alias(self, make):
        with pytest.raises(ValueError, match="auth_oauth2.scope_aliases.1.scope must be set"):
            make(numbered_aliases=(("1", "x"),))

    async def test_topics_with_claims_in_scopes(self, make, log_in):
        backend = make()
        identity = await log_in(backend, token_of(scope="rabbit.write:*/events/{sub}.*"))
        assert backend.may_use_topic(identity, "/", "events", "anna.x", "write")
        assert not backend.may_use_topic(identity, "/", "events", "bert.x", "write")
