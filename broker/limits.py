"""How many connections and queues a vhost may have, and how many connections and channels a user.

Limits are runtime parameters; a negative one is no limit, and 0 forbids. They count when something
is opened or declared: what is there already stays. Texts are RabbitMQ's (`rabbit_reader`,
`rabbit_vhost_limit`).
"""

from collections.abc import Iterator, Mapping

from broker.amqp.erlang_terms import format_json
from broker.amqp.errors import not_allowed, precondition_failed
from broker.parameters import NO_VHOST, USER_LIMITS, VHOST_LIMITS, Parameters

MAX_CONNECTIONS, MAX_QUEUES, MAX_CHANNELS = "max-connections", "max-queues", "max-channels"
OF_VHOSTS = (MAX_CONNECTIONS, MAX_QUEUES)
OF_USERS = (MAX_CONNECTIONS, MAX_CHANNELS)
_VHOST_LIMITS_NAME = "limits"
"""All limits of a vhost are one parameter of this name, in RabbitMQ's definitions too."""


class LimitError(ValueError):
    """A limit is not one of those that there are, or no number."""


class Limits:
    """The limits of vhosts and users."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters

    # Setting

    def of_vhost(self, vhost: str) -> dict[str, int]:
        """The limits that are set for a vhost."""
        return dict(self._parameters.get(VHOST_LIMITS, vhost, _VHOST_LIMITS_NAME) or {})

    def of_user(self, user: str) -> dict[str, int]:
        """The limits that are set for a user."""
        return dict(self._parameters.get(USER_LIMITS, NO_VHOST, user) or {})

    def vhosts(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Vhosts with limits."""
        for vhost, _, value in self._parameters.of(VHOST_LIMITS):
            yield vhost, value

    def users(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Users with limits."""
        for _, user, value in self._parameters.of(USER_LIMITS):
            yield user, value

    def set_for_vhost(self, vhost: str, limits: Mapping[str, object]) -> None:
        """Set some limits of a vhost; others stay. Raises LimitError."""
        merged = {**self.of_vhost(vhost), **check_limits(limits, OF_VHOSTS)}
        self._parameters.set(VHOST_LIMITS, vhost, _VHOST_LIMITS_NAME, merged)

    def set_for_user(self, user: str, limits: Mapping[str, object]) -> None:
        """Set some limits of a user; others stay. Raises LimitError."""
        merged = {**self.of_user(user), **check_limits(limits, OF_USERS)}
        self._parameters.set(USER_LIMITS, NO_VHOST, user, merged)

    def clear_for_vhost(self, vhost: str, name: str | None = None) -> None:
        """Lift one limit of a vhost, or all."""
        kept = {
            key: value for key, value in self.of_vhost(vhost).items() if name not in (None, key)
        }
        if kept:
            self._parameters.set(VHOST_LIMITS, vhost, _VHOST_LIMITS_NAME, kept)
        else:
            self._parameters.clear(VHOST_LIMITS, vhost, _VHOST_LIMITS_NAME)

    def clear_for_user(self, user: str, name: str | None = None) -> None:
        """Lift one limit of a user, or all."""
        kept = {key: value for key, value in self.of_user(user).items() if name not in (None, key)}
        if kept:
            self._parameters.set(USER_LIMITS, NO_VHOST, user, kept)
        else:
            self._parameters.clear(USER_LIMITS, NO_VHOST, user)

    # Checking. The counts are asked for only if there is a limit.

    def vhost_limit(self, vhost: str, name: str) -> int | None:
        """One limit of a vhost; None if there is none."""
        return _in_force(self._parameters.get(VHOST_LIMITS, vhost, _VHOST_LIMITS_NAME), name)

    def user_limit(self, user: str, name: str) -> int | None:
        """One limit of a user; None if there is none."""
        return _in_force(self._parameters.get(USER_LIMITS, NO_VHOST, user), name)

    def check_queues(self, vhost: str, queue: str, count: int) -> None:
        """Raise 406 if a vhost with so many queues may not get another."""
        limit = self.vhost_limit(vhost, MAX_QUEUES)
        if limit is not None and count >= limit:
            raise precondition_failed(
                f"cannot declare queue '{queue}': queue limit in vhost '{vhost}' ({limit}) is "
                "reached"
            )

    def check_vhost_connections(self, vhost: str, user: str, names: Iterator[str]) -> None:
        """Raise 530 if no more connections may be opened. names: vhosts of those that are open."""
        limit = self.vhost_limit(vhost, MAX_CONNECTIONS)
        if limit is not None and sum(name == vhost for name in names) >= limit:
            raise not_allowed(
                f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) "
                "is reached"
            )

    def check_user_connections(self, user: str, names: Iterator[str]) -> None:
        """Raise 530 if the user may not open more. names: users of the connections that are."""
        limit = self.user_limit(user, MAX_CONNECTIONS)
        if limit is not None and sum(name == user for name in names) >= limit:
            raise not_allowed(
                f"connection refused for user '{user}': user connection limit ({limit}) is reached"
            )


def _in_force(limits: Mapping[str, int] | None, name: str) -> int | None:
    limit = None if limits is None else limits.get(name)
    return None if limit is None or limit < 0 else limit


def check_limits(limits: Mapping[str, object], known: tuple[str, ...]) -> dict[str, int]:
    """The limits, if they are some of those that are known. Raises LimitError."""
    checked = {}
    for name, value in limits.items():
        if name not in known:
            what = "user-limits" if known == OF_USERS else "limits"
            raise LimitError(
                f"Unrecognised terms [{{{format_json(name)},{format_json(value)}}}] in {what}"
            )
        if isinstance(value, bool) or not isinstance(value, int):
            raise LimitError(f"{name} should be a number, actually was {format_json(value)}")
        checked[name] = value
    return checked
