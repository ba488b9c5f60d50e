"""The configured backends, asked one after the other.

`auth_backends.1 = ldap` names a backend for both authentication and authorization;
`auth_backends.1.authn` and `auth_backends.1.authz` name one for each (pair.py). The first backend
that accepts the credentials decides. A backend that is unavailable is logged and skipped, so that
it does not lock out the users of the next one.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from leveret.broker.auth.backends.cache import CachedBackend
from leveret.broker.auth.backends.internal import InternalBackend
from leveret.broker.auth.backends.pair import INTERNAL, LDAP, Backend, Pair
from leveret.broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from leveret.broker.config import Config
from leveret.broker.config.authentication_settings import AuthenticationSettings
from leveret.broker.config.setting_error import described
from leveret.broker.plugins.extensions import Extensions
from leveret.broker.plugins.own_plugins import contributed
from leveret.broker.runtime.clock import Clock

HTTP, OAUTH2, CACHE = "http", "oauth2", "cache"
BACKENDS = (INTERNAL, HTTP, LDAP, OAUTH2, CACHE)
MODULES = {"oauth": OAUTH2} | {f"rabbit_auth_backend_{name}": name for name in BACKENDS}
"""Backends by the names of RabbitMQ's modules."""

Maker = Callable[[Config, Clock], Backend]

logger = logging.getLogger("leveret.auth")


class BackendError(ValueError):
    """The configuration of backends is invalid; the text names the setting and the reason."""


class ChainStep(NamedTuple):
    """One step of the chain. key: the key of the setting that configures it."""

    key: str
    pair: Pair


class Chain:
    """The configured backends in their order, as an `access_control.BackendChain`."""

    def __init__(self, steps: list[ChainStep]) -> None:
        self._steps = steps

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity from the first backend that accepts the credentials; None if none does."""
        for step in self._steps:
            try:
                identity = await step.pair.authenticate(attempt)
            except BackendUnavailable as problem:
                logger.error(
                    "%s cannot check the credentials of '%s': %s",
                    step.key, attempt.shown_name, problem,
                )  # fmt: skip
                continue
            if identity is not None:
                return identity
            logger.debug("%s does not accept the credentials of '%s'", step.key, attempt.shown_name)
        return None

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The identity with a new secret; None if it is refused. Raises BackendUnavailable."""
        for step in self._steps:
            if step.pair.authorization is identity.authorization:
                renewed = await step.pair.renew(identity, secret)
                if renewed is None:
                    return None
                return replace(renewed, authorization=identity.authorization)
        logger.error(
            "'%s' cannot renew its credentials: no configured backend had accepted them",
            identity.name,
        )
        return None

    async def close(self) -> None:
        """Close the connections of all backends."""
        for step in self._steps:
            await step.pair.close()


def build_chain(config: Config, clock: Clock, internal: InternalBackend) -> Chain:
    """Make the chain of a configuration. Raises BackendError."""
    backends = _Backends(config, clock, internal)
    return Chain(
        [
            ChainStep(
                f"auth_backends.{number}", backends.pair(f"auth_backends.{number}", who, what)
            )
            for number, who, what in _numbered(config.authentication)
        ]
    )


def _numbered(settings: AuthenticationSettings) -> Iterator[tuple[str, str, str]]:
    """Yield each number, in order, with the backends for authentication and authorization."""
    both = dict(settings.backends)
    of_users = both | dict(settings.backends_authentication)
    of_permissions = both | dict(settings.backends_authorization)
    for number in sorted({*of_users, *of_permissions}, key=_by_number):
        if number not in of_users or number not in of_permissions:
            missing = "authz" if number in of_users else "authn"
            raise BackendError(
                f"auth_backends.{number}.{missing} is not set: set both authn and authz, or "
                f"auth_backends.{number} for both"
            )
        yield number, of_users[number], of_permissions[number]


def _by_number(word: str) -> tuple[int, int, str]:
    return (0, int(word), "") if word.isdecimal() else (1, 0, word)


MAKERS: Extensions[Maker] = Extensions("leveret.auth_backends", {}, contributed("auth_backends"))
"""Makers of the backends that ask a server. They raise ValueError or OSError for bad settings.

Importing the clients of Leveret's own takes 200 ms, so only a node that uses them does.
"""


class _Backends:
    """Makes each configured backend once."""

    def __init__(self, config: Config, clock: Clock, internal: InternalBackend) -> None:
        self._config = config
        self._clock = clock
        self._made: dict[str, Backend] = {INTERNAL: internal}

    def pair(self, key: str, who: str, what: str) -> Pair:
        """Combine two backends. key: the key of the setting that names them."""
        second = self._behind_cache(MODULES.get(what, what))
        return Pair(self._backend(key, who), self._backend(key, what), second)

    def _behind_cache(self, name: str) -> str:
        if name != CACHE:
            return name
        settings = self._config.auth_cache
        cached = settings.authorization or settings.backend
        return MODULES.get(cached, cached)

    def _backend(self, key: str, given_name: str) -> Backend:
        name = MODULES.get(given_name, given_name)
        if name not in self._made:
            self._made[name] = self._cache() if name == CACHE else self._make(key, given_name)
        return self._made[name]

    def _make(self, key: str, given_name: str) -> Backend:
        name = MODULES.get(given_name, given_name)
        if name not in MAKERS:
            known = ", ".join(dict.fromkeys((*BACKENDS, *MAKERS)))
            raise BackendError(f"{key}: there is no backend '{given_name}'; backends are {known}")
        try:
            return MAKERS[name](self._config, self._clock)
        except (ValueError, OSError) as error:
            reason = described(error) if isinstance(error, OSError) else error
            raise BackendError(f"{key}: the backend {name} cannot be set up: {reason}") from error

    def _cache(self) -> CachedBackend:
        settings, key = self._config.auth_cache, "auth_cache.cached_backend"
        who = settings.authentication or settings.backend
        what = settings.authorization or settings.backend
        for name in (who, what):
            if MODULES.get(name, name) == CACHE:
                raise BackendError(f"{key}: the cache cannot cache itself; name another backend")
        pair = self.pair(key, who, what)
        return CachedBackend(pair, self._clock, settings.ttl_ms, settings.refusals)
