"""Users and permissions from an LDAP directory, with RabbitMQ's queries (ldap_queries.py).

A login is a bind with the user's distinguished name, which is made by a pattern or looked up. An
empty password is refused before anything is asked: directories take such a bind for an anonymous
one and let it succeed. ldap3 waits for the network, so all of it runs in a few worker threads.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import ldap3
from ldap3.core.exceptions import LDAPException
from ldap3.utils.conv import escape_filter_chars

from broker.auth.backends.ldap_queries import Directory, evaluate, fill, parse
from broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from broker.config import Config

THREADS = 8
Result = TypeVar("Result")


class LdapBackend:
    """Both kinds of backend (broker/auth/identity.py). An identity's state: its name and password,
    for the queries that are asked as the user.
    """

    def __init__(self, config: Config) -> None:
        if not config.auth_ldap_servers:
            raise ValueError("auth_ldap.servers.1 has to be set")
        self._config = config
        self._vhost_query = parse(config.auth_ldap_vhost_query)
        self._resource_query = parse(config.auth_ldap_resource_query)
        self._topic_query = parse(config.auth_ldap_topic_query)
        self._tag_queries = {name: parse(text) for name, text in config.auth_ldap_tag_queries}
        self._threads = ThreadPoolExecutor(THREADS, "leveret-ldap")

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, if the directory takes the password."""
        if attempt.password == "":
            return None
        return await self._in_thread(lambda: self._authenticate(attempt))

    def _authenticate(self, attempt: LoginAttempt) -> Identity | None:
        dn = self._dn_of(attempt.name)
        if dn is None:
            return None
        if attempt.password is not None and not self._can_bind(dn, attempt.password):
            return None
        state = (dn, attempt.password)
        variables = {"username": attempt.name, "user_dn": dn}
        with self._directory(state) as directory:
            tags = tuple(
                name
                for name, query in self._tag_queries.items()
                if evaluate(query, variables, directory)
            )
        return Identity(attempt.name, tags, authorization=self, state=state)

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The secret is a password."""
        return await self.authenticate(LoginAttempt(identity.name, secret, ""))

    async def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """As vhost_access_query says."""
        return await self._asks(self._vhost_query, identity, {"vhost": vhost})

    async def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """As resource_access_query says."""
        variables = {"vhost": vhost, "resource": kind, "name": name, "permission": permission}
        return await self._asks(self._resource_query, identity, variables)

    async def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """As topic_access_query says."""
        variables = {
            "vhost": vhost, "resource": "topic", "name": exchange, "permission": permission,
            "routing_key": routing_key,
        }  # fmt: skip
        return await self._asks(self._topic_query, identity, variables)

    async def _asks(self, query: Any, identity: Identity, variables: Mapping[str, str]) -> bool:
        filled = {"username": identity.name, "user_dn": identity.state[0], **variables}

        def ask() -> bool:
            with self._directory(identity.state) as directory:
                return evaluate(query, filled, directory)

        return await self._in_thread(ask)

    # The directory

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except LDAPException as error:
            raise BackendUnavailable(f"LDAP: {error}") from None

    def _connection(self, dn: str | None, password: str | None) -> ldap3.Connection:
        """Not bound yet. Raises LDAPException."""
        config = self._config
        seconds = max(1, config.auth_ldap_timeout_ms // 1000)
        servers = ldap3.ServerPool(
            [
                ldap3.Server(
                    name, port=config.auth_ldap_port, use_ssl=config.auth_ldap_use_ssl,
                    connect_timeout=seconds, get_info=ldap3.NONE,
                )
                for name in config.auth_ldap_servers
            ],
            ldap3.FIRST, active=1,
        )  # fmt: skip
        connection = ldap3.Connection(
            servers, user=dn or None, password=password or None, receive_timeout=seconds
        )
        if config.auth_ldap_use_starttls:
            connection.open()
            connection.start_tls()
        return connection

    def _can_bind(self, dn: str, password: str) -> bool:
        connection = self._connection(dn, password)
        try:
            return bool(connection.bind())
        finally:
            connection.unbind()

    @contextlib.contextmanager
    def _directory(self, state: tuple[str, str | None]) -> "Iterator[_Ldap3Directory]":
        """The directory, asked as the node's own user if there is one, or as whoever logs in."""
        config = self._config
        dn, password = state
        if config.auth_ldap_bind_dn:
            dn, password = config.auth_ldap_bind_dn, config.auth_ldap_bind_password
        connection = self._connection(dn if password else None, password)
        try:
            if not connection.bind():
                raise LDAPException(f"cannot bind as {dn}")
            yield _Ldap3Directory(connection)
        finally:
            connection.unbind()

    def _dn_of(self, name: str) -> str | None:
        config = self._config
        attribute, base = config.auth_ldap_dn_lookup_attribute, config.auth_ldap_dn_lookup_base
        if not attribute or not base:
            return fill(config.auth_ldap_user_dn_pattern, {"username": name})
        with self._directory(("", None)) as directory:
            found = directory.search(base, f"({attribute}={escape_filter_chars(name)})")
        return found[0] if len(found) == 1 else None

    async def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False)


class _Ldap3Directory(Directory):
    """A bound connection as the queries see it."""

    def __init__(self, connection: ldap3.Connection) -> None:
        self._connection = connection

    def search(
        self, base: str, condition: str, scope: Any = ldap3.SUBTREE, attribute: str = ""
    ) -> list[str]:
        """Distinguished names of what is found; or the values of an attribute of the first."""
        self._connection.search(
            base, condition, search_scope=scope, attributes=[attribute] if attribute else None
        )
        entries = [one for one in self._connection.response or [] if one.get("type") in _ENTRY]
        if not attribute:
            return [entry["dn"] for entry in entries]
        values = entries[0]["attributes"].get(attribute, []) if entries else []
        return [str(value) for value in (values if isinstance(values, list) else [values])]

    def exists(self, dn: str) -> bool:
        """There is such an entry."""
        return bool(self.search(dn, "(objectClass=*)", ldap3.BASE))

    def has_member(self, group: str, attribute: str, member: str) -> bool:
        """The group's attribute has the member's distinguished name."""
        condition = f"({attribute}={escape_filter_chars(member)})"
        return bool(self.search(group, condition, ldap3.BASE))

    def groups_of(self, member: str, attribute: str, base: str) -> list[str]:
        """The groups below a base whose attribute has the member."""
        return self.search(base, f"({attribute}={escape_filter_chars(member)})")

    def values(self, dn: str, attribute: str) -> list[str]:
        """The values of an entry's attribute."""
        return self.search(dn, "(objectClass=*)", ldap3.BASE, attribute)


_ENTRY = ("searchResEntry",)
