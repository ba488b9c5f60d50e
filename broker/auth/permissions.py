"""What users may do: regular expressions on names, for each user in each vhost.

A permission is given if its pattern matches anywhere in the name, as Erlang's `re:run` searches; an
empty pattern gives permission for the empty name only. The default exchange is checked under the
name ``amq.default``. Facts: RabbitMQ's `rabbit_auth_backend_internal`, and its documentation on
access control.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from broker.amqp.errors import access_refused
from broker.names import EXCHANGE, resource
from storage.metadata import Metadata, PermissionRow, TopicPermissionRow

DEFAULT_EXCHANGE = "amq.default"
RESULTS_MAX = 4096


class PermissionTable:
    """The permissions of all users."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._permissions: dict[tuple[str, str], PermissionRow] = {}
        self._topics: dict[tuple[str, str, str], TopicPermissionRow] = {}
        self._results: dict[tuple[str, str, str, str, str], bool] = {}
        self._listeners: list[Callable[[], object]] = []

    def listen(self, listener: Callable[[], object]) -> None:
        """Be called after every change, to forget results that are kept elsewhere."""
        self._listeners.append(listener)

    def restore(
        self, rows: Iterable[PermissionRow], topic_rows: Iterable[TopicPermissionRow]
    ) -> None:
        """Bring back what the metadata holds."""
        for row in rows:
            self._permissions[row.vhost, row.user] = row
        for topic in topic_rows:
            self._topics[topic.vhost, topic.user, topic.exchange] = topic
        self._changed()

    def set(self, row: PermissionRow) -> None:
        """Give a user permissions in a vhost. Raises re.error for a bad pattern."""
        for pattern in (row.configure, row.write, row.read):
            re.compile(pattern)
        self._permissions[row.vhost, row.user] = row
        self._metadata.put_permission(row)
        self._changed()

    def clear(self, vhost: str, user: str) -> None:
        """Take a user's permissions in a vhost away."""
        if self._permissions.pop((vhost, user), None) is not None:
            self._metadata.delete_permission(vhost, user)
            self._changed()

    def set_topic(self, row: TopicPermissionRow) -> None:
        """Limit a user's routing keys on a topic exchange. Raises re.error for a bad pattern."""
        for pattern in (row.write, row.read):
            re.compile(pattern)
        self._topics[row.vhost, row.user, row.exchange] = row
        self._metadata.put_topic_permission(row)
        self._changed()

    def has_vhost_access(self, user: str, vhost: str) -> bool:
        """The user has some permissions in the vhost."""
        return (vhost, user) in self._permissions

    def check(self, user: str, vhost: str, kind: str, name: str, permission: str) -> None:
        """Raise 403 unless the user has the permission: configure, write or read."""
        if kind == EXCHANGE and not name:
            name = DEFAULT_EXCHANGE
        key = (user, vhost, kind, name, permission)
        allowed = self._results.get(key)
        if allowed is None:
            if len(self._results) >= RESULTS_MAX:
                self._results.clear()
            allowed = self._results[key] = self._is_allowed(user, vhost, name, permission)
        if not allowed:
            what = resource(kind, name, vhost)
            raise access_refused(f"{permission} access to {what} refused for user '{user}'")

    def _is_allowed(self, user: str, vhost: str, name: str, permission: str) -> bool:
        row = self._permissions.get((vhost, user))
        return row is not None and _matches(getattr(row, permission), name)

    def check_topic(
        self, user: str, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> None:
        """Raise 403 if the user's routing keys on this exchange are limited to others."""
        row = self._topics.get((vhost, user, exchange))
        if row is None:
            return
        pattern: str = getattr(row, permission)
        pattern = pattern.replace("{username}", user).replace("{vhost}", vhost)
        if not _matches(pattern, routing_key):
            what = f"topic '{routing_key}' in {resource(EXCHANGE, exchange, vhost)}"
            raise access_refused(f"{permission} access to {what} refused for user '{user}'")

    def _changed(self) -> None:
        self._results.clear()
        for listener in self._listeners:
            listener()


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern or "^$")


def _matches(pattern: str, name: str) -> bool:
    return _compiled(pattern).search(name) is not None
