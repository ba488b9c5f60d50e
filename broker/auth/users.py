"""The users of a node, with their passwords and tags.

`with_password`, `with_hash` and `with_tags` create users; broker/registry adds them to the
directory and removes them. A `User` is immutable, so a connection keeps the tags that its user had
at login, as in RabbitMQ.
"""

from collections.abc import Collection, Iterable, Iterator

from leveret.broker.auth.addresses import is_loopback
from leveret.broker.auth.passwords import ALGORITHMS, SHA256, hash_password, password_matches
from leveret.broker.declarations.values import User


def with_password(name: str, password: str | None, tags: Iterable[str] = ()) -> User:
    """Create a user. Without a password (None or empty), it cannot log in with one."""
    hashed = b"" if password is None else hash_password(password)
    return User(name, tuple(tags), hashed, SHA256)


def with_hash(
    name: str,
    password_hash: bytes,
    hashing_algorithm: str = SHA256,
    tags: Iterable[str] = (),
) -> User:
    """Create a user from definitions. Raises ValueError for an unknown hashing algorithm."""
    if hashing_algorithm not in ALGORITHMS:
        raise ValueError(
            f"the password of user '{name}' is hashed with {hashing_algorithm}; "
            f"known are {' and '.join(ALGORITHMS)}"
        )
    return User(name, tuple(tags), password_hash, hashing_algorithm)


class UserDirectory:
    """All users, by name. Iterating yields the users."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}

    def __iter__(self) -> Iterator[User]:
        return iter(tuple(self._users.values()))

    def __len__(self) -> int:
        return len(self._users)

    def get(self, name: str) -> User | None:
        """The user of this name."""
        return self._users.get(name)

    def put(self, user: User) -> User | None:
        """Add or replace a user; returns the previous one."""
        before = self._users.get(user.name)
        self._users[user.name] = user
        return before

    def remove(self, name: str) -> bool:
        """Remove a user; returns whether it existed."""
        return self._users.pop(name, None) is not None

    def authenticate(self, name: str, password: str) -> User | None:
        """The user, if the password is right.

        A password is hashed even if the user does not exist: otherwise the response time for a long
        password would reveal which user names exist.
        """
        user = self._users.get(name)
        if user is None or not user.password_hash:
            password_matches(password, _UNKNOWN_USER_HASH, SHA256)
            return None
        is_right = password_matches(password, user.password_hash, user.hashing_algorithm)
        return user if is_right else None


_UNKNOWN_USER_HASH = hash_password("")


def may_connect_from(host: str, user: str, loopback_users: Collection[str]) -> bool:
    """Whether the user may connect from the host: loopback users only via loopback."""
    return user not in loopback_users or is_loopback(host)
