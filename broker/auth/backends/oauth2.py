"""OAuth 2: a JSON web token is the password, and its scopes are the permissions.

The user name at login does not matter: the token says whom it is about. What it allows is known at
once (oauth2_scopes.py), until it ends; a client that wants to stay sends a new one in time. The
signature is checked first (oauth2_keys.py), and no claim means anything before that.
Facts: RabbitMQ's OAuth 2 guide, and `rabbit_auth_backend_oauth2`.
"""

import logging
import math
from dataclasses import dataclass, field
from typing import Any

import jwt

from broker.auth.backends.oauth2_keys import SigningKeys
from broker.auth.backends.oauth2_scopes import (
    ScopeRules,
    allows,
    allows_topic,
    allows_vhost,
    filled_in,
    tags_of,
    words,
)
from broker.auth.identity import Identity, LoginAttempt
from broker.clock import Clock
from broker.config import Config

USERNAME_CLAIMS = ("sub", "client_id")
UNKNOWN_USER = "unknown"
"""What RabbitMQ calls the user of a token that is about nobody."""

logger = logging.getLogger("leveret.auth")


class TokenRefused(Exception):
    """A token is not good; the text says why, and does not have the token in it."""


@dataclass(frozen=True)
class Token:
    """What is remembered of a token that is good. texts: its claims that are texts, by name."""

    user: str
    scopes: tuple[str, ...]
    ends_at_s: float | None = None
    texts: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class OAuth2Backend:
    """Both kinds of backend. An identity's state is its `Token`."""

    def __init__(self, config: Config, clock: Clock) -> None:
        if not config.oauth2_resource_server_id:
            raise ValueError("auth_oauth2.resource_server_id has to be set")
        self._config = config
        self._clock = clock
        self._keys = SigningKeys(config, clock)
        self._rules = _rules(config)
        self._username_claims = (*config.oauth2_username_claims, *USERNAME_CLAIMS)

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """Whom the token is about; whoever shows it may call themselves what they like."""
        if not attempt.password:
            return None
        try:
            token = await self._token(attempt.password)
        except TokenRefused as refusal:
            logger.error("OAuth 2: a token of '%s' is refused: %s", attempt.name, refusal)
            return None
        return self._identity(token)

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """A new token of the same user."""
        renewed = await self.authenticate(LoginAttempt(identity.name, secret, ""))
        if renewed is not None and renewed.state.user != identity.state.user:
            logger.error("OAuth 2: '%s' sent a token of '%s'", identity.name, renewed.name)
            return None
        return renewed

    def _identity(self, token: Token) -> Identity:
        tags = tags_of(token.scopes)
        return Identity(
            token.user, tags, authorization=self, state=token, expires_at_s=token.ends_at_s
        )

    # Tokens

    async def _token(self, text: str) -> Token:
        """The token, checked. Raises TokenRefused, BackendUnavailable."""
        claims = await self._signed_claims(text)
        ends_at_s = _moment(claims, "exp")
        begins_at_s = _moment(claims, "nbf")
        now_s = self._clock.wall_time_s()
        if ends_at_s is not None and ends_at_s <= now_s:
            raise TokenRefused(f"it ended at {ends_at_s:.0f}, and it is {now_s:.0f}")
        if begins_at_s is not None and begins_at_s > now_s:
            raise TokenRefused(f"it begins at {begins_at_s:.0f}, and it is {now_s:.0f}")
        own = self._config.oauth2_resource_server_id
        if self._config.oauth2_verify_audience and own not in words(claims.get("aud")):
            raise TokenRefused(f"its audience is {claims.get('aud')!r}, and not '{own}'")
        texts = {name: value for name, value in claims.items() if isinstance(value, str)}
        user = next((texts[one] for one in self._username_claims if texts.get(one)), UNKNOWN_USER)
        return Token(user, self._rules.scopes_of(claims), ends_at_s, tuple(sorted(texts.items())))

    async def _signed_claims(self, text: str) -> dict[str, Any]:
        """The claims, if the signature is right. Raises TokenRefused, BackendUnavailable."""
        try:
            key_id = jwt.get_unverified_header(text).get("kid", "")
            key = await self._keys.key(str(key_id))
            if key is None:
                raise TokenRefused(f"there is no key {key_id!r}")
            configured = self._config.oauth2_algorithms
            algorithms = [name for name in key.algorithms if not configured or name in configured]
            # The claims are looked at with the broker's own clock.
            options: Any = {"verify_signature": True} | dict.fromkeys(
                ("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss",
                 "verify_sub", "verify_jti"), False,
            )  # fmt: skip
            return jwt.decode(text, key.material, algorithms=algorithms, options=options)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise TokenRefused(str(error) or type(error).__name__) from None

    # Permissions

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """Some scope is for the vhost."""
        return self._is_good(identity) and allows_vhost(identity.state.scopes, vhost)

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """Some scope gives the permission for it."""
        return self._is_good(identity) and allows(identity.state.scopes, vhost, name, permission)

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """Some scope with a routing key gives the permission for the exchange and this key."""
        if not self._is_good(identity):
            return False
        scopes = filled_in(identity.state.scopes, dict(identity.state.texts) | {"vhost": vhost})
        return allows_topic(scopes, vhost, exchange, routing_key, permission)

    def _is_good(self, identity: Identity) -> bool:
        ends_at_s = identity.state.ends_at_s
        return ends_at_s is None or self._clock.wall_time_s() < ends_at_s


def _moment(claims: dict[str, Any], name: str) -> float | None:
    """A claim that is a time, in seconds since 1970. Raises TokenRefused if it is none."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise TokenRefused(f"its {name} is {value!r}, and not a time")
    return value


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        # A whole number, and more than a clock will ever show.
        return False


def _rules(config: Config) -> ScopeRules:
    """Where scopes are, and which are for this node. Raises ValueError."""
    own = config.oauth2_resource_server_id
    names, scopes = dict(config.oauth2_numbered_aliases), dict(config.oauth2_numbered_scopes)
    for number in names.keys() ^ scopes.keys():
        missing = "scope" if number in names else "alias"
        raise ValueError(f"auth_oauth2.scope_aliases.{number}.{missing} has to be set")
    numbered = {names[number]: scopes[number] for number in names}
    prefix = config.oauth2_scope_prefix
    return ScopeRules(
        own,
        f"{own}." if prefix is None else prefix,
        tuple(config.oauth2_additional_scopes_key.split()),
        dict(config.oauth2_scope_aliases) | numbered,
        config.oauth2_resource_server_type,
    )
