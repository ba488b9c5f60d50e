"""The kinds of queues that a node serves: a table to which each kind adds itself.

`x-queue-type` chooses the kind of a queue that is declared; without it a queue is classic.
"""

from typing import Protocol

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.queues.contract.arguments import check_declare_arguments, check_queue_type
from leveret.broker.queues.contract.queue_client import ExclusiveOwner, QueueClient
from leveret.broker.queues.contract.queue_kind import CLASSIC, NOT_SERVED, TYPE_ARGUMENT, QueueKind
from leveret.broker.queues.contract.queue_owner import QueueOwner
from leveret.broker.runtime.names import QUEUE, resource


class MakeQueue(Protocol):
    """Makes a queue of one kind, with the state that a restart found."""

    def __call__(
        self,
        owner: QueueOwner,
        name: str,
        durable: bool,
        auto_delete: bool,
        arguments: Table,
        owner_connection: ExclusiveOwner | None,
        storage_id: int,
    ) -> QueueClient:
        """The queue."""


class QueueKinds:
    """The table of one node."""

    def __init__(self) -> None:
        self._served: dict[str, tuple[QueueKind, MakeQueue]] = {}

    def add(self, kind: QueueKind, make: MakeQueue) -> None:
        """Serve a kind, in place of the kind that was served under its name before."""
        self._served[kind.name] = (kind, make)

    @property
    def _names(self) -> tuple[str, ...]:
        """The values that `x-queue-type` may have, including known kinds that are not served."""
        return tuple(dict.fromkeys((*self._served, *NOT_SERVED)))

    def check_arguments(self, arguments: Table, queue: str, vhost: str) -> None:
        """Raise 406 with RabbitMQ's text for arguments that no such queue can have."""
        check_queue_type(arguments, self._names, queue, vhost)
        kind = self.kind_of(arguments)
        check_declare_arguments(arguments, kind.arguments, queue, vhost)
        kind.check_arguments(arguments, queue, vhost)

    def check_declaration(
        self,
        arguments: Table,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        queue: str,
        vhost: str,
    ) -> None:
        """Raise 406 with RabbitMQ's text if this node cannot declare such a queue."""
        self.check_arguments(arguments, queue, vhost)
        kind = self.kind_of(arguments)
        kind.check_properties(durable, exclusive, auto_delete, queue, vhost)
        self._require_served(kind, queue, vhost)

    def kind_of(self, arguments: Table) -> QueueKind:
        """The kind that arguments ask for; the kind of classic queues if the value is unknown."""
        name = queue_type(arguments)
        served = self._served.get(name)
        if served is not None:
            return served[0]
        return NOT_SERVED.get(name) or self._served[CLASSIC][0]

    def _require_served(self, kind: QueueKind, queue: str, vhost: str) -> None:
        """Raise 406 for a kind that this node does not serve."""
        if kind.name not in self._served:
            what = resource(QUEUE, queue, vhost)
            raise precondition_failed(
                f"invalid arg '{TYPE_ARGUMENT}' for {what}: "
                f'"this node does not serve {kind.name} queues"'
            )

    def make(
        self,
        owner: QueueOwner,
        name: str,
        durable: bool,
        auto_delete: bool,
        arguments: Table,
        owner_connection: ExclusiveOwner | None,
        storage_id: int,
    ) -> QueueClient:
        """A queue of the kind that its arguments ask for."""
        _, make = self._served[queue_type(arguments)]
        return make(owner, name, durable, auto_delete, arguments, owner_connection, storage_id)


def queue_type(arguments: Table) -> str:
    """The value of `x-queue-type`, or `classic`."""
    field = arguments.get(TYPE_ARGUMENT)
    return str(field[1]) if field is not None else CLASSIC
