"""Virtual hosts. A vhost is deleted with everything in it.

Source of the events: RabbitMQ's `rabbit_vhost`.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.values import DeleteVhost, PutVhost
from leveret.broker.registry.declared_objects import NO_STEPS, VHOST, DeclaredObjects, Place
from leveret.broker.registry.objects import exchanges, queues
from leveret.broker.registry.objects.permissions import permission_deleted
from leveret.broker.registry.objects.topic_permissions import topic_permission_deleted
from leveret.broker.registry.stored_rows import StoredRows
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import VhostRow


class DeclaredVhosts(DeclaredObjects[PutVhost, DeleteVhost]):
    """The vhosts of a node."""

    types = (PutVhost, DeleteVhost)

    @staticmethod
    def write(it: PutVhost | DeleteVhost, metadata: Metadata) -> None:
        if isinstance(it, PutVhost):
            metadata.put_vhost(VhostRow(it.name, it.description, it.tags))
        else:
            metadata.delete_vhost(it.name)

    @staticmethod
    def rows_deleted_with(it: PutVhost | DeleteVhost) -> tuple[str, ...] | None:
        return (it.name,) if isinstance(it, DeleteVhost) else None

    @staticmethod
    def read(rows: StoredRows) -> Iterator[PutVhost]:
        for row in rows.definitions.vhosts:
            yield PutVhost(row.name, row.description, row.tags)

    @staticmethod
    def place(it: PutVhost) -> Place:
        return VHOST, it.name

    @staticmethod
    def deletion(it: PutVhost) -> DeleteVhost:
        return DeleteVhost(it.name)

    def contents(self) -> Iterator[PutVhost]:
        for vhost in self._tables.vhosts.values():
            yield PutVhost(vhost.name, vhost.description, vhost.tags)

    def apply(self, it: PutVhost | DeleteVhost) -> Iterator[int]:
        if isinstance(it, DeleteVhost):
            return self._deleting(it)
        vhosts = self._tables.vhosts
        vhost = vhosts.get(it.name)
        emit = vhost_updated
        if vhost is None:
            vhost = vhosts[it.name] = self._tables.make_vhost(it.name)
            emit = vhost_created
        vhost.description, vhost.tags = it.description, it.tags
        emit(vhost, it.acting_user)
        return NO_STEPS

    def _deleting(self, it: DeleteVhost) -> Iterator[int]:
        # Operators may set policies and permissions before the vhost exists.
        tables = self._tables
        users, topic_users = tables.permissions.remove_vhost(it.name)
        tables.parameters.remove_vhost(it.name)
        tables.limits.remove_vhost(it.name)
        tables.policies.remove_vhost(it.name)
        tables.permissions_changed()
        vhost = tables.vhosts.pop(it.name, None)
        if vhost is not None:
            vhost.is_deleted = True
            tables.dependents.close_connections_to(vhost)
        for user in users:
            permission_deleted(tables.events, it.name, user, it.acting_user)
        for user in topic_users:
            topic_permission_deleted(tables.events, it.name, user, it.acting_user)
        if vhost is not None:
            yield from _emptying(vhost, it.acting_user)
            tables.dependents.end_traces_of(vhost)
            vhost_deleted(vhost, it.acting_user)

    def acts(self, it: PutVhost | DeleteVhost) -> Iterator[AuditedChange]:
        if isinstance(it, DeleteVhost):
            yield AuditedChange(
                "vhost.deleted", VHOST, it.name, f"Deleting vhost '{it.name}'", it.name
            )
            return
        is_new = it.name not in self._tables.vhosts
        tags = ",".join(filter(None, it.tags.split(",")))
        facts = f"(description: '{it.description}', tags: [{tags}])"
        described = facts if it.description or it.tags else "without a description"
        action, text = ("created", "Adding") if is_new else ("updated", "Updating")
        detail = {"description": it.description, "tags": it.tags}
        summary = f"{text} vhost '{it.name}' {described}"
        yield AuditedChange(f"vhost.{action}", VHOST, it.name, summary, it.name, detail)


def _emptying(vhost: VirtualHost, acting_user: str) -> Iterator[int]:
    """Remove everything in a vhost that is deleted. The consumers' connections are closed."""
    its_queues, its_exchanges = deque(vhost.all_queues()), deque(vhost.exchanges.values())
    vhost.queues.clear()
    vhost.delaying_queues.clear()
    vhost.exchanges.clear()
    while its_queues:
        yield from queues.deleting_with_vhost(vhost, its_queues.popleft(), acting_user)
    while its_exchanges:
        yield from exchanges.deleting_with_vhost(vhost, its_exchanges.popleft(), acting_user)
    vhost.emptied()


def vhost_created(vhost: VirtualHost, acting_user: str) -> None:
    """A vhost was created, with its predeclared exchanges."""
    if not vhost.events.are_wanted:
        return
    for exchange in vhost.exchanges.values():
        exchanges.exchange_created(vhost, exchange, acting_user)
    vhost.events.notify("vhost.created", _facts(vhost, acting_user))


def vhost_updated(vhost: VirtualHost, acting_user: str) -> None:
    """The description, tags or tracing of a vhost changed."""
    if vhost.events.are_wanted:
        vhost.events.notify("vhost.updated", _facts(vhost, acting_user))


def _facts(vhost: VirtualHost, acting_user: str) -> dict[str, Any]:
    return {
        "name": vhost.name,
        "description": vhost.description,
        "tags": [tag for tag in vhost.tags.split(",") if tag],
        "tracing": vhost.is_traced,
        "cluster_state": {vhost.events.node: "running"},
        "user_who_performed_action": acting_user,
    }


def vhost_deleted(vhost: VirtualHost, acting_user: str) -> None:
    """A vhost was deleted, after the events of everything in it."""
    if vhost.events.are_wanted:
        facts = {"name": vhost.name, "user_who_performed_action": acting_user}
        vhost.events.notify("vhost.deleted", facts)
