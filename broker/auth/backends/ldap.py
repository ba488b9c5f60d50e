"""Users and permissions from an LDAP directory, with RabbitMQ's queries (ldap_queries.py).

A login is a bind with a name that a pattern makes, or with the distinguished name of an entry that
is looked up: before the bind, by somebody else, or after it, by the user. An empty password is
refused before anything is asked: directories take such a bind for an anonymous one and let it
succeed. Permissions are queries, asked as the user or as somebody that the settings name.

The directory is asked in threads (ldap_directory.py), as many as there may be connections.
Facts: RabbitMQ's LDAP guide, and `rabbit_auth_backend_ldap`.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from broker.auth.backends.ldap_directory import (
    Credentials,
    CredentialsRefused,
    DirectoryError,
    LdapDirectory,
    LdapServers,
)
from broker.auth.backends.ldap_queries import (
    SUBTREE,
    Query,
    QueryError,
    Question,
    compile_query,
    fill,
)
from broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from broker.clock import Clock
from broker.config import Config
from broker.config.ldap_settings import ANONYMOUS

NONE = "none"

Result = TypeVar("Result")

logger = logging.getLogger("leveret.auth")


@dataclass(frozen=True)
class Entry:
    """What is remembered of a login: for queries that are asked as the user."""

    dn: str
    password: str | None = field(repr=False)


class LdapBackend:
    """Both kinds of backend (broker/auth/identity.py). An identity's state is its `Entry`."""

    def __init__(self, config: Config, clock: Clock) -> None:
        _check(config)
        self._config = config
        self._queries = {
            kind: _compiled(f"{kind}_access_query", getattr(config, f"auth_ldap_{kind}_query"))
            for kind in ("vhost", "resource", "topic")
        }
        self._tag_queries = {
            tag: _compiled(f"tag_queries.{tag}", text) for tag, text in config.auth_ldap_tag_queries
        }
        bases = (config.auth_ldap_group_lookup_base, config.auth_ldap_dn_lookup_base)
        self._group_base = next((base for base in bases if base not in ("", NONE)), "")
        self._servers = LdapServers(config, clock)
        self._threads = ThreadPoolExecutor(config.auth_ldap_pool_size, "leveret-ldap")

    # Logging in

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, if the directory takes the password."""
        if attempt.password == "":
            logger.error("LDAP: '%s' has an empty password, and is refused", attempt.name)
            return None
        if not _is_utf_8(attempt.name + (attempt.password or "")):
            logger.error("LDAP: '%s' or the password is not UTF-8, and is refused", attempt.name)
            return None
        return await self._in_thread(lambda: self._log_in(attempt.name, attempt.password))

    def _log_in(self, name: str, password: str | None) -> Identity | None:
        try:
            entry = self._entry(name, password)
        except CredentialsRefused as refusal:
            logger.info("LDAP: the login of '%s' is refused: %s", name, refusal)
            return None
        tags = self._true_of(self._tag_queries, entry, _user_variables(name))
        if self._config.auth_ldap_log != "false":
            logger.info("LDAP: '%s' logs in as %s, tags: %s", name, entry.dn, tags)
        return Identity(name, tuple(tags), authorization=self, state=entry)

    def _entry(self, name: str, password: str | None) -> Entry:
        """The user's entry, once the directory has taken the password. Raises CredentialsRefused.

        password: None if the name is proven otherwise.
        """
        if password is None:
            return Entry(self._looked_up_by(self._who_asks(None), name), None)
        if self._looks_up_first:
            dn = self._looked_up_by(self._who_looks_up(), name)
            return self._servers.ask(Credentials(dn, password), lambda _: Entry(dn, password))
        pattern = self._config.auth_ldap_user_bind_pattern
        bind_name = self._user_dn(name)
        if pattern not in ("", NONE):
            bind_name = fill(pattern, _user_variables(name))
        return self._servers.ask(
            Credentials(bind_name, password),
            lambda directory: Entry(self._looked_up(directory, name), password),
        )

    # Looking users up

    @property
    def _looks_up_first(self) -> bool:
        config = self._config
        is_somebody_else = config.auth_ldap_dn_lookup_bind_dn or (
            config.auth_ldap_dn_lookup_bind == ANONYMOUS
        )
        return config.auth_ldap_dn_lookup_attribute not in ("", NONE) and bool(is_somebody_else)

    def _who_looks_up(self) -> Credentials | None:
        dn = self._config.auth_ldap_dn_lookup_bind_dn
        return Credentials(dn, self._config.auth_ldap_dn_lookup_bind_password) if dn else None

    def _looked_up_by(self, who: Credentials | None, name: str) -> str:
        """The entry of a user who has not logged in yet."""
        if self._config.auth_ldap_dn_lookup_attribute in ("", NONE):
            return self._user_dn(name)
        try:
            return self._servers.ask(who, lambda directory: self._looked_up(directory, name))
        except CredentialsRefused as refusal:
            raise DirectoryError(f"the directory refuses who looks up users: {refusal}") from None

    def _looked_up(self, directory: LdapDirectory, name: str) -> str:
        """The distinguished name of a user's entry; without one, what the pattern makes."""
        config = self._config
        made, attribute = self._user_dn(name), config.auth_ldap_dn_lookup_attribute
        if attribute in ("", NONE):
            return made
        found = directory.find(config.auth_ldap_dn_lookup_base, attribute, made, SUBTREE)
        if len(found) == 1:
            return found[0]
        logger.warning("LDAP: %d entries have %s = '%s'; one should", len(found), attribute, made)
        return made

    def _user_dn(self, name: str) -> str:
        return fill(self._config.auth_ldap_user_dn_pattern, _user_variables(name))

    # Permissions

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The secret is a password."""
        return await self.authenticate(LoginAttempt(identity.name, secret, ""))

    async def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """As vhost_access_query says."""
        return await self._allows("vhost", identity, {"vhost": vhost})

    async def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """As resource_access_query says."""
        variables = {"vhost": vhost, "resource": kind, "name": name, "permission": permission}
        return await self._allows("resource", identity, variables)

    async def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """As topic_access_query says."""
        variables = {
            "vhost": vhost, "resource": "topic", "name": exchange, "permission": permission,
            "routing_key": routing_key, "variable_map.username": identity.name,
            "variable_map.vhost": vhost,
        }  # fmt: skip
        return await self._allows("topic", identity, variables)

    async def _allows(self, kind: str, identity: Identity, about: dict[str, str]) -> bool:
        variables = _user_variables(identity.name) | about
        query = {kind: self._queries[kind]}
        allowed = bool(
            await self._in_thread(lambda: self._true_of(query, identity.state, variables))
        )
        if self._config.auth_ldap_log != "false":
            answer = "allowed" if allowed else "refused"
            logger.info("LDAP: '%s' is %s: %s %s", identity.name, answer, kind, about)
        return allowed

    # Asking

    def _true_of(
        self, queries: dict[str, Query], entry: Entry, variables: dict[str, str]
    ) -> list[str]:
        """The names of those queries that are true."""
        if not queries:
            return []
        filled = variables | {"user_dn": entry.dn}

        def ask(directory: LdapDirectory) -> list[str]:
            question = Question(filled, directory, self._group_base)
            return [name for name, query in queries.items() if _is_true(name, query, question)]

        try:
            return self._servers.ask(self._who_asks(entry), ask)
        except CredentialsRefused as refusal:
            raise DirectoryError(f"the directory refuses who asks queries: {refusal}") from None

    def _who_asks(self, entry: Entry | None) -> Credentials | None:
        config = self._config
        if config.auth_ldap_bind_dn:
            return Credentials(config.auth_ldap_bind_dn, config.auth_ldap_bind_password)
        if config.auth_ldap_bind == ANONYMOUS:
            return None
        if entry is None or entry.password is None:
            raise DirectoryError(
                "auth_ldap.other_bind is as_user, and the user has logged in without a password: "
                "set auth_ldap.other_bind.user_dn"
            )
        return Credentials(entry.dn, entry.password)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except DirectoryError as error:
            raise BackendUnavailable(f"LDAP: {error}") from None
        except UnicodeError:
            # Its text may have a piece of the password.
            raise BackendUnavailable("LDAP: what is asked about is not UTF-8") from None

    async def close(self) -> None:
        """Close the connections, and end the threads."""
        self._servers.close()
        self._threads.shutdown(wait=False)


def _is_utf_8(text: str) -> bool:
    """Not so if some bytes could not be decoded: the network's names come with those escaped."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _user_variables(name: str) -> dict[str, str]:
    r"""What can be filled in for a user; those of Active Directory log in as `DOMAIN\user`."""
    parts = [part for part in name.split("\\", 1) if part]
    if len(parts) == 2:
        return {"username": name, "ad_domain": parts[0], "ad_user": parts[1]}
    return {"username": name}


def _is_true(name: str, query: Query, question: Question) -> bool:
    try:
        return query(question)
    except QueryError as error:
        user = question.variables["username"]
        logger.error("LDAP: the query %s has no answer for '%s': %s", name, user, error)
        return False


def _compiled(key: str, text: str) -> Query:
    try:
        return compile_query(text)
    except QueryError as error:
        raise ValueError(f"auth_ldap.{key}: {error}") from None


def _check(config: Config) -> None:
    """Raise ValueError for settings that cannot work together."""
    if not config.auth_ldap_servers:
        raise ValueError("auth_ldap.servers.1 has to be set")
    if config.auth_ldap_use_ssl and config.auth_ldap_use_starttls:
        raise ValueError("of auth_ldap.use_ssl and auth_ldap.use_starttls only one can be true")
    has_attribute = config.auth_ldap_dn_lookup_attribute not in ("", NONE)
    if has_attribute and config.auth_ldap_dn_lookup_base in ("", NONE):
        raise ValueError("auth_ldap.dn_lookup_attribute needs auth_ldap.dn_lookup_base")
    for key, dn, password in (
        ("dn_lookup_bind", config.auth_ldap_dn_lookup_bind_dn,
         config.auth_ldap_dn_lookup_bind_password),
        ("other_bind", config.auth_ldap_bind_dn, config.auth_ldap_bind_password),
    ):  # fmt: skip
        if dn and not password:
            raise ValueError(f"auth_ldap.{key}.user_dn needs auth_ldap.{key}.password")
