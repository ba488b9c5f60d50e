"""The keys that sign tokens: from files, or published by the issuer (JWKS).

A key fits the algorithms of its own kind and no others. So a public key, which everybody knows, is
never taken for the secret of a symmetric algorithm, and `none` is no algorithm at all.

Published keys are asked for when a token names one that is not known, and at most every
`REFRESH_MS`: whoever makes up key ids does not make the node ask without end.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import jwt
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from broker.auth.backends.client_tls import client_context, shown_address
from broker.auth.identity import BackendUnavailable
from broker.clock import Clock
from broker.config import Config

REFRESH_MS = 30_000
REFRESH_AFTER_FAILURE_MS = 5_000
TIMEOUT_SECONDS = 10
ANSWER_BYTES_MAX = 1 << 20

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
class Key:
    """A key, and the algorithms that it may be used with."""

    material: Any = field(repr=False)
    algorithms: tuple[str, ...]


class SigningKeys:
    """All keys that tokens may be signed with."""

    def __init__(self, config: Config, clock: Clock) -> None:
        _check(config)
        self._config = config
        self._clock = clock
        self._files = {name: key_of_file(path) for name, path in config.oauth2_signing_keys}
        self._published: dict[str, Key] = {}
        self._refreshing = asyncio.Lock()
        self._wait_until_ms: int | None = None
        self._problem = ""
        self._context = client_context(config.oauth2_https_cacertfile, config.oauth2_https_verify)

    async def key(self, key_id: str) -> Key | None:
        """The key of this id; with an empty one, the default. Raises BackendUnavailable."""
        key_id = key_id or self._config.oauth2_default_key
        if self._known(key_id) is None and self._is_published:
            async with self._refreshing:
                # Another login may have asked in the meantime.
                if self._known(key_id) is None:
                    await self._refresh()
        return self._known(key_id)

    @property
    def _is_published(self) -> bool:
        return bool(self._config.oauth2_jwks_url or self._config.oauth2_issuer)

    def _known(self, key_id: str) -> Key | None:
        for keys in (self._files, self._published):
            if key_id in keys:
                return keys[key_id]
            if not key_id and len(keys) == 1:
                return next(iter(keys.values()))
        return None

    async def _refresh(self) -> None:
        """Ask for the published keys, unless that was done of late. Raises BackendUnavailable."""
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

    async def _fetch(self) -> dict[str, Key]:
        """The published keys. Raises BackendUnavailable."""
        url, issuer = self._config.oauth2_jwks_url, self._config.oauth2_issuer
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        connector = aiohttp.TCPConnector(ssl=self._context)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            if not url:
                about = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
                url = await _asked(session, about, _jwks_uri)
            keys = await _asked(session, url, _keys_of)
        logger.info("OAuth 2: %d keys are published at %s", len(keys), shown_address(url))
        return keys


async def _asked(session: aiohttp.ClientSession, url: str, read: Callable[[Any], Read]) -> Read:
    """What is read out of an answer. Raises BackendUnavailable."""
    shown = shown_address(url)
    try:
        async with session.get(url) as response:
            if response.status != 200:
                raise BackendUnavailable(f"OAuth 2: {shown} answered with status {response.status}")
            content = b""
            async for part in response.content.iter_any():
                content += part
                if len(content) > ANSWER_BYTES_MAX:
                    raise BackendUnavailable(f"OAuth 2: the answer of {shown} is too long")
        return read(json.loads(content))
    except TimeoutError:
        raise BackendUnavailable(f"OAuth 2: {shown} does not answer in time") from None
    except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise BackendUnavailable(f"OAuth 2: no keys from {shown}: {reason}") from None


def _jwks_uri(content: Any) -> str:
    url = content.get("jwks_uri") if isinstance(content, dict) else None
    if not isinstance(url, str):
        raise ValueError("there is no jwks_uri in it")
    return url


def _keys_of(content: Any) -> dict[str, Key]:
    """The keys of a JWK set. One that cannot be used is left out: there may be kinds to come."""
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is no set of keys")
    keys = {}
    for one in listed:
        if not isinstance(one, dict) or one.get("use", "sig") != "sig":
            continue
        try:
            keys[str(one.get("kid", ""))] = key_of_jwk(one)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            logger.warning("OAuth 2: the published key %r is of no use: %s", one.get("kid"), error)
    return keys


def key_of_jwk(content: dict[str, Any]) -> Key:
    """A published key. Raises ValueError or PyJWTError for one that cannot be used."""
    material = jwt.PyJWK(content).key
    algorithms = _algorithms_of(material)
    named = content.get("alg")
    if named is not None and named not in algorithms:
        raise ValueError(f"it is not one for {named}")
    return Key(material, algorithms if named is None else (named,))


def key_of_file(path: Path) -> Key:
    """A public key or a certificate in PEM, a JWK, or else a secret. Raises ValueError."""
    content = path.read_bytes()
    try:
        return _key_of_bytes(content)
    except (jwt.PyJWTError, ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"the signing key {path} cannot be used: {error}") from None


def _key_of_bytes(content: bytes) -> Key:
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
        # As a secret it would be one that everybody knows.
        raise ValueError("it is a public key that is not in PEM; convert it")
    return Key(secret, SYMMETRIC)


def _public_key(material: Any) -> Key:
    return Key(material, _algorithms_of(material))


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
            raise ValueError("it is of no kind that signs tokens")


def _check(config: Config) -> None:
    """Raise ValueError for settings that cannot work."""
    for name in config.oauth2_algorithms:
        if name not in ALGORITHMS:
            raise ValueError(
                f"auth_oauth2.algorithms: '{name}' is unknown; known are {', '.join(ALGORITHMS)}"
            )
    for key, url in (("jwks_url", config.oauth2_jwks_url), ("issuer", config.oauth2_issuer)):
        if url and not url.startswith(("https://", "http://")):
            raise ValueError(f"auth_oauth2.{key} = '{url}' is no address; it begins with https://")
    if not (config.oauth2_signing_keys or config.oauth2_jwks_url or config.oauth2_issuer):
        raise ValueError(
            "there are no keys: set auth_oauth2.signing_keys, auth_oauth2.jwks_url or "
            "auth_oauth2.issuer"
        )
