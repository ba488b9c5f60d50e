"""Who says who somebody is, together with who says what they may do.

Mostly that is one backend. Where it is two, the second is asked at login, too: whom it does not
know is refused, and what it remembers of a login goes with the identity. The internal backend is
asked about the name only, all others with the same password. The tags are those of the first, and
of the second if it is one that has tags of its own. Facts: RabbitMQ's `rabbit_access_control`.
"""

import logging
from dataclasses import replace
from typing import Protocol

from broker.auth.identity import (
    Answer,
    AuthenticationBackend,
    AuthorizationBackend,
    Identity,
    LoginAttempt,
)

INTERNAL, LDAP = "internal", "ldap"
WITH_TAGS = (INTERNAL, LDAP)
"""Backends whose tags count for users that another has let in."""

logger = logging.getLogger("leveret.auth")


class Backend(AuthenticationBackend, AuthorizationBackend, Protocol):
    """Both kinds in one, as all are."""


class Pair:
    """Two backends as one."""

    def __init__(self, authentication: Backend, authorization: Backend, second: str) -> None:
        """second: what the configuration calls the backend for permissions."""
        self.authentication = authentication
        self.authorization = authorization
        self._second = second

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, if both backends know it."""
        identity = await self.authentication.authenticate(attempt)
        if identity is None or self.authorization is self.authentication:
            return identity
        password = None if self._second == INTERNAL else attempt.password
        again = replace(attempt, name=identity.name, password=password)
        known = await self.authorization.authenticate(again)
        if known is None:
            logger.error("user '%s' is not known to the backend %s", identity.name, self._second)
            return None
        tags = (*identity.tags, *known.tags) if self._second in WITH_TAGS else identity.tags
        return replace(known, name=identity.name, tags=tuple(dict.fromkeys(tags)))

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """Permissions may depend on the secret, and so their backend judges it."""
        renewed = await self.authorization.renew(identity, secret)
        return None if renewed is None else replace(renewed, name=identity.name, tags=identity.tags)

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> Answer:
        """As the second says."""
        return self.authorization.may_use_vhost(identity, vhost, peer_host)

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> Answer:
        """As the second says."""
        return self.authorization.may_use(identity, vhost, kind, name, permission)

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> Answer:
        """As the second says."""
        return self.authorization.may_use_topic(identity, vhost, exchange, routing_key, permission)

    async def close(self) -> None:
        """Let go of the connections of both."""
        for backend in {id(one): one for one in (self.authentication, self.authorization)}.values():
            close = getattr(backend, "close", None)
            if close is not None:
                await close()
