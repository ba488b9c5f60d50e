"""The users of a node, with their passwords and tags."""

import ipaddress
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from broker.auth.passwords import SHA256, hash_password, password_matches
from storage.metadata import Metadata, UserRow


@dataclass(slots=True)
class User:
    """One user. password_hash: empty for a user who cannot log in with a password."""

    name: str
    tags: tuple[str, ...] = ()
    password_hash: bytes = field(default=b"", repr=False)
    hashing_algorithm: str = SHA256


class UserDirectory:
    """All users, in memory; changes are kept in the metadata."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._users: dict[str, User] = {}

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def restore(self, rows: Iterable[UserRow]) -> None:
        """Bring back what the metadata holds."""
        for row in rows:
            tags = tuple(filter(None, row.tags.split(",")))
            self._users[row.name] = User(row.name, tags, row.password_hash, row.hashing_algorithm)

    def get(self, name: str) -> User | None:
        """The user of this name."""
        return self._users.get(name)

    def add(self, name: str, password: str | None, tags: Iterable[str] = ()) -> User:
        """Add a user, or replace one. Without a password it cannot log in with one."""
        password_hash = hash_password(password) if password else b""
        user = User(name, tuple(tags), password_hash)
        self._users[name] = user
        self._metadata.put_user(
            UserRow(name, password_hash, user.hashing_algorithm, ",".join(user.tags))
        )
        return user

    def delete(self, name: str) -> None:
        """Delete a user, if there is one."""
        if self._users.pop(name, None) is not None:
            self._metadata.delete_user(name)

    def authenticate(self, name: str, password: str) -> User | None:
        """The user, if the password is right."""
        user = self._users.get(name)
        if user is None:
            return None
        is_right = password_matches(password, user.password_hash, user.hashing_algorithm)
        return user if is_right else None


def may_connect_from(host: str, user: str, loopback_users: Collection[str]) -> bool:
    """Loopback users may connect from the machine itself only."""
    return user not in loopback_users or is_loopback(host)


def is_loopback(host: str) -> bool:
    """The address is one of the machine's own loopback addresses."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
