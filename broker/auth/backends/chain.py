"""The backends of the configuration, asked one after the other.

`auth_backends.1 = ldap` names a backend for both users and permissions; `auth_backends.1.authn` and
`auth_backends.1.authz` name two (pair.py). The first that knows the credentials makes the identity.
A backend that cannot be asked counts as one that does not know them, and the log says so: a user of
the next backend is not locked out by it.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, cast

from broker.auth.backends.cache import CachedBackend
from broker.auth.backends.internal import InternalBackend
from broker.auth.backends.pair import INTERNAL, LDAP, Backend, Pair
from broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from broker.clock import Clock
from broker.config import Config

HTTP, OAUTH2, CACHE = "http", "oauth2", "cache"
BACKENDS = (INTERNAL, HTTP, LDAP, OAUTH2, CACHE)
MODULES = {"oauth": OAUTH2} | {f"rabbit_auth_backend_{name}": name for name in BACKENDS}
"""RabbitMQ's names."""

logger = logging.getLogger("leveret.auth")


class BackendError(ValueError):
    """The configuration of backends makes no sense; the text says which setting, and why."""


class Step(NamedTuple):
    """One step of the chain. key: what the configuration has it under."""

    key: str
    pair: Pair


class Chain:
    """See `broker.auth.access_control.Chain`."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, of the first backend that knows the credentials."""
        for step in self._steps:
            try:
                identity = await step.pair.authenticate(attempt)
            except BackendUnavailable as problem:
                logger.error("%s cannot be asked about '%s': %s", step.key, attempt.name, problem)
                continue
            if identity is not None:
                return identity
            logger.debug("%s does not know '%s', or not so", step.key, attempt.name)
        return None

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The identity with a new secret; None if it is refused. Raises BackendUnavailable."""
        for step in self._steps:
            if step.pair.authorization is identity.authorization:
                renewed = await step.pair.renew(identity, secret)
                if renewed is None:
                    return None
                return replace(renewed, authorization=identity.authorization)
        logger.error("'%s' was let in by none of the backends, and is not renewed", identity.name)
        return None

    async def close(self) -> None:
        """Let go of connections."""
        for step in self._steps:
            await step.pair.close()


def build_chain(config: Config, clock: Clock, internal: InternalBackend) -> Chain:
    """The chain that a configuration asks for. Raises BackendError."""
    backends = _Backends(config, clock, internal)
    return Chain(
        [
            Step(f"auth_backends.{number}", backends.pair(f"auth_backends.{number}", who, what))
            for number, who, what in _numbered(config)
        ]
    )


def _numbered(config: Config) -> Iterator[tuple[str, str, str]]:
    """The numbers, in order, with the names of who is asked for users and for permissions."""
    both = dict(config.auth_backends)
    of_users = both | dict(config.auth_backends_authentication)
    of_permissions = both | dict(config.auth_backends_authorization)
    for number in sorted({*of_users, *of_permissions}, key=_by_number):
        if number not in of_users or number not in of_permissions:
            missing = "authz" if number in of_users else "authn"
            raise BackendError(
                f"auth_backends.{number}.{missing} is not set: set both authn and authz, or "
                f"auth_backends.{number} for the two as one"
            )
        yield number, of_users[number], of_permissions[number]


def _by_number(word: str) -> tuple[int, int, str]:
    return (0, int(word), "") if word.isdecimal() else (1, 0, word)


class _Backends:
    """Makes each backend that is named, once."""

    def __init__(self, config: Config, clock: Clock, internal: InternalBackend) -> None:
        self._config = config
        self._made: dict[str, Backend] = {}
        self._makers: dict[str, Callable[[], Any]] = {
            INTERNAL: lambda: internal,
            HTTP: lambda: _http(config),
            LDAP: lambda: _ldap(config, clock),
            OAUTH2: lambda: _oauth2(config, clock),
            CACHE: lambda: self._cache(clock),
        }

    def pair(self, key: str, who: str, what: str) -> Pair:
        """Two backends as one. key: of the setting that names them."""
        second = self._behind_cache(MODULES.get(what, what))
        return Pair(self._backend(key, who), self._backend(key, what), second)

    def _behind_cache(self, name: str) -> str:
        if name != CACHE:
            return name
        config = self._config
        cached = config.auth_cache_authorization or config.auth_cache_backend
        return MODULES.get(cached, cached)

    def _backend(self, key: str, given_name: str) -> Backend:
        name = MODULES.get(given_name, given_name)
        if name not in self._makers:
            raise BackendError(
                f"{key}: there is no backend '{given_name}'; known are {', '.join(BACKENDS)}"
            )
        if name not in self._made:
            try:
                self._made[name] = cast(Backend, self._makers[name]())
            except BackendError:
                raise
            except (ValueError, OSError) as error:
                raise BackendError(
                    f"{key}: the backend {name} cannot be set up: {error}"
                ) from error
        return self._made[name]

    def _cache(self, clock: Clock) -> CachedBackend:
        config, key = self._config, "auth_cache.cached_backend"
        who = config.auth_cache_authentication or config.auth_cache_backend
        what = config.auth_cache_authorization or config.auth_cache_backend
        for name in (who, what):
            if MODULES.get(name, name) == CACHE:
                raise BackendError(f"{key}: the cache cannot cache itself; name another backend")
        pair = self.pair(key, who, what)
        return CachedBackend(pair, clock, config.auth_cache_ttl_ms, config.auth_cache_refusals)


# The clients of these take a fifth of a second to import: only who uses them waits for that.


def _http(config: Config) -> Any:
    from broker.auth.backends.http import HttpBackend  # noqa: PLC0415

    return HttpBackend(config)


def _ldap(config: Config, clock: Clock) -> Any:
    from broker.auth.backends.ldap import LdapBackend  # noqa: PLC0415

    return LdapBackend(config, clock)


def _oauth2(config: Config, clock: Clock) -> Any:
    from broker.auth.backends.oauth2 import OAuth2Backend  # noqa: PLC0415

    return OAuth2Backend(config, clock)
