"""OAuth 2: a JSON web token is the password, and its scopes are the permissions.

The signature is checked with keys from files, or from the issuer (JWKS), whose keys are asked for
again when a token names one that is not known, at most every `REFRESH_MS`. Scopes are
`read:VHOST/NAME` or `read:VHOST/NAME/ROUTING_KEY`, with * as a wildcard and percent encoding, after
the prefix of this resource server; `tag:administrator` gives a tag. An identity ends with its
token.
Facts: RabbitMQ's OAuth 2 guide, and `rabbit_oauth2_scope`.
"""

import logging
import re
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import aiohttp
import jwt

from broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from broker.clock import Clock
from broker.config import Config

REFRESH_MS = 30_000
TIMEOUT_SECONDS = 10
ASYMMETRIC = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
)  # fmt: skip
SYMMETRIC = ("HS256", "HS384", "HS512")
PEM_MARK = b"-----BEGIN"
PERMISSIONS = ("configure", "write", "read")

logger = logging.getLogger("leveret.auth")


class OAuth2Backend:
    """Both kinds of backend; permissions are known at once."""

    def __init__(self, config: Config, clock: Clock) -> None:
        if not config.oauth2_resource_server_id:
            raise ValueError("auth_oauth2.resource_server_id has to be set")
        self._config = config
        self._clock = clock
        self._files: dict[str, bytes] = {
            name: path.read_bytes() for name, path in config.oauth2_signing_keys
        }
        self._published: dict[str, jwt.PyJWK] = {}
        self._asked_ms: int | None = None
        prefix = config.oauth2_scope_prefix
        self._prefix = f"{config.oauth2_resource_server_id}." if prefix is None else prefix

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """Whom the token is about; whoever shows it may call themselves what they like."""
        if not attempt.password:
            return None
        try:
            claims = await self._claims(attempt.password)
        except jwt.PyJWTError as error:
            logger.error("a token of '%s' is refused: %s", attempt.name, error)
            return None
        scopes = self._scopes(claims)
        name = next(
            (str(claims[key]) for key in self._config.oauth2_username_claims if claims.get(key)),
            attempt.name,
        )
        tags = tuple(scope[4:] for scope in scopes if scope.startswith("tag:"))
        return Identity(
            name, tags, authorization=self, state=scopes, expires_at_s=claims.get("exp")
        )

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """A new token of the same user."""
        renewed = await self.authenticate(LoginAttempt(identity.name, secret, ""))
        if renewed is not None and renewed.name != identity.name:
            logger.error("'%s' sent a token of '%s'", identity.name, renewed.name)
            return None
        return renewed

    # Tokens

    async def _claims(self, token: str) -> dict[str, Any]:
        key, algorithms = await self._key_of(jwt.get_unverified_header(token))
        config = self._config
        checks_audience = config.oauth2_verify_audience
        claims: dict[str, Any] = jwt.decode(
            token, key, algorithms=list(algorithms),
            audience=config.oauth2_resource_server_id if checks_audience else None,
            options={"verify_aud": checks_audience},
            issuer=config.oauth2_issuer or None,
        )  # fmt: skip
        return claims

    async def _key_of(self, header: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
        """The key of a token, and the algorithms that it may be used with."""
        key_id = str(header.get("kid") or self._config.oauth2_default_key)
        from_file = self._files.get(key_id)
        if from_file is None and not key_id and len(self._files) == 1:
            from_file = next(iter(self._files.values()))
        if from_file is not None:
            # A public key must never be taken for the secret of a symmetric algorithm.
            own = ASYMMETRIC if PEM_MARK in from_file else SYMMETRIC
            return from_file, self._allowed(own)
        if key_id not in self._published:
            await self._refresh()
        published = self._published.get(key_id)
        if published is None and not key_id and len(self._published) == 1:
            published = next(iter(self._published.values()))
        if published is None:
            raise jwt.InvalidKeyError(f"there is no key '{key_id}'")
        own = SYMMETRIC if published.key_type == "oct" else ASYMMETRIC
        return published.key, self._allowed(own)

    def _allowed(self, own: tuple[str, ...]) -> tuple[str, ...]:
        configured = self._config.oauth2_algorithms
        return tuple(name for name in own if not configured or name in configured)

    async def _refresh(self) -> None:
        """Ask for the issuer's keys, unless that was done of late. Raises BackendUnavailable."""
        now_ms = self._clock.now_ms()
        if self._asked_ms is not None and now_ms - self._asked_ms < REFRESH_MS:
            return
        url, issuer = self._config.oauth2_jwks_url, self._config.oauth2_issuer
        if not url and not issuer:
            return
        self._asked_ms = now_ms
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session:
                if not url:
                    where = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
                    async with session.get(where, raise_for_status=True) as response:
                        url = (await response.json(content_type=None))["jwks_uri"]
                async with session.get(url, raise_for_status=True) as response:
                    content = await response.json(content_type=None)
            keys = jwt.PyJWKSet.from_dict(content).keys
        except (TimeoutError, aiohttp.ClientError, ValueError, KeyError) as error:
            raise BackendUnavailable(f"the keys at {url or issuer}: {error!r}") from None
        except jwt.PyJWTError as error:
            raise BackendUnavailable(f"the keys at {url}: {error}") from None
        self._published = {key.key_id or "": key for key in keys}

    # Scopes

    def _scopes(self, claims: dict[str, Any]) -> tuple[str, ...]:
        """The scopes that are for this resource server, without its prefix."""
        found = _words(claims.get("scope"))
        path = self._config.oauth2_additional_scopes_key
        if path:
            place: Any = claims
            for step in path.split("."):
                place = place.get(step) if isinstance(place, dict) else None
            if isinstance(place, dict):
                place = place.get(self._config.oauth2_resource_server_id)
            found += _words(place)
        return tuple(
            scope.removeprefix(self._prefix) for scope in found if scope.startswith(self._prefix)
        )

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """Some scope is for the vhost."""
        return self._is_good(identity) and any(
            matches(parts[0], vhost) for parts in _parsed(identity.state, PERMISSIONS)
        )

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """Some scope gives the permission for it."""
        return self._is_good(identity) and any(
            matches(parts[0], vhost) and matches(parts[1], name)
            for parts in _parsed(identity.state, (permission,))
        )

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """Some scope gives the permission for the exchange with this routing key."""
        return self._is_good(identity) and any(
            matches(parts[0], vhost) and matches(parts[1], exchange)
            and matches(parts[2], routing_key)
            for parts in _parsed(identity.state, (permission,))
        )  # fmt: skip

    def _is_good(self, identity: Identity) -> bool:
        ends_at_s = identity.expires_at_s
        return ends_at_s is None or self._clock.wall_time_s() < ends_at_s


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [str(item) for item in value] if isinstance(value, list) else []


@lru_cache(maxsize=1024)
def _parsed(
    scopes: tuple[str, ...], permissions: tuple[str, ...]
) -> tuple[tuple[str, str, str], ...]:
    """Patterns of vhost, name and routing key, of scopes for one of the permissions."""
    found = []
    for scope in scopes:
        permission, colon, rest = scope.partition(":")
        if colon and permission in permissions:
            parts = rest.split("/")
            if len(parts) in (2, 3):
                found.append((parts[0], parts[1], parts[2] if len(parts) == 3 else "*"))
    return tuple(found)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = [re.escape(unquote(part)) for part in pattern.split("*")]
    return re.compile(".*".join(parts), re.DOTALL)


def matches(pattern: str, name: str) -> bool:
    """Whether a name fits a pattern with * as wildcards and percent encoding."""
    return _compiled(pattern).fullmatch(name) is not None
