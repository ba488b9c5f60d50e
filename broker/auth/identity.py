"""Who somebody turned out to be, and the backend that said so.

A login, over AMQP or over HTTP, asks the authentication backends of the configuration in turn
(`auth_backends.1 = ...`); the first that knows the credentials makes an `Identity`. What that
identity may do is asked of the authorization backend it names. Facts: RabbitMQ's documentation on
access control, and `rabbit_access_control`.
"""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Protocol

ADMINISTRATOR, MONITORING = "administrator", "monitoring"
POLICYMAKER, MANAGEMENT = "policymaker", "management"
"""The tags that mean something to the management API. Others may be given, and mean nothing."""

Answer = bool | Awaitable[bool]
"""Whether something is allowed: at once, or when somebody over the network has answered."""


class BackendUnavailable(Exception):
    """A backend cannot be asked now. Its text says which, and why; it is for the log."""


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """What somebody says at login.

    password: None if the name is proven otherwise (a certificate). peer_host: an IP address.
    source: what the log calls whoever it is; the address, if nothing better is known.
    """

    name: str
    password: str | None = field(repr=False)
    peer_host: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who is logged in.

    state: what the backend wants to remember of the login (claims of a token, an LDAP entry).
    expires_at_s: the wall-clock time, in seconds, after which the login is void; None: never.
    """

    name: str
    tags: tuple[str, ...] = ()
    authorization: "AuthorizationBackend | None" = field(default=None, repr=False, compare=False)
    state: Any = field(default=None, repr=False, compare=False)
    expires_at_s: float | None = None

    @property
    def is_administrator(self) -> bool:
        """May do everything in the management API."""
        return ADMINISTRATOR in self.tags

    @property
    def is_monitor(self) -> bool:
        """May see all connections, and the nodes."""
        return self._has_one_of(ADMINISTRATOR, MONITORING)

    @property
    def is_policymaker(self) -> bool:
        """May set policies and parameters in the vhosts it has access to."""
        return self._has_one_of(ADMINISTRATOR, POLICYMAKER)

    @property
    def may_use_management(self) -> bool:
        """May log in to the management API at all."""
        return self._has_one_of(ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT)

    def _has_one_of(self, *tags: str) -> bool:
        return not set(tags).isdisjoint(self.tags)


class AuthenticationBackend(Protocol):
    """Says who somebody is."""

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, or None if the credentials are wrong. Raises BackendUnavailable.

        An identity that is made here names this backend's authorization, unless the configuration
        pairs it with another one.
        """

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """connection.update-secret: the identity with new credentials; None if they are refused.

        Raises BackendUnavailable.
        """


class AuthorizationBackend(Protocol):
    """Says what an identity may do. Awaited answers may raise BackendUnavailable: a refusal."""

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> Answer:
        """Whether it may open the vhost."""

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> Answer:
        """Whether it may configure, write or read a queue or an exchange.

        kind: queue or exchange. permission: configure, write or read. The default exchange comes
        as ``amq.default``.
        """

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> Answer:
        """Whether it may publish (write) or bind (read) with this key on a topic exchange."""
