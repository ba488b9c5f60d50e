"""Users. A user is deleted with its permissions and limits.

Source of the events: RabbitMQ's `rabbit_auth_backend_internal`.
"""

from collections.abc import Iterator

from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.values import DeleteUser, PutUser, User
from leveret.broker.events.events import Events
from leveret.broker.policies.parameters import NO_VHOST, USER_LIMITS
from leveret.broker.registry.declared_objects import NO_STEPS, USER, DeclaredObjects, Place
from leveret.broker.registry.objects.limits import user_limits_deleted
from leveret.broker.registry.stored_rows import StoredRows
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import UserRow


class DeclaredUsers(DeclaredObjects[PutUser, DeleteUser]):
    """The users of a node."""

    types = (PutUser, DeleteUser)

    @staticmethod
    def write(it: PutUser | DeleteUser, metadata: Metadata) -> None:
        if isinstance(it, PutUser):
            user, tags = it.user, ",".join(it.user.tags)
            metadata.put_user(UserRow(user.name, user.password_hash, user.hashing_algorithm, tags))
        else:
            with metadata.batch():
                metadata.delete_user(it.name)
                metadata.delete_parameter(NO_VHOST, USER_LIMITS, it.name)

    @staticmethod
    def read(rows: StoredRows) -> Iterator[PutUser]:
        for row in rows.definitions.users:
            tags = tuple(filter(None, row.tags.split(",")))
            yield PutUser(User(row.name, tags, row.password_hash, row.hashing_algorithm))

    @staticmethod
    def place(it: PutUser) -> Place:
        return USER, it.user.name

    @staticmethod
    def deletion(it: PutUser) -> DeleteUser:
        return DeleteUser(it.user.name)

    def contents(self) -> Iterator[PutUser]:
        return map(PutUser, self._tables.users)

    def apply(self, it: PutUser | DeleteUser) -> Iterator[int]:
        if isinstance(it, PutUser):
            before = self._tables.users.put(it.user)
            _user_put(self._tables.events, before, it.user, it.acting_user)
        else:
            self._delete(it)
        return NO_STEPS

    def _delete(self, it: DeleteUser) -> None:
        tables = self._tables
        was_there = tables.users.remove(it.name)
        tables.permissions.remove_user(it.name)
        had_limits = tables.limits.remove_user(it.name)
        tables.permissions_changed()
        tables.dependents.close_connections_of(it.name)
        if was_there:
            _user_deleted(tables.events, it.name, it.acting_user)
        if had_limits:
            user_limits_deleted(tables.events, it.name, it.acting_user)

    def acts(self, it: PutUser | DeleteUser) -> Iterator[AuditedChange]:
        if isinstance(it, DeleteUser):
            yield AuditedChange("user.deleted", USER, it.name, f"Deleted user '{it.name}'")
            return
        user, name = it.user, it.user.name
        before = self._tables.users.get(name)
        has_new_password = before is None or before.password_hash != user.password_hash
        if before is None:
            yield AuditedChange("user.created", USER, name, f"Created user '{name}'")
        elif has_new_password and user.password_hash:
            text = f"Successfully changed password for user '{name}'"
            yield AuditedChange("user.password.changed", USER, name, text)
        elif has_new_password:
            yield AuditedChange(
                "user.password.cleared", USER, name, f"Clearing password for user '{name}'"
            )
        if before is None or before.tags != user.tags or not has_new_password:
            tags = ",".join(filter(None, user.tags))
            text = f"Successfully set user tags for user '{name}' to [{tags}]"
            yield AuditedChange("user.tags.set", USER, name, text, detail={"tags": list(user.tags)})


def _user_put(events: Events, before: User | None, user: User, acting_user: str) -> None:
    """A user was added, or its password or tags were changed."""
    if not events.are_wanted:
        return
    by = {"user_who_performed_action": acting_user}
    if before is None:
        events.notify("user.created", {"name": user.name, **by})
    elif before.password_hash != user.password_hash:
        changed = "changed" if user.password_hash else "cleared"
        events.notify(f"user.password.{changed}", {"name": user.name, **by})
    if user.tags != (() if before is None else before.tags):
        events.notify("user.tags.set", {"name": user.name, "tags": list(user.tags), **by})


def _user_deleted(events: Events, name: str, acting_user: str) -> None:
    if events.are_wanted:
        events.notify("user.deleted", {"name": name, "user_who_performed_action": acting_user})
