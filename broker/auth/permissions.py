"""What users may do: regular expressions on names, for each user in each vhost.

A permission is given if its pattern matches anywhere in the name, as Erlang's `re:run` searches; an
empty pattern gives permission for the empty name only. The default exchange is checked under the
name ``amq.default``. Facts: RabbitMQ's `rabbit_auth_backend_internal`, and its documentation on
access control.

Patterns are matched against the bytes of names, as RabbitMQ does it: a dot stands for one byte, and
a name that is not UTF-8 is a name like any other. They are written for PCRE, and Python's syntax is
nearly the same; where it differs in what is likely to be met, patterns are translated
(`_in_python_syntax`), and one that Python does not take is refused when it is set.

Whoever keeps what a check allowed has to forget it after a change: `generation` is another then,
and those who asked for it (`listen`) are called.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from broker.events import Events, acting_user
from broker.patterns import COMPILED_MAX, Pattern, compile_pattern
from storage.metadata import Metadata
from storage.metadata_rows import PermissionRow, TopicPermissionRow

RESULTS_MAX = 4096
"""Results that are remembered, of a few hundred bytes each; after that many it starts over."""

_ONLY_THE_EMPTY_NAME = "^$"


class PermissionTable:
    """The permissions of all users."""

    def __init__(self, metadata: Metadata, events: Events | None = None) -> None:
        self.generation = 0
        self._metadata = metadata
        self._events = events or Events()
        self._permissions: dict[tuple[str, str], PermissionRow] = {}
        self._topics: dict[tuple[str, str, str], TopicPermissionRow] = {}
        self._results: dict[tuple[str, str, str, str], bool] = {}
        self._listeners: list[Callable[[], object]] = []

    @property
    def rows(self) -> list[PermissionRow]:
        """All permissions but those on topics."""
        return list(self._permissions.values())

    @property
    def topic_rows(self) -> list[TopicPermissionRow]:
        """All permissions on topics."""
        return list(self._topics.values())

    def listen(self, listener: Callable[[], object]) -> None:
        """Be called after every change, to forget results that are kept elsewhere."""
        self._listeners.append(listener)

    # Changing

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
            _compiled(pattern)
        self._metadata.put_permission(row)
        self._permissions[row.vhost, row.user] = row
        self._changed()
        self._tell(
            "permission.created", row.vhost, row.user, configure=row.configure, write=row.write,
            read=row.read,
        )  # fmt: skip

    def clear(self, vhost: str, user: str) -> None:
        """Take a user's permissions in a vhost away."""
        if (vhost, user) in self._permissions:
            self._metadata.delete_permission(vhost, user)
            del self._permissions[vhost, user]
            self._changed()
            self._tell("permission.deleted", vhost, user)

    def set_topic(self, row: TopicPermissionRow) -> None:
        """Limit a user's routing keys on a topic exchange. Raises re.error for a bad pattern."""
        for pattern in (row.write, row.read):
            _compiled(pattern)
        self._metadata.put_topic_permission(row)
        self._topics[row.vhost, row.user, row.exchange] = row
        self._changed()
        self._tell(
            "topic.permission.created", row.vhost, row.user, exchange=row.exchange,
            write=row.write, read=row.read,
        )  # fmt: skip

    def clear_topic(self, vhost: str, user: str, exchange: str | None = None) -> None:
        """Lift a user's limits on one topic exchange, or on all in the vhost."""
        found = [
            key for key in self._topics if key[:2] == (vhost, user) and exchange in (None, key[2])
        ]
        if found:
            self._metadata.delete_topic_permission(vhost, user, exchange)
            for key in found:
                del self._topics[key]
            self._changed()
            self._tell("topic.permission.deleted", vhost, user)

    def forget_user(self, user: str) -> None:
        """The user is deleted, and the metadata has dropped its permissions with it."""
        self._keep(lambda row: row.user != user)

    def forget_vhost(self, vhost: str) -> None:
        """The vhost is deleted, and the metadata has dropped the permissions in it."""
        lost = [row for row in self._permissions.values() if row.vhost == vhost]
        lost_topics = {row.user for row in self._topics.values() if row.vhost == vhost}
        self._keep(lambda row: row.vhost != vhost)
        for row in lost:
            self._tell("permission.deleted", vhost, row.user)
        for user in sorted(lost_topics):
            self._tell("topic.permission.deleted", vhost, user)

    def _keep(self, is_kept: Callable[[PermissionRow | TopicPermissionRow], bool]) -> None:
        self._permissions = {key: row for key, row in self._permissions.items() if is_kept(row)}
        self._topics = {key: row for key, row in self._topics.items() if is_kept(row)}
        self._changed()

    def _changed(self) -> None:
        self.generation += 1
        self._results.clear()
        for listener in self._listeners:
            listener()

    def _tell(self, name: str, vhost: str, user: str, **facts: str) -> None:
        if self._events.are_wanted:
            by = acting_user.get()
            self._events.tell(
                name, {"user": user, "vhost": vhost, **facts, "user_who_performed_action": by}
            )

    # Checking

    def has_vhost_access(self, user: str, vhost: str) -> bool:
        """The user has some permissions in the vhost."""
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
        self, user: str, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> bool:
        """Whether the user may use the routing key; without a row for the exchange, any."""
        row = self._topics.get((vhost, user, exchange))
        if row is None:
            return True
        pattern: str = getattr(row, permission) or _ONLY_THE_EMPTY_NAME
        pattern = pattern.replace("{username}", user).replace("{vhost}", vhost)
        return _matches(pattern, routing_key)


# Patterns

_DIFFERING = re.compile(
    rb"""
      \\.                                                        # an escape
    | \(\?<(?![=!])                                              # a named group's beginning
    | \[ \^? \]? (?: \[:\^?[a-z]+:\] | \\. | [^\]\\] )* \]       # a set
    """,
    re.DOTALL | re.VERBOSE,
)
"""What is looked at for differences from PCRE. A piece that is an escape begins no set."""
_POSIX_CLASS = re.compile(rb"\[:(\^?[a-z]+):\]")
_POSIX_CLASSES = {
    b"alnum": rb"0-9A-Za-z", b"alpha": rb"A-Za-z", b"ascii": rb"\x00-\x7f", b"blank": rb"\x20\t",
    b"cntrl": rb"\x00-\x1f\x7f", b"digit": rb"\d", b"^digit": rb"\D", b"graph": rb"\x21-\x7e",
    b"lower": rb"a-z", b"print": rb"\x20-\x7e", b"punct": rb"\x21-\x2f:-@\x5b-`{-~",
    b"space": rb"\s", b"^space": rb"\S", b"upper": rb"A-Z", b"word": rb"\w", b"^word": rb"\W",
    b"xdigit": rb"0-9A-Fa-f",
}  # fmt: skip
_OTHER_NAMES = {rb"\z": rb"\Z", rb"\Z": rb"(?=\n?\Z)", b"(?<": b"(?P<"}


def _matches(pattern: str, name: str) -> bool:
    try:
        compiled = _compiled(pattern)
    except re.error:
        # A user name with a parenthesis in it, say, put for {username}.
        return False
    return compiled.matches(name.encode("utf-8", "surrogateescape"))


def check_pattern(pattern: str) -> None:
    """Raise re.error for a pattern that no permission can have."""
    _compiled(pattern)


@lru_cache(maxsize=COMPILED_MAX)
def _compiled(pattern: str) -> Pattern[bytes]:
    encoded = (pattern or _ONLY_THE_EMPTY_NAME).encode("utf-8", "surrogateescape")
    return compile_pattern(_in_python_syntax(encoded))


def _in_python_syntax(pattern: bytes) -> bytes:
    return _DIFFERING.sub(lambda found: _translated(found[0]), pattern)


def _translated(piece: bytes) -> bytes:
    if piece.startswith(b"["):
        return _POSIX_CLASS.sub(lambda found: _posix_class(found[1]), piece)
    return _OTHER_NAMES.get(piece, piece)


def _posix_class(name: bytes) -> bytes:
    if name not in _POSIX_CLASSES:
        raise re.error(f"the class [:{name.decode()}:] is not known")
    return _POSIX_CLASSES[name]
