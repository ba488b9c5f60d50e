"""The result of a login, and the protocols of authentication and authorization backends.

A login, over AMQP or over HTTP, asks the configured authentication backends in turn
(`auth_backends.1 = ...`); the first that accepts the credentials returns an `Identity`, which names
the authorization backend that decides on its permissions. Facts: RabbitMQ's documentation on
access control, and `rabbit_access_control`.
"""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Protocol

ADMINISTRATOR, MONITORING = "administrator", "monitoring"
POLICYMAKER, MANAGEMENT = "policymaker", "management"
"""The tags that the management API knows. Others are allowed and have no effect."""

AMQP, HTTP = "amqp091", "http"
"""RabbitMQ's names of the protocols of logins."""
SHOWN_NAME_MAX = 100

Allowed = bool | Awaitable[bool]
"""Whether something is allowed: a result, or the pending answer of a backend over the network."""


class BackendUnavailable(Exception):
    """A backend cannot be reached. The text, which is for the log, says which one and why."""


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """The credentials of a login.

    password: None if the name is authenticated otherwise (a certificate). peer_host: an IP address.
    source: the name of the client in the log; by default its address. protocol: the one under which
    attempts are counted.
    """

    name: str
    password: str | None = field(repr=False)
    peer_host: str
    source: str = ""
    protocol: str = AMQP

    @property
    def shown_name(self) -> str:
        """The name for the log, shortened: a client chooses its length before it has logged in."""
        return self.name[:SHOWN_NAME_MAX]


@dataclass(frozen=True, slots=True)
class Identity:
    """A logged-in user.

    state: data of the backend about this login (claims of a token, an LDAP entry). expires_at_s:
    the wall-clock time, in seconds, at which the login expires; None for never. client_id: the
    client's identifier in MQTT, for topic permissions; empty in other protocols.
    """

    name: str
    tags: tuple[str, ...] = ()
    authorization: "AuthorizationBackend | None" = field(default=None, repr=False, compare=False)
    state: Any = field(default=None, repr=False, compare=False)
    expires_at_s: float | None = None
    client_id: str = ""

    @property
    def is_administrator(self) -> bool:
        """Whether the user may do everything in the management API."""
        return ADMINISTRATOR in self.tags

    @property
    def is_monitor(self) -> bool:
        """Whether the user may see all connections, and the nodes."""
        return self._has_one_of(ADMINISTRATOR, MONITORING)

    @property
    def is_policymaker(self) -> bool:
        """Whether the user may set policies and parameters in the vhosts it has access to."""
        return self._has_one_of(ADMINISTRATOR, POLICYMAKER)

    @property
    def may_use_management(self) -> bool:
        """Whether the user may log in to the management API."""
        return self._has_one_of(ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT)

    def _has_one_of(self, *tags: str) -> bool:
        return not set(tags).isdisjoint(self.tags)


class AuthenticationBackend(Protocol):
    """Checks credentials."""

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, or None if the credentials are wrong. Raises BackendUnavailable.

        The identity names this backend as the authorization backend, unless the configuration
        pairs it with another one.
        """

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """connection.update-secret: the identity with new credentials; None if they are refused.

        Raises BackendUnavailable.
        """


class AuthorizationBackend(Protocol):
    """Decides on permissions. BackendUnavailable, from an awaited answer, counts as a refusal."""

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> Allowed:
        """Whether the identity may access the vhost."""

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> Allowed:
        """Whether the identity may configure, write or read a queue or an exchange.

        kind: queue or exchange. permission: configure, write or read. The default exchange is
        called ``amq.default``.
        """

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> Allowed:
        """Whether the identity may publish (write) or bind (read) with this key."""
