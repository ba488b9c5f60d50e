"""OAuth 2: the password is a JSON web token, and its scopes are the permissions.

The user name of the login is ignored: a claim of the token names the user. Permissions are decided
without waiting (oauth2_scopes.py), until the token expires; a client that stays connected sends a
new one before that. The signature is checked first (oauth2_keys.py), before any claim is used.
Facts: RabbitMQ's OAuth 2 guide, and `rabbit_auth_backend_oauth2`.
"""

import logging
import math
from dataclasses import dataclass, field
from typing import Any

import jwt

from leveret.broker.auth.backends.oauth2_keys import SigningKeys
from leveret.broker.auth.backends.oauth2_scopes import (
    ScopeRules,
    allows,
    allows_topic,
    allows_vhost,
    filled_in,
    tags_of,
    words,
)
from leveret.broker.auth.identity import Identity, LoginAttempt
from leveret.broker.config import Config
from leveret.broker.config.oauth2_settings import OAuth2Settings
from leveret.broker.runtime.clock import Clock

USERNAME_CLAIMS = ("sub", "client_id")
UNKNOWN_USER = "unknown"
"""RabbitMQ's name for the user of a token without a user name."""
TOKEN_LENGTH_MAX = 65_536
"""A token that names 200 groups of its user has 10,000 characters."""
REASON_LENGTH_MAX = 200
"""Characters of a refusal in the log: a token may contain anything as the id of its key."""

logger = logging.getLogger("leveret.auth")


class TokenRefused(Exception):
    """A token is not accepted; the text says why and does not contain the token."""


@dataclass(frozen=True)
class AcceptedToken:
    """The state of an accepted token. texts: its claims that are strings, by name."""

    user: str
    scopes: tuple[str, ...]
    ends_at_s: float | None = None
    texts: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class OAuth2Backend:
    """An authentication and authorization backend. An identity's state is its `AcceptedToken`."""

    def __init__(self, settings: OAuth2Settings, clock: Clock) -> None:
        if not settings.resource_server_id:
            raise ValueError("auth_oauth2.resource_server_id must be set")
        self._settings = settings
        self._clock = clock
        self._keys = SigningKeys(settings, clock)
        self._rules = _rules(settings)
        self._username_claims = (*settings.username_claims, *USERNAME_CLAIMS)

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity of the user in the token; the name of the login is ignored."""
        if not attempt.password:
            return None
        try:
            token = await self._token(attempt.password)
        except TokenRefused as refusal:
            reason = str(refusal)[:REASON_LENGTH_MAX]
            logger.error("OAuth 2: the token of '%s' is refused: %s", attempt.shown_name, reason)
            return None
        return self._identity(token)

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """Check a new token, which must be for the same user."""
        renewed = await self.authenticate(LoginAttempt(identity.name, secret, ""))
        if renewed is not None and renewed.state.user != identity.state.user:
            logger.error(
                "OAuth 2: '%s' sent a token for another user, '%s'", identity.name, renewed.name
            )
            return None
        return renewed

    def _identity(self, token: AcceptedToken) -> Identity:
        tags = tags_of(token.scopes)
        return Identity(
            token.user, tags, authorization=self, state=token, expires_at_s=token.ends_at_s
        )

    # Tokens

    async def _token(self, text: str) -> AcceptedToken:
        """Check a token. Raises TokenRefused, BackendUnavailable."""
        claims = await self._signed_claims(text)
        ends_at_s = _time_claim(claims, "exp")
        begins_at_s = _time_claim(claims, "nbf")
        now_s = self._clock.wall_time_s()
        if ends_at_s is not None and ends_at_s <= now_s:
            raise TokenRefused(f"it expired at {ends_at_s:.0f}, and now is {now_s:.0f}")
        if begins_at_s is not None and begins_at_s > now_s:
            raise TokenRefused(f"it is valid from {begins_at_s:.0f} on, and now is {now_s:.0f}")
        own = self._settings.resource_server_id
        if self._settings.verify_audience and own not in words(claims.get("aud")):
            raise TokenRefused(f"its audience is {claims.get('aud')!r}, without '{own}'")
        texts = {name: value for name, value in claims.items() if isinstance(value, str)}
        user = next((texts[one] for one in self._username_claims if texts.get(one)), UNKNOWN_USER)
        return AcceptedToken(
            user, self._rules.scopes_of(claims), ends_at_s, tuple(sorted(texts.items()))
        )

    async def _signed_claims(self, text: str) -> dict[str, Any]:
        """Check the signature and return the claims. Raises TokenRefused, BackendUnavailable."""
        if len(text) > TOKEN_LENGTH_MAX:
            raise TokenRefused(
                f"it has {len(text)} characters, at most {TOKEN_LENGTH_MAX} are read"
            )
        try:
            key_id = jwt.get_unverified_header(text).get("kid", "")
            key = await self._keys.key(str(key_id))
            if key is None:
                raise TokenRefused(f"there is no key {key_id!r}")
            configured = self._settings.algorithms
            algorithms = [name for name in key.algorithms if not configured or name in configured]
            # The times in the claims are checked against the broker's clock instead.
            options: Any = {"verify_signature": True} | dict.fromkeys(
                ("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss",
                 "verify_sub", "verify_jti"), False,
            )  # fmt: skip
            return jwt.decode(text, key.material, algorithms=algorithms, options=options)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise TokenRefused(str(error) or type(error).__name__) from None

    # Permissions

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """Whether some scope is for the vhost."""
        return self._is_good(identity) and allows_vhost(identity.state.scopes, vhost)

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """Whether some scope gives the permission."""
        return self._is_good(identity) and allows(identity.state.scopes, vhost, name, permission)

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """Whether some scope with a routing key gives the permission for this key."""
        if not self._is_good(identity):
            return False
        scopes = filled_in(identity.state.scopes, dict(identity.state.texts) | {"vhost": vhost})
        return allows_topic(scopes, vhost, exchange, routing_key, permission)

    def _is_good(self, identity: Identity) -> bool:
        ends_at_s = identity.state.ends_at_s
        return ends_at_s is None or self._clock.wall_time_s() < ends_at_s


def _time_claim(claims: dict[str, Any], name: str) -> float | None:
    """A claim that is a time, in seconds since 1970. Raises TokenRefused if it is not a time."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise TokenRefused(f"its {name} is {value!r}, which is not a time")
    return value


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        # An integer beyond the range of float.
        return False


def _rules(settings: OAuth2Settings) -> ScopeRules:
    """The rules for finding this node's scopes in tokens. Raises ValueError."""
    own = settings.resource_server_id
    names, scopes = dict(settings.numbered_aliases), dict(settings.numbered_scopes)
    for number in names.keys() ^ scopes.keys():
        missing = "scope" if number in names else "alias"
        raise ValueError(f"auth_oauth2.scope_aliases.{number}.{missing} must be set")
    numbered = {names[number]: scopes[number] for number in names}
    prefix = settings.scope_prefix
    return ScopeRules(
        own,
        f"{own}." if prefix is None else prefix,
        tuple(settings.additional_scopes_key.split()),
        dict(settings.scope_aliases) | numbered,
        settings.resource_server_type,
    )


def oauth2_backend(config: Config, clock: Clock) -> OAuth2Backend:
    """The backend that the settings describe. Raises ValueError, OSError."""
    return OAuth2Backend(config.oauth2, clock)
