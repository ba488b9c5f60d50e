"""Exchanges.

Source of the events: RabbitMQ's `rabbit_exchange`.
"""

from collections import deque
from collections.abc import Iterator

from leveret.broker.amqp.field_table import decode_table, encode_table
from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.requester import AMQP, Requester
from leveret.broker.declarations.values import DeleteExchange, PutExchange
from leveret.broker.exchanges import create_exchange_type
from leveret.broker.exchanges.delayed import DelayedMessage, queue_type
from leveret.broker.exchanges.message_deduplication import MessageDeduplication, is_on_disk
from leveret.broker.queues.contract.queue_kind import CLASSIC
from leveret.broker.registry.declared_objects import NO_STEPS, VHOST, Place
from leveret.broker.registry.delaying_queues import check_delaying
from leveret.broker.registry.objects.bindings import detaching
from leveret.broker.registry.objects_of_vhosts import ObjectsOfVhosts
from leveret.broker.registry.stored_rows import StoredRows, put_row
from leveret.broker.runtime.names import EXCHANGE, NODE_ITSELF, resource
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.virtual_host import PREDECLARED, VirtualHost
from leveret.storage.metadata.metadata import Metadata
from leveret.storage.metadata.metadata_rows import ExchangeRow

STORED_EXCHANGE = "stored-exchange"
"""The component of the rows with storage ids of exchanges that store messages."""
DELETE_EXCHANGE_WORK = 50
"""The work of deleting an exchange without bindings, in the units of broker/runtime/turns.py."""


class DeclaredExchanges(ObjectsOfVhosts[PutExchange, DeleteExchange]):
    """The exchanges of all vhosts, except those that every vhost has."""

    types = (PutExchange, DeleteExchange)
    components = (STORED_EXCHANGE,)

    @staticmethod
    def write(it: PutExchange | DeleteExchange, metadata: Metadata) -> None:
        if isinstance(it, DeleteExchange):
            with metadata.batch():
                metadata.delete_exchange(it.vhost, it.name)
                metadata.delete_parameter(it.vhost, STORED_EXCHANGE, it.name)
            return
        row = ExchangeRow(
            it.vhost, it.name, it.type, it.durable, it.auto_delete, it.internal, it.arguments
        )
        with metadata.batch():
            metadata.put_exchange(row)
            if it.storage_id:
                put_row(metadata, it.vhost, STORED_EXCHANGE, it.name, it.storage_id)

    @staticmethod
    def rows_deleted_with(it: PutExchange | DeleteExchange) -> tuple[str, ...] | None:
        return (it.vhost, EXCHANGE, it.name) if isinstance(it, DeleteExchange) else None

    @staticmethod
    def read(rows: StoredRows) -> Iterator[PutExchange]:
        storage_ids = rows.values(STORED_EXCHANGE)
        for row in rows.definitions.exchanges:
            yield PutExchange(
                row.vhost, row.name, row.type, row.durable, row.auto_delete, row.internal,
                row.arguments, storage_id=storage_ids.get((row.vhost, row.name), 0),
            )  # fmt: skip

    @staticmethod
    def place(it: PutExchange) -> Place:
        return EXCHANGE, it.vhost, it.name

    @staticmethod
    def needs(it: PutExchange) -> tuple[Place, ...]:
        return ((VHOST, it.vhost),)

    @staticmethod
    def deletion(it: PutExchange) -> DeleteExchange:
        return DeleteExchange(it.vhost, it.name)

    def contents(self) -> Iterator[PutExchange]:
        for vhost in self._tables.vhosts.values():
            for exchange in vhost.exchanges.values():
                if exchange.name and exchange.name not in PREDECLARED:
                    yield PutExchange(
                        vhost.name, exchange.name, exchange.type_name, exchange.durable,
                        exchange.auto_delete, exchange.internal, encode_table(exchange.arguments),
                    )  # fmt: skip

    def check(self, it: PutExchange | DeleteExchange) -> None:
        super().check(it)
        if isinstance(it, PutExchange):
            create_exchange_type(it.type, decode_table(it.arguments)[0])
            if self._found(it) is None:
                check_delaying(self._tables.vhosts[it.vhost], it)

    def completed(self, it: PutExchange | DeleteExchange) -> PutExchange | DeleteExchange | None:
        is_known = isinstance(it, PutExchange) and self._found(it) is not None
        return None if is_known else it

    def is_durable(self, it: PutExchange | DeleteExchange) -> bool:
        if isinstance(it, PutExchange):
            return it.durable
        exchange = self._found(it)
        return exchange is not None and exchange.durable

    def stores_messages(self, it: PutExchange | DeleteExchange) -> bool:
        if not isinstance(it, PutExchange) or not it.durable:
            return False
        if it.type == MessageDeduplication.name:
            return is_on_disk(decode_table(it.arguments)[0])
        arguments = decode_table(it.arguments)[0]
        return it.type == DelayedMessage.name and queue_type(arguments) == CLASSIC

    def _found(self, it: PutExchange | DeleteExchange) -> Exchange | None:
        return self._tables.vhosts[it.vhost].exchanges.get(it.name)

    def apply(self, it: PutExchange | DeleteExchange) -> Iterator[int]:
        vhost = self._vhost_of(it)
        if vhost is None:
            return NO_STEPS
        if isinstance(it, DeleteExchange):
            return self._deleting(vhost, it)
        if it.name not in vhost.exchanges:
            exchange = vhost.add_exchange(
                it.name, it.type, it.durable, it.auto_delete, it.internal,
                decode_table(it.arguments)[0], it.storage_id,
            )  # fmt: skip
            exchange_created(vhost, exchange, it.acting_user)
        return NO_STEPS

    def _deleting(self, vhost: VirtualHost, it: DeleteExchange) -> Iterator[int]:
        """Remove an exchange, and the bindings from it and to it."""
        exchange = vhost.exchanges.pop(it.name, None)
        if exchange is not None:
            exchange.is_deleted = True
            vhost.unroutable.exchange_deleted(it.name)
            vhost.routes_changed()
            yield DELETE_EXCHANGE_WORK
            bindings = deque((*exchange.bindings.values(), *exchange.incoming.values()))
            yield from detaching(vhost, bindings, it.acting_user)
            vhost.routes_changed()
            if exchange.delayed is not None:
                exchange.delayed.delete()
            vhost.forget_seen(exchange)
            _exchange_deleted(vhost, exchange, it.acting_user)
        self._tables.dependents.resource_changed(EXCHANGE, it.vhost, it.name)

    def is_reported(self, it: PutExchange | DeleteExchange, requester: Requester) -> bool:
        is_by_client = isinstance(it, DeleteExchange) and requester.way == AMQP
        return self.is_durable(it) if is_by_client else super().is_reported(it, requester)

    def acts(self, it: PutExchange | DeleteExchange) -> Iterator[AuditedChange]:
        name = resource(EXCHANGE, it.name, it.vhost)
        if isinstance(it, PutExchange):
            text = f"Declared {name} of type '{it.type}'"
            detail = {"type": it.type, "durable": it.durable}
            yield AuditedChange("exchange.created", EXCHANGE, it.name, text, it.vhost, detail)
        else:
            yield AuditedChange("exchange.deleted", EXCHANGE, it.name, f"Deleted {name}", it.vhost)


def deleting_with_vhost(vhost: VirtualHost, exchange: Exchange, acting_user: str) -> Iterator[int]:
    """The steps of removing an exchange of a vhost that is deleted."""
    if exchange.delayed is not None:
        exchange.delayed.delete()
    vhost.forget_seen(exchange)
    yield from detaching(vhost, deque(exchange.incoming.values()), NODE_ITSELF)
    _exchange_deleted(vhost, exchange, acting_user)
    yield DELETE_EXCHANGE_WORK


def exchange_created(vhost: VirtualHost, exchange: Exchange, acting_user: str) -> None:
    """An exchange was declared."""
    if not vhost.events.are_wanted:
        return
    vhost.events.notify("exchange.created", {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.type_name,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": exchange.arguments,
        "policy": "" if exchange.policy is None else exchange.policy.name,
        "user_who_performed_action": acting_user,
    })  # fmt: skip


def _exchange_deleted(vhost: VirtualHost, exchange: Exchange, acting_user: str) -> None:
    if vhost.events.are_wanted:
        vhost.events.notify("exchange.deleted", {
            "name": exchange.name, "vhost": vhost.name, "user_who_performed_action": acting_user,
        })  # fmt: skip
