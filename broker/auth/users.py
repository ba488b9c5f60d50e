"""The users of a node, with their passwords and tags.

All users are in memory, and a change is written to the metadata first: if that fails, nothing has
changed. A `User` never changes: a change makes another one, so a connection goes on with the tags
that its user had at login, as in RabbitMQ.
"""

import ipaddress
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from broker.auth.passwords import ALGORITHMS, SHA256, hash_password, password_matches
from broker.events import Events, acting_user
from storage.metadata import Metadata
from storage.metadata_rows import UserRow


class NoSuchUser(LookupError):
    """A user that is to be changed does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"user '{name}' does not exist")


@dataclass(frozen=True, slots=True)
class User:
    """One user. password_hash: empty for a user who cannot log in with a password."""

    name: str
    tags: tuple[str, ...] = ()
    password_hash: bytes = field(default=b"", repr=False)
    hashing_algorithm: str = SHA256


class UserDirectory:
    """All users, in memory; changes are kept in the metadata. Iterate for a list."""

    def __init__(self, metadata: Metadata, events: Events | None = None) -> None:
        self._metadata = metadata
        self._events = events or Events()
        self._users: dict[str, User] = {}

    def __iter__(self) -> Iterator[User]:
        return iter(tuple(self._users.values()))

    def __len__(self) -> int:
        return len(self._users)

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
        return self._keep(User(name, tuple(tags), _hash(password)))

    def add_with_hash(
        self,
        name: str,
        password_hash: bytes,
        hashing_algorithm: str = SHA256,
        tags: Iterable[str] = (),
    ) -> User:
        """Add a user, or replace one, as definitions have it. Raises ValueError."""
        if hashing_algorithm not in ALGORITHMS:
            raise ValueError(
                f"the password of user '{name}' is hashed with {hashing_algorithm}; "
                f"known are {' and '.join(ALGORITHMS)}"
            )
        return self._keep(User(name, tuple(tags), password_hash, hashing_algorithm))

    def change_password(self, name: str, password: str | None) -> User:
        """Give a user another password, or none. Raises NoSuchUser."""
        user = self._existing(name)
        return self._keep(replace(user, password_hash=_hash(password), hashing_algorithm=SHA256))

    def set_tags(self, name: str, tags: Iterable[str]) -> User:
        """Give a user these tags instead of those that it has. Raises NoSuchUser."""
        return self._keep(replace(self._existing(name), tags=tuple(tags)))

    def delete(self, name: str) -> None:
        """Delete a user, if there is one; of its permissions, the PermissionTable's are left."""
        if name in self._users:
            self._metadata.delete_user(name)
            del self._users[name]
            self._tell("user.deleted", name)

    def authenticate(self, name: str, password: str) -> User | None:
        """The user, if the password is right.

        A password is hashed for whoever is not there, too: a long one would show by the time that
        the answer takes which names are those of users.
        """
        user = self._users.get(name)
        if user is None or not user.password_hash:
            password_matches(password, _NOBODYS_HASH, SHA256)
            return None
        is_right = password_matches(password, user.password_hash, user.hashing_algorithm)
        return user if is_right else None

    def _existing(self, name: str) -> User:
        user = self._users.get(name)
        if user is None:
            raise NoSuchUser(name)
        return user

    def _keep(self, user: User) -> User:
        tags = ",".join(user.tags)
        row = UserRow(user.name, user.password_hash, user.hashing_algorithm, tags)
        self._metadata.put_user(row)
        old = self._users.get(user.name)
        self._users[user.name] = user
        self._tell_changes(old, user)
        return user

    def _tell_changes(self, old: User | None, new: User) -> None:
        if old is None:
            self._tell("user.created", new.name)
        elif old.password_hash != new.password_hash:
            is_changed = bool(new.password_hash)
            name = "user.password.changed" if is_changed else "user.password.cleared"
            self._tell(name, new.name)
        if new.tags != (() if old is None else old.tags):
            self._tell("user.tags.set", new.name, tags=list(new.tags))

    def _tell(self, event: str, name: str, **facts: object) -> None:
        if self._events.are_wanted:
            by = acting_user.get()
            self._events.tell(event, {"name": name, **facts, "user_who_performed_action": by})


_NOBODYS_HASH = hash_password("")


def _hash(password: str | None) -> bytes:
    return hash_password(password) if password else b""


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
