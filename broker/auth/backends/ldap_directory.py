"""Connections to LDAP servers, and the searches of queries.

ldap3 blocks while it waits for the network: all of this runs in worker threads. Connections are
pooled; each is used by one thread at a time, and bound again for each use. If the server has closed
a pooled connection, the work is repeated on a new one. A result that is neither success nor "no
such entry" is an error and never an empty answer, since a query may be the negation of another.
Referrals are not followed, as in RabbitMQ: other servers would receive the passwords.
"""

import contextlib
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import ldap3
from ldap3.core.exceptions import LDAPCommunicationError, LDAPException
from ldap3.core.results import (
    RESULT_INAPPROPRIATE_AUTHENTICATION,
    RESULT_INVALID_CREDENTIALS,
    RESULT_INVALID_DN_SYNTAX,
    RESULT_NO_SUCH_OBJECT,
    RESULT_SUCCESS,
)
from ldap3.utils.conv import escape_filter_chars

from leveret.broker.auth.backends.client_tls import client_context
from leveret.broker.auth.backends.ldap_queries import SINGLE_LEVEL
from leveret.broker.config.ldap_settings import LdapSettings
from leveret.broker.config.tls_settings import VERIFY_NONE, ClientTlsOptions
from leveret.broker.runtime.clock import Clock

REFUSALS = (
    RESULT_INAPPROPRIATE_AUTHENTICATION,
    RESULT_INVALID_CREDENTIALS,
    RESULT_INVALID_DN_SYNTAX,
    RESULT_NO_SUCH_OBJECT,
)
"""Results of a bind that mean wrong credentials, and not a failure of the server."""
ANY_ENTRY = "(objectClass=*)"

Result = TypeVar("Result")


class DirectoryError(Exception):
    """The directory is unavailable or failed; the text says why."""


class CredentialsRefused(Exception):
    """A bind failed because of its name or password."""


@dataclass(frozen=True)
class BindCredentials:
    """The name and password of a bind."""

    dn: str
    password: str = field(repr=False)


class LdapServers:
    """The configured servers, and the pool of idle connections to them."""

    def __init__(self, settings: LdapSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[tuple[ldap3.Connection, int]] = []
        self._is_closed = False
        self._timeout_s = _seconds(settings.timeout_ms)
        has_tls = settings.use_ssl or settings.use_starttls
        self._tls = _tls(settings.tls) if has_tls else None
        for name in settings.servers:
            self._server(name)

    def _server(self, name: str) -> ldap3.Server:
        """A new object for each connection: ldap3's remembers for minutes that it failed."""
        try:
            return ldap3.Server(
                name,
                port=self._settings.port,
                use_ssl=self._settings.use_ssl,
                tls=self._tls,
                connect_timeout=self._timeout_s,
                get_info=ldap3.NONE,
            )
        except LDAPException as error:
            raise ValueError(f"auth_ldap.servers: '{name}' is not a server: {error}") from None

    def ask(
        self, credentials: BindCredentials | None, work: Callable[["LdapDirectory"], Result]
    ) -> Result:
        """Bind and run the work. Raises CredentialsRefused, DirectoryError.

        credentials: None for an anonymous bind.
        """
        try:
            kept = self._take()
            if kept is not None:
                with contextlib.suppress(LDAPCommunicationError):
                    return self._ask_on(kept, credentials, work)
            return self._ask_on(self._opened(), credentials, work)
        except (LDAPException, OSError) as error:
            raise DirectoryError(str(error)) from None

    def _ask_on(
        self,
        connection: ldap3.Connection,
        credentials: BindCredentials | None,
        work: Callable[["LdapDirectory"], Result],
    ) -> Result:
        is_good = True
        try:
            _bind(connection, credentials)
            return work(LdapDirectory(connection))
        except (LDAPException, OSError):
            is_good = False
            raise
        finally:
            if is_good:
                self._put_back(connection)
            else:
                _close(connection)

    def close(self) -> None:
        """Close idle connections; those in use are closed when they are returned."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            _close(connection)

    # Connections

    def _take(self) -> ldap3.Connection | None:
        """The most recently used idle connection, unless it was idle for too long."""
        longest_ms = self._settings.idle_timeout_ms
        now_ms = self._clock.now_ms()
        with self._lock:
            stale = [
                one for one in self._idle if longest_ms is not None and now_ms - one[1] > longest_ms
            ]
            self._idle = self._idle[len(stale) :]
            taken = self._idle.pop()[0] if self._idle else None
        for connection, _ in stale:
            _close(connection)
        return taken

    def _put_back(self, connection: ldap3.Connection) -> None:
        with self._lock:
            is_kept = not self._is_closed and self._settings.idle_timeout_ms != 0
            if is_kept:
                self._idle.append((connection, self._clock.now_ms()))
        if not is_kept:
            _close(connection)

    def _opened(self) -> ldap3.Connection:
        """Open a connection to the first server that can be reached. Raises DirectoryError."""
        problems = []
        for name in self._settings.servers:
            connection = ldap3.Connection(
                self._server(name),
                receive_timeout=self._timeout_s,
                auto_referrals=False,
                check_names=False,
            )
            try:
                connection.open(read_server_info=False)
                if self._settings.use_starttls and not connection.start_tls(read_server_info=False):
                    raise DirectoryError("the server refuses StartTLS")
                return connection
            except (LDAPException, OSError, DirectoryError) as error:
                _close(connection)
                problems.append(f"{name}: {error}")
        raise DirectoryError("; ".join(problems))


class LdapDirectory:
    """A bound connection as queries see it (ldap_queries.Directory). Raises DirectoryError."""

    def __init__(self, connection: ldap3.Connection) -> None:
        self._connection = connection

    def exists(self, dn: str) -> bool:
        """Whether the entry exists."""
        return bool(self._search(dn, ANY_ENTRY, ldap3.BASE))

    def has_value(self, dn: str, attribute: str, value: str) -> bool:
        """Whether an attribute of the entry has the value."""
        return bool(self._search(dn, _condition(attribute, value), ldap3.BASE))

    def find(self, base: str, attribute: str, value: str, scope: str) -> list[str]:
        """The distinguished names of entries below a base whose attribute has the value."""
        depth = ldap3.LEVEL if scope == SINGLE_LEVEL else ldap3.SUBTREE
        return [entry["dn"] for entry in self._search(base, _condition(attribute, value), depth)]

    def values(self, dn: str, attribute: str) -> list[str]:
        """The values of an entry's attribute."""
        for entry in self._search(dn, ANY_ENTRY, ldap3.BASE, [attribute]):
            for name, values in entry["raw_attributes"].items():
                if name.lower() == attribute.lower():
                    return [value.decode("utf-8", "surrogateescape") for value in values]
        return []

    def _search(
        self, base: str, condition: str, scope: str, attributes: list[str] | None = None
    ) -> list[dict[str, Any]]:
        self._connection.search(base, condition, search_scope=scope, attributes=attributes)
        result = self._connection.result
        if result["result"] not in (RESULT_SUCCESS, RESULT_NO_SUCH_OBJECT):
            raise DirectoryError(f"searching {base}: {result['description']}")
        found = self._connection.response or []
        return [entry for entry in found if entry["type"] == "searchResEntry"]


def _condition(attribute: str, value: str) -> str:
    return f"({attribute}={escape_filter_chars(value)})"


def _bind(connection: ldap3.Connection, credentials: BindCredentials | None) -> None:
    if credentials is None:
        connection.authentication, connection.user = ldap3.ANONYMOUS, ""
        connection.password = None
    elif not credentials.password:
        # A directory treats this as an anonymous bind and accepts it.
        raise CredentialsRefused("a bind needs a password")
    else:
        connection.authentication, connection.user = ldap3.SIMPLE, credentials.dn
        # ldap3 sends bytes unchanged, but normalizes some characters of a str.
        connection.password = credentials.password.encode("utf-8", "surrogateescape")
    connection.bind(read_server_info=False)
    connection.password = None
    result = connection.result
    if result["result"] in REFUSALS:
        raise CredentialsRefused(result["description"])
    if result["result"] != RESULT_SUCCESS:
        raise DirectoryError(f"binding: {result['description']}")


def _close(connection: ldap3.Connection) -> None:
    try:
        connection.unbind()
    except (LDAPException, OSError):
        # The unbind could not be sent, but the socket is still open.
        with contextlib.suppress(LDAPException, OSError):
            connection.strategy.close()


def _seconds(timeout_ms: int | None) -> int | None:
    """A timeout in whole seconds, as ldap3 needs it."""
    return None if timeout_ms is None else max(1, round(timeout_ms / 1000))


def _tls(tls: ClientTlsOptions) -> ldap3.Tls:
    """The TLS options for ldap3. Raises ValueError for invalid files."""
    client_context(tls)
    sni = tls.server_name
    return ldap3.Tls(
        local_private_key_file=tls.keyfile,
        local_certificate_file=tls.certfile,
        local_private_key_password=tls.password or None,
        validate=ssl.CERT_NONE if tls.verify == VERIFY_NONE else ssl.CERT_REQUIRED,
        ca_certs_file=tls.cacertfile,
        sni=sni,
        valid_names=[sni] if sni else None,
    )
