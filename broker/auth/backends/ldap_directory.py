"""Connections to LDAP servers, and what queries ask through them.

ldap3 waits for the network: all of this is for worker threads. Connections are kept and used again,
each by one thread at a time; whoever takes one binds it anew. The server may have closed it in the
meantime, and then the work is done once more on a new one. A result that is neither success nor "no
such entry" is an error and never an empty answer, since a query may be the negation of another.
Referrals to other servers are not followed, as in RabbitMQ: they would be told the passwords.
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

from broker.auth.backends.client_tls import VERIFY_NONE, client_context
from broker.auth.backends.ldap_queries import SINGLE_LEVEL
from broker.clock import Clock
from broker.config import Config

REFUSALS = (
    RESULT_INAPPROPRIATE_AUTHENTICATION,
    RESULT_INVALID_CREDENTIALS,
    RESULT_INVALID_DN_SYNTAX,
    RESULT_NO_SUCH_OBJECT,
)
"""Results of a bind that are about the user, and not about the server."""
ANY_ENTRY = "(objectClass=*)"

Result = TypeVar("Result")


class DirectoryError(Exception):
    """The directory cannot be asked, or does not answer; the text says why."""


class CredentialsRefused(Exception):
    """A bind failed because of its name or its password."""


@dataclass(frozen=True)
class Credentials:
    """Who asks."""

    dn: str
    password: str = field(repr=False)


class LdapServers:
    """The servers of the configuration, and the connections to them that nobody uses."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[tuple[ldap3.Connection, int]] = []
        self._is_closed = False
        self._timeout_s = _seconds(config.auth_ldap_timeout_ms)
        has_tls = config.auth_ldap_use_ssl or config.auth_ldap_use_starttls
        self._tls = _tls(config) if has_tls else None
        for name in config.auth_ldap_servers:
            self._server(name)

    def _server(self, name: str) -> ldap3.Server:
        """A new one for each connection: it remembers for minutes that it could not be reached."""
        try:
            return ldap3.Server(
                name,
                port=self._config.auth_ldap_port,
                use_ssl=self._config.auth_ldap_use_ssl,
                tls=self._tls,
                connect_timeout=self._timeout_s,
                get_info=ldap3.NONE,
            )
        except LDAPException as error:
            raise ValueError(f"auth_ldap.servers: '{name}' is no server: {error}") from None

    def ask(
        self, credentials: Credentials | None, work: Callable[["LdapDirectory"], Result]
    ) -> Result:
        """Do the work as somebody; None is nobody. Raises CredentialsRefused, DirectoryError."""
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
        credentials: Credentials | None,
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
        """Close the connections; those in use are closed when they come back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            _close(connection)

    # Connections

    def _take(self) -> ldap3.Connection | None:
        """The connection that was used last, if it was not idle for too long."""
        longest_ms = self._config.auth_ldap_idle_timeout_ms
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
            is_kept = not self._is_closed and self._config.auth_ldap_idle_timeout_ms != 0
            if is_kept:
                self._idle.append((connection, self._clock.now_ms()))
        if not is_kept:
            _close(connection)

    def _opened(self) -> ldap3.Connection:
        """A connection to the first server that can be reached."""
        problems = []
        for name in self._config.auth_ldap_servers:
            connection = ldap3.Connection(
                self._server(name),
                receive_timeout=self._timeout_s,
                auto_referrals=False,
                check_names=False,
            )
            try:
                connection.open(read_server_info=False)
                if self._config.auth_ldap_use_starttls and not connection.start_tls(
                    read_server_info=False
                ):
                    raise DirectoryError("it does not begin TLS")
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
        """There is such an entry."""
        return bool(self._search(dn, ANY_ENTRY, ldap3.BASE))

    def has_value(self, dn: str, attribute: str, value: str) -> bool:
        """An attribute of the entry has the value."""
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


def _bind(connection: ldap3.Connection, credentials: Credentials | None) -> None:
    if credentials is None:
        connection.authentication, connection.user = ldap3.ANONYMOUS, ""
        connection.password = None
    elif not credentials.password:
        # A directory takes this for an anonymous bind, and lets it succeed.
        raise CredentialsRefused("a bind needs a password")
    else:
        connection.authentication, connection.user = ldap3.SIMPLE, credentials.dn
        # ldap3 sends bytes as they are, and would change some characters of a text.
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
        # It cannot say goodbye, but has a socket still.
        with contextlib.suppress(LDAPException, OSError):
            connection.strategy.close()


def _seconds(timeout_ms: int | None) -> int | None:
    """Whole ones: ldap3 gives them to the socket as such."""
    return None if timeout_ms is None else max(1, round(timeout_ms / 1000))


def _tls(config: Config) -> ldap3.Tls:
    """What ldap3 makes a context of. Raises ValueError for bad files."""
    certfile, keyfile = config.auth_ldap_tls_certfile, config.auth_ldap_tls_keyfile
    cacertfile, password = config.auth_ldap_tls_cacertfile, config.auth_ldap_tls_password
    client_context(cacertfile, config.auth_ldap_tls_verify, certfile, keyfile, password)
    is_unchecked = config.auth_ldap_tls_verify == VERIFY_NONE
    server_name = config.auth_ldap_tls_sni
    sni = None if server_name in ("", "none") else server_name
    return ldap3.Tls(
        local_private_key_file=keyfile,
        local_certificate_file=certfile,
        local_private_key_password=password or None,
        validate=ssl.CERT_NONE if is_unchecked else ssl.CERT_REQUIRED,
        ca_certs_file=cacertfile,
        sni=sni,
        valid_names=[sni] if sni else None,
    )
