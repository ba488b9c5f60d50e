"""Topic permissions: the routing keys that users may write and read.

Source of the events: RabbitMQ's `rabbit_auth_backend_internal`.
"""

from collections.abc import Iterator

from leveret.broker.auth.permissions import check_patterns
from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.values import (
    DeleteTopicPermission,
    PutTopicPermission,
    TopicPermission,
)
from leveret.broker.events.events import Events
from leveret.broker.registry.declared_objects import NO_STEPS, USER, VHOST, DeclaredObjects, Place
from leveret.broker.registry.stored_rows import StoredRows
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import TopicPermissionRow

TOPIC_PERMISSION = "topic permission"


class DeclaredTopicPermissions(DeclaredObjects[PutTopicPermission, DeleteTopicPermission]):
    """All topic permissions."""

    types = (PutTopicPermission, DeleteTopicPermission)

    @staticmethod
    def write(it: PutTopicPermission | DeleteTopicPermission, metadata: Metadata) -> None:
        if isinstance(it, PutTopicPermission):
            one = it.permission
            row = TopicPermissionRow(one.vhost, one.user, one.exchange, one.write, one.read)
            metadata.put_topic_permission(row)
        else:
            metadata.delete_topic_permission(it.vhost, it.user, it.exchange)

    @staticmethod
    def read(rows: StoredRows) -> Iterator[PutTopicPermission]:
        for row in rows.definitions.topic_permissions:
            yield PutTopicPermission(TopicPermission(*row))

    @staticmethod
    def place(it: PutTopicPermission) -> Place:
        one = it.permission
        return TOPIC_PERMISSION, one.vhost, one.user, one.exchange

    @staticmethod
    def needs(it: PutTopicPermission) -> tuple[Place, ...]:
        return (VHOST, it.permission.vhost), (USER, it.permission.user)

    @staticmethod
    def deletion(it: PutTopicPermission) -> DeleteTopicPermission:
        one = it.permission
        return DeleteTopicPermission(one.vhost, one.user, one.exchange)

    def contents(self) -> Iterator[PutTopicPermission]:
        return map(PutTopicPermission, self._tables.permissions.topics)

    def check(self, it: PutTopicPermission | DeleteTopicPermission) -> None:
        if isinstance(it, PutTopicPermission):
            check_patterns(it.permission)

    def apply(self, it: PutTopicPermission | DeleteTopicPermission) -> Iterator[int]:
        tables = self._tables
        if isinstance(it, PutTopicPermission):
            tables.permissions.put_topic(it.permission)
            tables.permissions_changed()
            _topic_permission_put(tables.events, it.permission, it.acting_user)
        elif tables.permissions.remove_topic(it.vhost, it.user, it.exchange):
            tables.permissions_changed()
            topic_permission_deleted(tables.events, it.vhost, it.user, it.acting_user)
        return NO_STEPS

    def acts(self, it: PutTopicPermission | DeleteTopicPermission) -> Iterator[AuditedChange]:
        if isinstance(it, DeleteTopicPermission):
            exchange = "" if it.exchange is None else f" on exchange '{it.exchange}'"
            where = f"for user '{it.user}' in virtual host '{it.vhost}'"
            text = f"Successfully cleared topic permissions{exchange} {where}"
            detail = {} if it.exchange is None else {"exchange": it.exchange}
            yield AuditedChange(
                "topic.permission.deleted", TOPIC_PERMISSION, it.user, text, it.vhost, detail
            )
            return
        row = it.permission
        text = (
            f"Successfully set topic permissions on exchange '{row.exchange}' for user "
            f"'{row.user}' in virtual host '{row.vhost}' to '{row.write}', '{row.read}'"
        )
        detail = {"exchange": row.exchange, "write": row.write, "read": row.read}
        yield AuditedChange(
            "topic.permission.created", TOPIC_PERMISSION, row.user, text, row.vhost, detail
        )


def _topic_permission_put(events: Events, permission: TopicPermission, acting_user: str) -> None:
    if events.are_wanted:
        events.notify("topic.permission.created", {
            "user": permission.user, "vhost": permission.vhost, "exchange": permission.exchange,
            "write": permission.write, "read": permission.read,
            "user_who_performed_action": acting_user,
        })  # fmt: skip


def topic_permission_deleted(events: Events, vhost: str, user: str, acting_user: str) -> None:
    """A user's topic permissions in a vhost, or on one of its exchanges, were cleared."""
    if events.are_wanted:
        events.notify("topic.permission.deleted", {
            "user": user, "vhost": vhost, "user_who_performed_action": acting_user,
        })  # fmt: skip
