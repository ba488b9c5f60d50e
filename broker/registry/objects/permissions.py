"""Permissions of users in vhosts.

Source of the events: RabbitMQ's `rabbit_auth_backend_internal`.
"""

from collections.abc import Iterator

from leveret.broker.auth.permissions import check_patterns
from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.values import DeletePermission, Permission, PutPermission
from leveret.broker.events.events import Events
from leveret.broker.registry.declared_objects import NO_STEPS, USER, VHOST, DeclaredObjects, Place
from leveret.broker.registry.stored_rows import StoredRows
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import PermissionRow

PERMISSION = "permission"


class DeclaredPermissions(DeclaredObjects[PutPermission, DeletePermission]):
    """All permissions except topic permissions."""

    types = (PutPermission, DeletePermission)

    @staticmethod
    def write(it: PutPermission | DeletePermission, metadata: Metadata) -> None:
        if isinstance(it, PutPermission):
            one = it.permission
            row = PermissionRow(one.vhost, one.user, one.configure, one.write, one.read)
            metadata.put_permission(row)
        else:
            metadata.delete_permission(it.vhost, it.user)

    @staticmethod
    def read(rows: StoredRows) -> Iterator[PutPermission]:
        for row in rows.definitions.permissions:
            yield PutPermission(Permission(*row))

    @staticmethod
    def place(it: PutPermission) -> Place:
        return PERMISSION, it.permission.vhost, it.permission.user

    @staticmethod
    def needs(it: PutPermission) -> tuple[Place, ...]:
        return (VHOST, it.permission.vhost), (USER, it.permission.user)

    @staticmethod
    def deletion(it: PutPermission) -> DeletePermission:
        return DeletePermission(it.permission.vhost, it.permission.user)

    def contents(self) -> Iterator[PutPermission]:
        return map(PutPermission, self._tables.permissions.all)

    def check(self, it: PutPermission | DeletePermission) -> None:
        if isinstance(it, PutPermission):
            check_patterns(it.permission)

    def apply(self, it: PutPermission | DeletePermission) -> Iterator[int]:
        tables = self._tables
        if isinstance(it, PutPermission):
            tables.permissions.put(it.permission)
            tables.permissions_changed()
            _permission_put(tables.events, it.permission, it.acting_user)
        elif tables.permissions.remove(it.vhost, it.user):
            tables.permissions_changed()
            permission_deleted(tables.events, it.vhost, it.user, it.acting_user)
        return NO_STEPS

    def acts(self, it: PutPermission | DeletePermission) -> Iterator[AuditedChange]:
        if isinstance(it, DeletePermission):
            where = f"for user '{it.user}' in virtual host '{it.vhost}'"
            text = f"Successfully cleared permissions {where}"
            yield AuditedChange("permission.deleted", PERMISSION, it.user, text, it.vhost)
            return
        row = it.permission
        text = (
            f"Successfully set permissions for user '{row.user}' in virtual host '{row.vhost}' to "
            f"'{row.configure}', '{row.write}', '{row.read}'"
        )
        detail = {"configure": row.configure, "write": row.write, "read": row.read}
        yield AuditedChange("permission.created", PERMISSION, row.user, text, row.vhost, detail)


def _permission_put(events: Events, permission: Permission, acting_user: str) -> None:
    if events.are_wanted:
        events.notify("permission.created", {
            "user": permission.user, "vhost": permission.vhost,
            "configure": permission.configure, "write": permission.write,
            "read": permission.read, "user_who_performed_action": acting_user,
        })  # fmt: skip


def permission_deleted(events: Events, vhost: str, user: str, acting_user: str) -> None:
    """A user's permissions in a vhost were cleared."""
    if events.are_wanted:
        events.notify("permission.deleted", {
            "user": user, "vhost": vhost, "user_who_performed_action": acting_user,
        })  # fmt: skip
