"""The keys that sign tokens: from files, or published by the issuer (JWKS).

A key is used only with the algorithms of its type. So a public key, which anyone can know, is never
used as the secret of a symmetric algorithm, and the algorithm `none` is never accepted. A secret
(`oct`) that is published is refused for the same reason.

Published keys are fetched when a token names an unknown key, and at most every `REFRESH_MS`, so
that tokens with invented key ids do not cause a request each.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
import jwt
import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from yarl import URL

from leveret.broker.auth.backends.client_tls import client_context, shown_address
from leveret.broker.auth.backends.redirects import requested
from leveret.broker.auth.identity import BackendUnavailable
from leveret.broker.config.oauth2_settings import OAuth2Settings
from leveret.broker.config.tls_settings import ClientTlsOptions
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.http_answers import AnswerError, content_of, open_session

REFRESH_MS = 30_000
REFRESH_AFTER_FAILURE_MS = 5_000
TIMEOUT_SECONDS = 10
ANSWER_BYTES_MAX = 1 << 18
KEYS_MAX = 200
"""Issuers publish two to ten keys, of two kilobytes each with their certificates."""

RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
EDWARDS = ("EdDSA",)
SYMMETRIC = ("HS256", "HS384", "HS512")
BY_CURVE = {
    "secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",),
    "secp256k1": ("ES256K",),
}  # fmt: skip
ALGORITHMS = (*RSA, *(name for names in BY_CURVE.values() for name in names), *EDWARDS, *SYMMETRIC)

PEM_MARK = b"-----BEGIN "
CERTIFICATE_MARK = b"-----BEGIN CERTIFICATE"

Read = TypeVar("Read")

logger = logging.getLogger("leveret.auth")


@dataclass(frozen=True)
class SigningKey:
    """A key and the algorithms that it may be used with."""

    material: Any = field(repr=False)
    algorithms: tuple[str, ...]


class SigningKeys:
    """All keys that may sign tokens."""

    def __init__(self, settings: OAuth2Settings, clock: Clock) -> None:
        _check(settings)
        self._settings = settings
        self._clock = clock
        self._files = {name: key_of_file(path) for name, path in settings.signing_keys}
        self._published: dict[str, SigningKey] = {}
        self._refreshing = asyncio.Lock()
        self._wait_until_ms: int | None = None
        self._problem = ""
        self._context = client_context(
            ClientTlsOptions(cacertfile=settings.https_cacertfile, verify=settings.https_verify)
        )

    async def key(self, key_id: str) -> SigningKey | None:
        """The key with this id, or the default for an empty id. Raises BackendUnavailable."""
        key_id = key_id or self._settings.default_key
        if self._known(key_id) is None and self._is_published:
            async with self._refreshing:
                # Another login may have fetched the keys in the meantime.
                if self._known(key_id) is None:
                    await self._refresh()
        return self._known(key_id)

    @property
    def _is_published(self) -> bool:
        return bool(self._settings.jwks_url or self._settings.issuer)

    def _known(self, key_id: str) -> SigningKey | None:
        for keys in (self._files, self._published):
            if key_id in keys:
                return keys[key_id]
            if not key_id and len(keys) == 1:
                return next(iter(keys.values()))
        return None

    async def _refresh(self) -> None:
        """Fetch the published keys, unless that was done recently. Raises BackendUnavailable."""
        now_ms = self._clock.now_ms()
        if self._wait_until_ms is None or now_ms >= self._wait_until_ms:
            try:
                self._published = await self._fetch()
                self._wait_until_ms, self._problem = now_ms + REFRESH_MS, ""
            except BackendUnavailable as problem:
                self._wait_until_ms = now_ms + REFRESH_AFTER_FAILURE_MS
                self._problem = str(problem)
        if self._problem:
            raise BackendUnavailable(self._problem)

    async def _fetch(self) -> dict[str, SigningKey]:
        """Fetch the published keys. Raises BackendUnavailable."""
        url, issuer = self._settings.jwks_url, self._settings.issuer
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        connector = aiohttp.TCPConnector(ssl=self._context)
        async with open_session(timeout=timeout, connector=connector) as session:
            if not url:
                about = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
                url = await _asked(session, about, _jwks_uri)
                if urlsplit(issuer).scheme == "https" != urlsplit(url).scheme:
                    shown = shown_address(url)
                    raise BackendUnavailable(f"OAuth 2: {issuer} names {shown}, which is not HTTPS")
            keys = await _asked(session, url, _keys_of)
        logger.info("OAuth 2: fetched %d keys from %s", len(keys), shown_address(url))
        return keys


async def _asked(
    session: aiohttp.ClientSession, url: str, read: Callable[[Any], Awaitable[Read]]
) -> Read:
    """Request a URL and parse the answer. Raises BackendUnavailable."""
    shown = shown_address(url)
    try:
        async with requested(session, "GET", URL(url)) as response:
            if response.status != 200:
                raise BackendUnavailable(f"OAuth 2: {shown} answered with status {response.status}")
            content = await content_of(response, ANSWER_BYTES_MAX)
        return await read(_parsed(content))
    except AnswerError as error:
        raise BackendUnavailable(f"OAuth 2: the answer of {shown} {error}") from None
    except TimeoutError:
        raise BackendUnavailable(f"OAuth 2: {shown} does not answer in time") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise BackendUnavailable(f"OAuth 2: no keys from {shown}: {reason}") from None


def _parsed(content: bytes) -> Any:
    """JSON of a server. Raises ValueError."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the answer cannot be read as JSON ({error})") from None


async def _jwks_uri(content: Any) -> str:
    url = content.get("jwks_uri") if isinstance(content, dict) else None
    if not isinstance(url, str):
        raise ValueError("it has no jwks_uri")
    return url


async def _keys_of(content: Any) -> dict[str, SigningKey]:
    """The keys of a JWK set, without those of types that are not supported. Raises ValueError."""
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is not a set of keys")
    if len(listed) > KEYS_MAX:
        raise ValueError(f"it has {len(listed)} keys, at most {KEYS_MAX} are read")
    keys = {}
    for one in listed:
        # To make a key takes up to a millisecond.
        await asyncio.sleep(0)
        if not isinstance(one, dict) or one.get("use", "sig") != "sig":
            continue
        try:
            keys[str(one.get("kid", ""))] = _published_key(one)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            key_id = one.get("kid")
            logger.warning("OAuth 2: the published key %r cannot be used: %s", key_id, error)
    return keys


def _published_key(content: dict[str, Any]) -> SigningKey:
    """As `key_of_jwk`; raises ValueError for a secret, too, since anyone can read it."""
    key = key_of_jwk(content)
    if isinstance(key.material, bytes):
        raise ValueError("it is a secret, which only a file (auth_oauth2.signing_keys) can hold")
    return key


def key_of_jwk(content: dict[str, Any]) -> SigningKey:
    """Make a key from a JWK. Raises ValueError or PyJWTError if it cannot be used."""
    material = jwt.PyJWK(content).key
    algorithms = _algorithms_of(material)
    named = content.get("alg")
    if named is not None and named not in algorithms:
        raise ValueError(f"it is not a key for {named}")
    return SigningKey(material, algorithms if named is None else (named,))


def key_of_file(path: Path) -> SigningKey:
    """Read a key: PEM, a certificate in PEM, a JWK, or else a secret. Raises ValueError."""
    content = path.read_bytes()
    try:
        return _key_of_bytes(content)
    except (jwt.PyJWTError, ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"the signing key {path} cannot be used: {error}") from None


def _key_of_bytes(content: bytes) -> SigningKey:
    if CERTIFICATE_MARK in content:
        return _public_key(x509.load_pem_x509_certificate(content).public_key())
    if PEM_MARK in content:
        return _public_key(serialization.load_pem_public_key(content))
    if content.lstrip().startswith(b"{"):
        return key_of_jwk(json.loads(content))
    secret = content.rstrip(b"\r\n")
    if not secret:
        raise ValueError("it is empty")
    if _is_public_otherwise(content):
        # As a secret it would be publicly known.
        raise ValueError("it is a public key that is not in PEM; convert it")
    return SigningKey(secret, SYMMETRIC)


def _public_key(material: Any) -> SigningKey:
    return SigningKey(material, _algorithms_of(material))


def _is_public_otherwise(content: bytes) -> bool:
    readers: tuple[Callable[[bytes], object], ...] = (
        serialization.load_der_public_key,
        serialization.load_ssh_public_key,
        x509.load_der_x509_certificate,
    )
    for read in readers:
        try:
            read(content)
        except (ValueError, UnsupportedAlgorithm):
            continue
        return True
    return False


def _algorithms_of(material: Any) -> tuple[str, ...]:
    match material:
        case rsa.RSAPublicKey():
            return RSA
        case ec.EllipticCurvePublicKey() if material.curve.name in BY_CURVE:
            return BY_CURVE[material.curve.name]
        case ed25519.Ed25519PublicKey() | ed448.Ed448PublicKey():
            return EDWARDS
        case bytes() if material:
            return SYMMETRIC
        case _:
            raise ValueError("keys of this type do not sign tokens")


def _check(settings: OAuth2Settings) -> None:
    """Raise ValueError for invalid or missing settings."""
    for name in settings.algorithms:
        if name not in ALGORITHMS:
            raise ValueError(
                f"auth_oauth2.algorithms: '{name}' is unknown; algorithms are "
                f"{', '.join(ALGORITHMS)}"
            )
    for key, url in (("jwks_url", settings.jwks_url), ("issuer", settings.issuer)):
        if url and not url.startswith(("https://", "http://")):
            raise ValueError(
                f"auth_oauth2.{key} = '{url}' is not a URL: it must begin with https://"
            )
    if not (settings.signing_keys or settings.jwks_url or settings.issuer):
        raise ValueError(
            "there are no keys: set auth_oauth2.signing_keys, auth_oauth2.jwks_url or "
            "auth_oauth2.issuer"
        )
