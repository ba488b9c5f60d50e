"""Bindings of queues and exchanges to exchanges.

Source of the events: RabbitMQ's `rabbit_binding`.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from leveret.broker.amqp.errors import not_found
from leveret.broker.amqp.field_table import decode_table, encode_table
from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.values import DeleteBinding, PutBinding
from leveret.broker.exchanges.recent_history import RecentHistory
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.dead_letters.header import DECODED_BYTES
from leveret.broker.registry.declared_objects import NO_STEPS, VHOST, Place
from leveret.broker.registry.objects_of_vhosts import ObjectsOfVhosts, logger
from leveret.broker.registry.stored_rows import StoredRows
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.names import EXCHANGE, QUEUE, resource
from leveret.broker.vhost.binding import Binding, Exchange
from leveret.broker.vhost.routing import replaying_history
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import BindingRow

BINDING = "binding"
DETACH_WORK = 30
"""The work of detaching a binding, with its event, in the units of broker/runtime/turns.py."""


class DeclaredBindings(ObjectsOfVhosts[PutBinding, DeleteBinding]):
    """The bindings of all vhosts, except those to the default exchange."""

    types = (PutBinding, DeleteBinding)

    @staticmethod
    def write(it: PutBinding | DeleteBinding, metadata: Metadata) -> None:
        row = BindingRow(
            it.vhost, it.source, it.destination_kind, it.destination, it.routing_key, it.arguments
        )
        if isinstance(it, PutBinding):
            metadata.put_binding(row)
        else:
            metadata.delete_binding(row)

    @staticmethod
    def read(rows: StoredRows) -> Iterator[PutBinding]:
        for row in rows.definitions.bindings:
            yield PutBinding(
                row.vhost, row.source, row.destination, row.routing_key, row.destination_kind,
                row.arguments,
            )  # fmt: skip

    @staticmethod
    def place(it: PutBinding) -> Place:
        return (
            BINDING, it.vhost, it.source, it.destination_kind, it.destination, it.routing_key,
            it.arguments.hex(),
        )  # fmt: skip

    @staticmethod
    def needs(it: PutBinding) -> tuple[Place, ...]:
        source = (EXCHANGE, it.vhost, it.source)
        return (VHOST, it.vhost), source, (it.destination_kind, it.vhost, it.destination)

    @staticmethod
    def deletion(it: PutBinding) -> DeleteBinding:
        return DeleteBinding(
            it.vhost, it.source, it.destination, it.routing_key, it.destination_kind, it.arguments
        )

    def contents(self) -> Iterator[PutBinding]:
        for vhost in self._tables.vhosts.values():
            for exchange in vhost.exchanges.values():
                for binding in exchange.bindings.values():
                    yield PutBinding(
                        vhost.name, exchange.name, binding.destination.name, binding.routing_key,
                        binding.destination_kind, encode_table(binding.arguments),
                    )  # fmt: skip

    def check(self, it: PutBinding | DeleteBinding) -> None:
        super().check(it)
        if isinstance(it, DeleteBinding):
            return
        vhost = self._tables.vhosts[it.vhost]
        source = vhost.exchanges.get(it.source)
        if source is None:
            raise not_found(f"no {resource(EXCHANGE, it.source, it.vhost)}")
        destination = _destination(vhost, it)
        if destination is None:
            raise not_found(f"no {resource(it.destination_kind, it.destination, it.vhost)}")
        arguments = decode_table(it.arguments)[0]
        if Binding(source, destination, it.routing_key, arguments).key not in source.bindings:
            source.type.validate_binding(it.routing_key, arguments)
            source.type.validate_destination(
                None if isinstance(destination, Exchange) else destination.kind
            )

    def is_durable(self, it: PutBinding | DeleteBinding) -> bool:
        vhost = self._tables.vhosts[it.vhost]
        ends = vhost.exchanges.get(it.source), _destination(vhost, it)
        return all(end is not None and end.durable for end in ends)

    def apply(self, it: PutBinding | DeleteBinding) -> Iterator[int]:
        vhost = self._vhost_of(it)
        if vhost is None:
            return NO_STEPS
        if isinstance(it, PutBinding):
            _bind(vhost, it)
        elif (binding := find_binding(vhost, it)) is not None:
            _detach(vhost, binding, it.acting_user)
            vhost.routes_changed()
        return NO_STEPS

    def acts(self, it: PutBinding | DeleteBinding) -> Iterator[AuditedChange]:
        action, done, preposition = (
            ("created", "Bound", "to")
            if isinstance(it, PutBinding)
            else ("deleted", "Unbound", "from")
        )
        text = (
            f"{done} {it.destination_kind} '{it.destination}' {preposition} "
            f"{resource(EXCHANGE, it.source, it.vhost)} with routing key '{it.routing_key}'"
        )
        detail = {"source": it.source, "routing_key": it.routing_key}
        yield AuditedChange(f"binding.{action}", BINDING, it.destination, text, it.vhost, detail)


def find_binding(vhost: VirtualHost, it: DeleteBinding) -> Binding | None:
    """The binding that a declaration deletes."""
    source = vhost.exchanges.get(it.source)
    key = (it.source, it.destination_kind, it.destination, it.routing_key, it.arguments)
    return None if source is None else source.bindings.get(key)


def detaching(vhost: VirtualHost, bindings: deque[Binding], acting_user: str) -> Iterator[int]:
    """The steps of removing bindings, each of which is freed at its step."""
    while bindings:
        binding = bindings.popleft()
        # A binding of an exchange to itself is both outgoing and incoming.
        if binding.key in binding.source.bindings:
            _detach(vhost, binding, acting_user)
        yield DETACH_WORK + len(binding.key[-1]) // DECODED_BYTES


def _detach(vhost: VirtualHost, binding: Binding, acting_user: str) -> None:
    binding.detach()
    for watcher in binding.source.watchers:
        watcher.binding_removed(binding)
    if vhost.events.are_wanted:
        vhost.events.notify("binding.deleted", _facts(vhost, binding, acting_user))


def _bind(vhost: VirtualHost, it: PutBinding) -> None:
    """Add a binding, unless it exists."""
    source, destination = vhost.exchanges.get(it.source), _destination(vhost, it)
    if source is None or destination is None:
        logger.warning("%r is skipped: its source or destination does not exist", it)
        return
    binding = Binding(source, destination, it.routing_key, decode_table(it.arguments)[0])
    if binding.key in source.bindings:
        return
    binding.attach()
    for watcher in source.watchers:
        watcher.binding_added(binding)
    vhost.routes_changed()
    if vhost.events.are_wanted:
        vhost.events.notify("binding.created", _facts(vhost, binding, it.acting_user))
    if isinstance(source.type, RecentHistory):
        steps = replaying_history(vhost, source.type, destination)
        LongWork(vhost.turns, f"the history of exchange {it.source!r}", steps).start()


def _destination(
    vhost: VirtualHost, it: PutBinding | DeleteBinding
) -> QueueClient | Exchange | None:
    if it.destination_kind == QUEUE:
        return vhost.queues.get(it.destination)
    return vhost.exchanges.get(it.destination)


def _facts(vhost: VirtualHost, binding: Binding, acting_user: str) -> dict[str, Any]:
    """The event of a binding."""
    return {
        "source_name": binding.source.name,
        "source_kind": EXCHANGE,
        "destination_name": binding.destination.name,
        "destination_kind": binding.destination_kind,
        "routing_key": binding.routing_key,
        "arguments": binding.arguments,
        "vhost": vhost.name,
        "user_who_performed_action": acting_user,
    }
