"""Users and permissions from an LDAP directory, with RabbitMQ's queries (ldap_queries.py).

A login is a bind with a name made from a pattern, or with the distinguished name of an entry that
is looked up: before the bind, by a configured entry, or after it, by the user. An empty password is
refused without asking the directory, which would treat such a bind as anonymous and accept it.
Permissions are queries, run as the user or as a configured entry.

The directory is asked in threads (ldap_directory.py), one per connection.
Facts: RabbitMQ's LDAP guide, and `rabbit_auth_backend_ldap`.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from leveret.broker.auth.backends.ldap_directory import (
    BindCredentials,
    CredentialsRefused,
    DirectoryError,
    LdapDirectory,
    LdapServers,
)
from leveret.broker.auth.backends.ldap_queries import (
    SUBTREE,
    LdapQuestion,
    Query,
    QueryError,
    compile_query,
    fill,
)
from leveret.broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from leveret.broker.config import Config
from leveret.broker.config.ldap_settings import ANONYMOUS, LdapSettings
from leveret.broker.runtime.clock import Clock

NONE = "none"

Result = TypeVar("Result")

logger = logging.getLogger("leveret.auth")


@dataclass(frozen=True)
class DirectoryEntry:
    """The state of a login, for queries that run as the user. password: None if unknown."""

    dn: str
    password: str | None = field(repr=False)


class LdapBackend:
    """An authentication and authorization backend. An identity's state is its `DirectoryEntry`."""

    def __init__(self, settings: LdapSettings, clock: Clock) -> None:
        _check(settings)
        self._settings = settings
        self._queries = {
            kind: _compiled(f"{kind}_access_query", getattr(settings, f"{kind}_query"))
            for kind in ("vhost", "resource", "topic")
        }
        self._tag_queries = {
            tag: _compiled(f"tag_queries.{tag}", text) for tag, text in settings.tag_queries
        }
        bases = (settings.group_lookup_base, settings.dn_lookup_base)
        self._group_base = next((base for base in bases if base not in ("", NONE)), "")
        self._servers = LdapServers(settings, clock)
        self._threads = ThreadPoolExecutor(settings.pool_size, "leveret-ldap")

    # Login

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, if the directory accepts the password."""
        if attempt.password == "":
            logger.error(
                "LDAP: the login of '%s' is refused: the password is empty", attempt.shown_name
            )
            return None
        if not _is_utf_8(attempt.name + (attempt.password or "")):
            logger.error(
                "LDAP: the login of '%s' is refused: the name or the password is not UTF-8",
                attempt.shown_name,
            )
            return None
        return await self._in_thread(lambda: self._log_in(attempt.name, attempt.password))

    def _log_in(self, name: str, password: str | None) -> Identity | None:
        try:
            entry = self._entry(name, password)
        except CredentialsRefused as refusal:
            logger.info("LDAP: the login of '%s' is refused: %s", name, refusal)
            return None
        tags = self._true_of(self._tag_queries, entry, _user_variables(name))
        if self._settings.log != "false":
            told = ", ".join(tags) or "none"
            logger.info("LDAP: '%s' logs in as %s, tags: %s", name, entry.dn, told)
        return Identity(name, tuple(tags), authorization=self, state=entry)

    def _entry(self, name: str, password: str | None) -> DirectoryEntry:
        """Bind as the user and return the user's entry. Raises CredentialsRefused, DirectoryError.

        password: None if the name is authenticated otherwise.
        """
        if password is None:
            return DirectoryEntry(self._looked_up_by(self._who_asks(None), name), None)
        if self._looks_up_first:
            dn = self._looked_up_by(self._who_looks_up(), name)
            return self._servers.ask(
                BindCredentials(dn, password), lambda _: DirectoryEntry(dn, password)
            )
        pattern = self._settings.user_bind_pattern
        bind_name = self._user_dn(name)
        if pattern not in ("", NONE):
            bind_name = fill(pattern, _user_variables(name))
        return self._servers.ask(
            BindCredentials(bind_name, password),
            lambda directory: DirectoryEntry(self._looked_up(directory, name), password),
        )

    # User entries

    @property
    def _looks_up_first(self) -> bool:
        settings = self._settings
        is_another_user = settings.dn_lookup_bind_dn or (settings.dn_lookup_bind == ANONYMOUS)
        return settings.dn_lookup_attribute not in ("", NONE) and bool(is_another_user)

    def _who_looks_up(self) -> BindCredentials | None:
        dn = self._settings.dn_lookup_bind_dn
        return BindCredentials(dn, self._settings.dn_lookup_bind_password) if dn else None

    def _looked_up_by(self, who: BindCredentials | None, name: str) -> str:
        """Look up the entry of a user before the user's bind."""
        if self._settings.dn_lookup_attribute in ("", NONE):
            return self._user_dn(name)
        try:
            return self._servers.ask(who, lambda directory: self._looked_up(directory, name))
        except CredentialsRefused as refusal:
            raise DirectoryError(
                f"the directory refuses the credentials for looking up users: {refusal}"
            ) from None

    def _looked_up(self, directory: LdapDirectory, name: str) -> str:
        """The distinguished name of a user's entry; without an entry, that from the pattern."""
        settings = self._settings
        made, attribute = self._user_dn(name), settings.dn_lookup_attribute
        if attribute in ("", NONE):
            return made
        found = directory.find(settings.dn_lookup_base, attribute, made, SUBTREE)
        if len(found) == 1:
            return found[0]
        logger.warning(
            "LDAP: %d entries have %s = '%s' instead of one", len(found), attribute, made
        )
        return made

    def _user_dn(self, name: str) -> str:
        return fill(self._settings.user_dn_pattern, _user_variables(name))

    # Permissions

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The secret is a password."""
        return await self.authenticate(LoginAttempt(identity.name, secret, ""))

    async def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """Run vhost_access_query."""
        return await self._allows("vhost", identity, {"vhost": vhost})

    async def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> bool:
        """Run resource_access_query."""
        variables = {"vhost": vhost, "resource": kind, "name": name, "permission": permission}
        return await self._allows("resource", identity, variables)

    async def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """Run topic_access_query."""
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
        if self._settings.log != "false":
            answer = "allowed" if allowed else "refused"
            facts = ", ".join(f"{name} '{value}'" for name, value in about.items())
            logger.info("LDAP: '%s' is %s (%s): %s", identity.name, answer, kind, facts)
        return allowed

    # Queries

    def _true_of(
        self, queries: dict[str, Query], entry: DirectoryEntry, variables: dict[str, str]
    ) -> list[str]:
        """The names of the queries that are true."""
        if not queries:
            return []
        filled = variables | {"user_dn": entry.dn}

        def ask(directory: LdapDirectory) -> list[str]:
            question = LdapQuestion(filled, directory, self._group_base)
            return [name for name, query in queries.items() if _is_true(name, query, question)]

        try:
            return self._servers.ask(self._who_asks(entry), ask)
        except CredentialsRefused as refusal:
            raise DirectoryError(
                f"the directory refuses the credentials for queries: {refusal}"
            ) from None

    def _who_asks(self, entry: DirectoryEntry | None) -> BindCredentials | None:
        settings = self._settings
        if settings.bind_dn:
            return BindCredentials(settings.bind_dn, settings.bind_password)
        if settings.bind == ANONYMOUS:
            return None
        if entry is None or entry.password is None:
            raise DirectoryError(
                "auth_ldap.other_bind is as_user, but the user logged in without a password: "
                "set auth_ldap.other_bind.user_dn"
            )
        return BindCredentials(entry.dn, entry.password)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except DirectoryError as error:
            raise BackendUnavailable(f"LDAP: {error}") from None
        except UnicodeError:
            # The error's text may contain a part of the password.
            raise BackendUnavailable("LDAP: a name in the request is not UTF-8") from None

    async def close(self) -> None:
        """Close the connections and end the threads."""
        self._servers.close()
        self._threads.shutdown(wait=False)


def _is_utf_8(text: str) -> bool:
    """Whether all bytes were decoded; AMQP strings keep others as surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _user_variables(name: str) -> dict[str, str]:
    r"""The variables of a user name, which in Active Directory is `DOMAIN\user`."""
    parts = [part for part in name.split("\\", 1) if part]
    if len(parts) == 2:
        return {"username": name, "ad_domain": parts[0], "ad_user": parts[1]}
    return {"username": name}


def _is_true(name: str, query: Query, question: LdapQuestion) -> bool:
    try:
        return query(question)
    except QueryError as error:
        user = question.variables["username"]
        logger.error("LDAP: the query %s failed for '%s': %s", name, user, error)
        return False


def _compiled(key: str, text: str) -> Query:
    try:
        return compile_query(text)
    except QueryError as error:
        raise ValueError(f"auth_ldap.{key}: {error}") from None


def _check(settings: LdapSettings) -> None:
    """Raise ValueError for missing or contradictory settings."""
    if not settings.servers:
        raise ValueError("auth_ldap.servers.1 must be set")
    if settings.use_ssl and settings.use_starttls:
        raise ValueError("only one of auth_ldap.use_ssl and auth_ldap.use_starttls can be true")
    has_attribute = settings.dn_lookup_attribute not in ("", NONE)
    if has_attribute and settings.dn_lookup_base in ("", NONE):
        raise ValueError("auth_ldap.dn_lookup_attribute needs auth_ldap.dn_lookup_base")
    for key, dn, password in (
        ("dn_lookup_bind", settings.dn_lookup_bind_dn,
         settings.dn_lookup_bind_password),
        ("other_bind", settings.bind_dn, settings.bind_password),
    ):  # fmt: skip
        if dn and not password:
            raise ValueError(f"auth_ldap.{key}.user_dn needs auth_ldap.{key}.password")


def ldap_backend(config: Config, clock: Clock) -> LdapBackend:
    """The backend that the settings describe. Raises ValueError, OSError."""
    return LdapBackend(config.ldap, clock)
