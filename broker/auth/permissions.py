"""Permissions: regular expressions on names, for each user in each vhost.

A permission is granted if its pattern matches anywhere in the name, as with Erlang's `re:run`; an
empty pattern grants permission for the empty name only. The default exchange is checked under the
name ``amq.default``. Source: RabbitMQ's `rabbit_auth_backend_internal`, and its documentation on
access control.

Patterns are matched against the bytes of names, as in RabbitMQ: a dot matches one byte, and names
need not be UTF-8.

Cached results of checks must be invalidated after a change: broker/registry does so by marking the
routes of every vhost as changed.
"""

import re
from collections.abc import Callable

from leveret.broker.declarations.values import Permission, TopicPermission
from leveret.broker.runtime.patterns import Pattern, compile_pattern

RESULTS_MAX = 4096
"""Maximum cached results, a few hundred bytes each; the cache is cleared when it is full."""

_ONLY_THE_EMPTY_NAME = "^$"


class PermissionTable:
    """The permissions of all users."""

    def __init__(self) -> None:
        self._permissions: dict[tuple[str, str], Permission] = {}
        self._topics: dict[tuple[str, str, str], TopicPermission] = {}
        self._results: dict[tuple[str, str, str, str], bool] = {}

    @property
    def all(self) -> list[Permission]:
        """All permissions except topic permissions."""
        return list(self._permissions.values())

    @property
    def topics(self) -> list[TopicPermission]:
        """All topic permissions."""
        return list(self._topics.values())

    # Changing

    def put(self, permission: Permission) -> None:
        """Set a user's permissions in a vhost."""
        self._permissions[permission.vhost, permission.user] = permission
        self._results.clear()

    def remove(self, vhost: str, user: str) -> bool:
        """Clear a user's permissions in a vhost; returns whether there were any."""
        self._results.clear()
        return self._permissions.pop((vhost, user), None) is not None

    def put_topic(self, permission: TopicPermission) -> None:
        """Set a user's permissions on a topic exchange."""
        self._topics[permission.vhost, permission.user, permission.exchange] = permission

    def remove_topic(self, vhost: str, user: str, exchange: str | None) -> bool:
        """Clear the permissions on one topic exchange or all (None); whether any existed."""
        found = [
            key for key in self._topics if key[:2] == (vhost, user) and exchange in (None, key[2])
        ]
        for key in found:
            del self._topics[key]
        return bool(found)

    def remove_user(self, user: str) -> None:
        """Remove all permissions of a user."""
        self._keep(lambda permission: permission.user != user)

    def remove_vhost(self, vhost: str) -> tuple[list[str], list[str]]:
        """Remove all permissions in a vhost; the users that had any, and those with topic ones."""
        users = [one.user for one in self._permissions.values() if one.vhost == vhost]
        topic_users = sorted({one.user for one in self._topics.values() if one.vhost == vhost})
        self._keep(lambda permission: permission.vhost != vhost)
        return users, topic_users

    def _keep(self, is_kept: Callable[[Permission | TopicPermission], bool]) -> None:
        self._permissions = {key: one for key, one in self._permissions.items() if is_kept(one)}
        self._topics = {key: one for key, one in self._topics.items() if is_kept(one)}
        self._results.clear()

    # Checking

    def has_vhost_access(self, user: str, vhost: str) -> bool:
        """Whether the user has permissions in the vhost."""
        return (vhost, user) in self._permissions

    def allows(self, user: str, vhost: str, name: str, permission: str) -> bool:
        """Whether the user has the permission: configure, write or read."""
        key = (user, vhost, name, permission)
        allowed = self._results.get(key)
        if allowed is None:
            if len(self._results) >= RESULTS_MAX:
                self._results.clear()
            allowed = self._results[key] = self._is_allowed(user, vhost, name, permission)
        return allowed

    def _is_allowed(self, user: str, vhost: str, name: str, permission: str) -> bool:
        row = self._permissions.get((vhost, user))
        return row is not None and _matches(getattr(row, permission), name)

    def allows_topic(
        self,
        user: str,
        vhost: str,
        exchange: str,
        routing_key: str,
        permission: str,
        client_id: str = "",
    ) -> bool:
        """Whether the user may use the routing key; true without permissions for the exchange.

        client_id: of an MQTT client. It stands for itself in the pattern, since clients choose it.
        """
        row = self._topics.get((vhost, user, exchange))
        if row is None:
            return True
        pattern: str = getattr(row, permission) or _ONLY_THE_EMPTY_NAME
        pattern = pattern.replace("{username}", user).replace("{vhost}", vhost)
        if client_id:
            pattern = pattern.replace("{client_id}", re.escape(client_id))
        return _matches(pattern, routing_key)


def check_patterns(permission: Permission | TopicPermission) -> None:
    """Raise re.error for an invalid pattern."""
    if isinstance(permission, Permission):
        _compiled(permission.configure)
    _compiled(permission.write)
    _compiled(permission.read)


# Patterns


def _matches(pattern: str, name: str) -> bool:
    try:
        compiled = _compiled(pattern)
    except re.error:
        # For example, {username} was replaced by a name with a parenthesis.
        return False
    return compiled.matches(name)


def check_pattern(pattern: str) -> None:
    """Raise re.error for a pattern that is invalid in a permission."""
    _compiled(pattern)


def _compiled(pattern: str) -> Pattern:
    return compile_pattern(pattern or _ONLY_THE_EMPTY_NAME)
