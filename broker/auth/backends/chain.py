"""The backends of the configuration, asked one after the other.

`auth_backends.1 = ldap` names a backend for both users and permissions; `auth_backends.1.authn` and
`auth_backends.1.authz` name two. The first that knows the credentials makes the identity. A backend
that cannot be asked counts as one that does not know them, and the log says so: a user of the next
backend is not locked out by it. Where permissions come from the internal backend for a user of
another, the user has to exist there, too, and has the tags of both, as in RabbitMQ
(`rabbit_access_control:check_user_login`).
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, cast

from broker.auth.backends.cache import CachedBackend
from broker.auth.backends.internal import InternalBackend
from broker.auth.identity import (
    AuthenticationBackend,
    AuthorizationBackend,
    BackendUnavailable,
    Identity,
    LoginAttempt,
)
from broker.clock import Clock
from broker.config import Config

MODULES = {
    "rabbit_auth_backend_internal": "internal",
    "rabbit_auth_backend_http": "http",
    "rabbit_auth_backend_ldap": "ldap",
    "rabbit_auth_backend_oauth2": "oauth2",
    "rabbit_auth_backend_cache": "cache",
    "oauth": "oauth2",
}
"""RabbitMQ's names."""

logger = logging.getLogger("leveret.auth")


class BackendError(ValueError):
    """The configuration of backends makes no sense; the text says which setting, and why."""


class Pair(NamedTuple):
    """Who says who somebody is, and who says what they may do."""

    authentication: AuthenticationBackend
    authorization: AuthorizationBackend


class Chain:
    """See `broker.auth.access_control.Chain`."""

    def __init__(self, pairs: list[Pair]) -> None:
        self._pairs = pairs

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, of the first backend that knows the credentials."""
        for pair in self._pairs:
            try:
                identity = await pair.authentication.authenticate(attempt)
                if identity is None:
                    continue
                return await self._paired(pair, identity, attempt)
            except BackendUnavailable as problem:
                logger.error("%s cannot be asked: %s", type(pair.authentication).__name__, problem)
        return None

    async def _paired(
        self, pair: Pair, identity: Identity, attempt: LoginAttempt
    ) -> Identity | None:
        other: Any = pair.authorization
        if other is pair.authentication or not isinstance(other, InternalBackend):
            return replace(identity, authorization=pair.authorization)
        known = await other.authenticate(replace(attempt, name=identity.name, password=None))
        if known is None:
            logger.error("user '%s' is not known to the internal backend", identity.name)
            return None
        tags = tuple(dict.fromkeys((*identity.tags, *known.tags)))
        return replace(identity, tags=tags, authorization=other)

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The identity with a new secret; None if it is refused."""
        for pair in self._pairs:
            if pair.authorization is identity.authorization:
                renewed = await pair.authentication.renew(identity, secret)
                if renewed is None:
                    return None
                return replace(renewed, authorization=identity.authorization)
        return None

    async def close(self) -> None:
        """Let go of connections."""
        for pair in self._pairs:
            for backend in pair:
                close = getattr(backend, "close", None)
                if close is not None:
                    await close()


def build_chain(config: Config, clock: Clock, internal: InternalBackend) -> Chain:
    """The chain that a configuration asks for. Raises BackendError."""
    makers: dict[str, Callable[[], Any]] = {
        "internal": lambda: internal,
        "http": lambda: _http(config),
        "ldap": lambda: _ldap(config),
        "oauth2": lambda: _oauth2(config, clock),
    }
    makers["cache"] = lambda: CachedBackend(
        made(config.auth_cache_backend), clock, config.auth_cache_ttl_ms, config.auth_cache_refusals
    )
    known: dict[str, Any] = {}

    def made(name: str) -> Any:
        short = MODULES.get(name, name)
        if short not in makers:
            raise BackendError(
                f"auth_backends: there is no backend '{name}'; known are {', '.join(makers)}"
            )
        if short not in known:
            try:
                known[short] = makers[short]()
            except (ValueError, OSError) as error:
                raise BackendError(f"the backend {short} cannot be set up: {error}") from error
        return known[short]

    both = dict(config.auth_backends)
    of_users = dict(config.auth_backends_authentication)
    of_permissions = dict(config.auth_backends_authorization)
    pairs = []
    for number in sorted({*both, *of_users, *of_permissions}, key=_by_number):
        who, what = of_users.get(number, both.get(number)), both.get(number)
        what = of_permissions.get(number, what)
        if who is None or what is None:
            raise BackendError(
                f"auth_backends.{number}: both authn and authz have to be set, or the two as one"
            )
        pairs.append(
            Pair(cast(AuthenticationBackend, made(who)), cast(AuthorizationBackend, made(what)))
        )
    return Chain(pairs)


# The clients of these take a fifth of a second to import: only who uses them waits for that.


def _http(config: Config) -> Any:
    from broker.auth.backends.http import HttpBackend  # noqa: PLC0415

    return HttpBackend(config)


def _ldap(config: Config) -> Any:
    from broker.auth.backends.ldap import LdapBackend  # noqa: PLC0415

    return LdapBackend(config)


def _oauth2(config: Config, clock: Clock) -> Any:
    from broker.auth.backends.oauth2 import OAuth2Backend  # noqa: PLC0415

    return OAuth2Backend(config, clock)


def _by_number(word: str) -> tuple[int, str]:
    return (int(word), "") if word.isdigit() else (1 << 30, word)
