"""A backend for authentication combined with a backend for authorization.

Usually both are the same. If not, the second is asked at login, too: a user that it does not know
is refused, and the identity carries its state. The internal backend is asked about the name only,
other backends get the same password. The tags are those of the first backend, and of the second if
it has tags of its own. Facts: RabbitMQ's `rabbit_access_control`.
"""

import logging
from dataclasses import replace
from typing import Protocol

from leveret.broker.auth.identity import (
    Allowed,
    AuthenticationBackend,
    AuthorizationBackend,
    Identity,
    LoginAttempt,
)

INTERNAL, LDAP = "internal", "ldap"
WITH_TAGS = (INTERNAL, LDAP)
"""Authorization backends whose tags are added to those of the authentication backend."""

logger = logging.getLogger("leveret.auth")


class Backend(AuthenticationBackend, AuthorizationBackend, Protocol):
    """A backend for authentication and authorization; every backend is for both."""


class Pair:
    """Two backends combined."""

    def __init__(self, authentication: Backend, authorization: Backend, second: str) -> None:
        """second: the configured name of the authorization backend."""
        self.authentication = authentication
        self.authorization = authorization
        self._second = second

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, if both backends accept it."""
        identity = await self.authentication.authenticate(attempt)
        if identity is None or self.authorization is self.authentication:
            return identity
        password = None if self._second == INTERNAL else attempt.password
        again = replace(attempt, name=identity.name, password=password)
        known = await self.authorization.authenticate(again)
        if known is None:
            logger.error(
                "user '%s' is unknown to the authorization backend %s", identity.name, self._second
            )
            return None
        tags = (*identity.tags, *known.tags) if self._second in WITH_TAGS else identity.tags
        return replace(known, name=identity.name, tags=tuple(dict.fromkeys(tags)))

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The authorization backend decides, since permissions may depend on the secret."""
        renewed = await self.authorization.renew(identity, secret)
        return None if renewed is None else replace(renewed, name=identity.name, tags=identity.tags)

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> Allowed:
        """Ask the authorization backend."""
        return self.authorization.may_use_vhost(identity, vhost, peer_host)

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> Allowed:
        """Ask the authorization backend."""
        return self.authorization.may_use(identity, vhost, kind, name, permission)

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> Allowed:
        """Ask the authorization backend."""
        return self.authorization.may_use_topic(identity, vhost, exchange, routing_key, permission)

    async def close(self) -> None:
        """Close the connections of both."""
        for backend in {id(one): one for one in (self.authentication, self.authorization)}.values():
            close = getattr(backend, "close", None)
            if close is not None:
                await close()
