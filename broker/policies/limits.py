"""Limits: the connections and queues of a vhost, and the connections and channels of a user.

A negative limit is no limit; 0 allows none. Limits are checked when something is opened or
declared, and do not affect what exists already. Texts are RabbitMQ's (`rabbit_reader`,
`rabbit_vhost_limit`).
"""

from collections.abc import Callable, Iterator, Mapping

from leveret.broker.amqp.errors import not_allowed, precondition_failed
from leveret.broker.declarations.values import (
    DeleteUserLimits,
    DeleteVhostLimits,
    PutUserLimits,
    PutVhostLimits,
)
from leveret.broker.erlang.terms import format_term
from leveret.broker.policies.open_counts import OpenCounts

MAX_CONNECTIONS, MAX_QUEUES, MAX_CHANNELS = "max-connections", "max-queues", "max-channels"
OF_VHOSTS = (MAX_CONNECTIONS, MAX_QUEUES)
OF_USERS = (MAX_CONNECTIONS, MAX_CHANNELS)
NO_LIMITS: Mapping[str, int] = {}
ALL = "all"
"""In place of a limit's name: all limits of a user. Vhosts do not have it, as in RabbitMQ 3."""


class LimitError(ValueError):
    """A limit is unknown or not a number."""


class VhostAndUserLimits:
    """The limits of vhosts and users, by their names. changed: called after each change."""

    def __init__(self) -> None:
        self.changed: Callable[[], object] = lambda: None
        self._vhosts: dict[str, Mapping[str, int]] = {}
        self._users: dict[str, Mapping[str, int]] = {}

    def of_vhost(self, vhost: str) -> dict[str, int]:
        """The limits that are set for a vhost."""
        return dict(self._vhosts.get(vhost, NO_LIMITS))

    def of_user(self, user: str) -> dict[str, int]:
        """The limits that are set for a user."""
        return dict(self._users.get(user, NO_LIMITS))

    def vhosts(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Vhosts with limits."""
        for vhost in tuple(self._vhosts):
            yield vhost, self.of_vhost(vhost)

    def users(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Users with limits."""
        for user in tuple(self._users):
            yield user, self.of_user(user)

    # Changing

    def put_vhost(self, vhost: str, limits: Mapping[str, int]) -> None:
        """Replace the limits of a vhost."""
        self._vhosts[vhost] = limits
        self.changed()

    def put_user(self, user: str, limits: Mapping[str, int]) -> None:
        """Replace the limits of a user."""
        self._users[user] = limits
        self.changed()

    def remove_vhost(self, vhost: str) -> bool:
        """Remove all limits of a vhost; whether there were any."""
        return self._removed(self._vhosts, vhost)

    def remove_user(self, user: str) -> bool:
        """Remove all limits of a user; whether there were any."""
        return self._removed(self._users, user)

    def _removed(self, limits: dict[str, Mapping[str, int]], name: str) -> bool:
        if limits.pop(name, None) is None:
            return False
        self.changed()
        return True

    # Making declarations

    def with_vhost_limits(
        self, vhost: str, limits: Mapping[str, object], acting_user: str
    ) -> PutVhostLimits:
        """The declaration that changes some limits of a vhost. Raises LimitError."""
        changed = {**self.of_vhost(vhost), **check_limits(limits, OF_VHOSTS)}
        return PutVhostLimits(vhost, changed, acting_user=acting_user)

    def with_user_limits(
        self, user: str, limits: Mapping[str, object], acting_user: str
    ) -> PutUserLimits:
        """The declaration that changes some limits of a user. Raises LimitError."""
        changed = {**self.of_user(user), **check_limits(limits, OF_USERS)}
        return PutUserLimits(user, changed, acting_user=acting_user)

    def without_vhost_limit(
        self, vhost: str, name: str, acting_user: str
    ) -> PutVhostLimits | DeleteVhostLimits:
        """The declaration that removes one limit of a vhost."""
        kept = {key: value for key, value in self.of_vhost(vhost).items() if key != name}
        if kept:
            return PutVhostLimits(vhost, kept, acting_user=acting_user)
        return DeleteVhostLimits(vhost, acting_user=acting_user)

    def without_user_limit(
        self, user: str, name: str, acting_user: str
    ) -> PutUserLimits | DeleteUserLimits:
        """The declaration that removes one limit of a user, or all of them (`all`)."""
        kept = {key: value for key, value in self.of_user(user).items() if name not in (key, ALL)}
        if kept:
            return PutUserLimits(user, kept, acting_user=acting_user)
        return DeleteUserLimits(user, acting_user=acting_user)

    # Checks. Nothing is counted unless there is a limit.

    def vhost_limit(self, vhost: str, name: str) -> int | None:
        """One limit of a vhost; None if there is none."""
        return _in_force(self._vhosts.get(vhost, NO_LIMITS), name)

    def user_limit(self, user: str, name: str) -> int | None:
        """One limit of a user; None if there is none."""
        return _in_force(self._users.get(user, NO_LIMITS), name)

    def check_queues(self, vhost: str, queue: str, count: int) -> None:
        """Raise 406 if a vhost may not have another queue. count: the number of its queues."""
        limit = self.vhost_limit(vhost, MAX_QUEUES)
        if limit is not None and count >= limit:
            raise precondition_failed(
                f"cannot declare queue '{queue}': queue limit in vhost '{vhost}' ({limit}) is "
                "reached"
            )

    def check_vhost_connections(self, vhost: str, user: str, opened: OpenCounts) -> None:
        """Raise 530 if the vhost may not have another connection. user: the user that opens it."""
        limit = self.vhost_limit(vhost, MAX_CONNECTIONS)
        if limit is not None and opened.connections_of_vhost(vhost) >= limit:
            raise not_allowed(
                f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) "
                "is reached"
            )

    def check_user_connections(self, user: str, opened: OpenCounts) -> None:
        """Raise 530 if the user may not have another connection."""
        limit = self.user_limit(user, MAX_CONNECTIONS)
        if limit is not None and opened.connections_of_user(user) >= limit:
            raise not_allowed(
                f"connection refused for user '{user}': user connection limit ({limit}) is reached"
            )

    def check_user_channels(self, user: str, opened: OpenCounts) -> None:
        """Raise 530 if the user may not have another channel."""
        limit = self.user_limit(user, MAX_CHANNELS)
        if limit is not None and opened.channels_of_user(user) >= limit:
            raise not_allowed(
                f"number of channels opened for user '{user}' has reached the maximum allowed "
                f"user limit of ({limit})"
            )

    @property
    def counted_vhosts(self) -> frozenset[str]:
        """The vhosts whose connections are limited."""
        return frozenset(
            vhost
            for vhost, limits in self._vhosts.items()
            if _in_force(limits, MAX_CONNECTIONS) is not None
        )

    @property
    def counted_users(self) -> frozenset[str]:
        """The users whose connections or channels are limited."""
        return frozenset(
            user
            for user, limits in self._users.items()
            if any(_in_force(limits, name) is not None for name in OF_USERS)
        )


def _in_force(limits: Mapping[str, int], name: str) -> int | None:
    limit = limits.get(name)
    return None if limit is None or limit < 0 else limit


def check_limits(limits: Mapping[str, object], known: tuple[str, ...]) -> dict[str, int]:
    """Check names and values of limits. Raises LimitError."""
    checked = {}
    for name, value in limits.items():
        if name not in known:
            what = "user-limits" if known == OF_USERS else "limits"
            raise LimitError(
                f"Unrecognised terms [{{{format_term(name)},{format_term(value)}}}] in {what}"
            )
        if isinstance(value, bool) or not isinstance(value, int):
            raise LimitError(f"{name} should be a number, actually was {format_term(value)}")
        checked[name] = value
    return checked
