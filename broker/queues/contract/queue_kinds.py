"""The kinds of queue that a node serves: a table with the factory of each kind.

`x-queue-type` chooses the kind of a queue that is declared; without it a queue is classic. An
installed package can serve a further kind: it names, in the group `leveret.queue_kinds` and under
the kind's name, a function without arguments that makes the factory.
"""

from collections.abc import Callable, Iterator
from typing import Final

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.amqp.field_table import Table
from leveret.broker.plugins.extensions import Extensions
from leveret.broker.queues.contract.arguments import (
    check_declare_arguments,
    check_queue_type,
    read_options,
)
from leveret.broker.queues.contract.placement import HERE, Placement
from leveret.broker.queues.contract.queue_client import ExclusiveOwner
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.contract.queue_kind import CLASSIC, TYPE_ARGUMENT, QueueKind
from leveret.broker.queues.contract.retry_arguments import check_retry_arguments
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.runtime.names import QUEUE, resource

INSTALLED: Final[Extensions[Callable[[], QueueFactory]]] = Extensions("leveret.queue_kinds", {})


class QueueKinds:
    """The table of one node.

    node: the node's name, if it is in a cluster; empty otherwise. incarnation: the number of its
    run. fit: adapts the factory of an installed package to the cluster.
    """

    def __init__(self) -> None:
        self.node = ""
        self.incarnation = 0
        self.fit: Callable[[QueueFactory], QueueFactory] = lambda factory: factory
        self._factories: dict[str, QueueFactory] = {}
        self._undeclared: dict[str, QueueFactory] = {}
        self._not_served: dict[str, QueueKind] = {}

    def add(self, factory: QueueFactory) -> None:
        """Serve a kind by this factory, in place of an earlier one of the same name."""
        self._factories[factory.kind.name] = factory

    def add_undeclared(self, factory: QueueFactory) -> None:
        """Serve a kind that no `x-queue-type` names."""
        self._undeclared[factory.kind.name] = factory

    def know(self, kind: QueueKind) -> None:
        """Have the declarations of a kind that is not served checked before they are refused."""
        self._not_served[kind.name] = kind

    def __iter__(self) -> Iterator[QueueFactory]:
        return iter(tuple(self._factories.values()))

    def of(self, kind: QueueKind) -> QueueFactory:
        """The factory of a kind.

        A queue of a kind that is not served lives on another node, and is treated as a classic one
        there.
        """
        name = kind.name
        factory = self._factories.get(name) or self._undeclared.get(name)
        return factory or self._factories[CLASSIC]

    def specify(
        self,
        vhost: str,
        name: str,
        arguments: Table,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        owner: ExclusiveOwner | None = None,
        storage_id: int = 0,
        placement: Placement = HERE,
    ) -> QueueSpecification:
        """The specification of a queue, which may be impossible: see `check`.

        A queue whose `x-queue-type` is unknown is classic.
        """
        return QueueSpecification(
            vhost, name, self._kind_of(arguments), durable, auto_delete, arguments,
            read_options(arguments), owner, storage_id, placement,
        )  # fmt: skip

    def _kind_of(self, arguments: Table) -> QueueKind:
        name = queue_type(arguments)
        if name not in self._factories and name in INSTALLED:
            self.add(self.fit(INSTALLED[name]()))
        factory = self._factories.get(name)
        if factory is not None:
            return factory.kind
        return self._not_served.get(name) or self._factories[CLASSIC].kind

    def check(self, specification: QueueSpecification) -> None:
        """Raise 406 with RabbitMQ's text if this node cannot declare such a queue."""
        self.check_arguments(specification)
        vhost, queue, kind, durable, auto_delete, *_ = specification
        kind.check_properties(durable, specification.is_exclusive, auto_delete, queue, vhost)
        self.require_served(specification)

    def require_served(self, specification: QueueSpecification) -> None:
        """Raise 406 if this node does not serve the kind that `x-queue-type` names."""
        name = queue_type(specification.arguments)
        if name not in self._factories:
            what = resource(QUEUE, specification.name, specification.vhost)
            raise precondition_failed(
                f"invalid arg '{TYPE_ARGUMENT}' for {what}: "
                f'"this node does not serve {name} queues"'
            )

    def check_arguments(self, specification: QueueSpecification) -> None:
        """Raise 406 with RabbitMQ's text for arguments that no such queue can have."""
        vhost, queue, kind, arguments = (
            specification.vhost, specification.name, specification.kind, specification.arguments,
        )  # fmt: skip
        # The values that `x-queue-type` may have include those of kinds that are not served.
        types = tuple(dict.fromkeys((*self._factories, *self._not_served)))
        check_queue_type(arguments, types, queue, vhost)
        check_declare_arguments(arguments, kind.taken_arguments(arguments), queue, vhost)
        check_retry_arguments(arguments, kind, queue, vhost)
        kind.check_arguments(arguments, queue, vhost)


def queue_type(arguments: Table) -> str:
    """The value of `x-queue-type`, or `classic`."""
    field = arguments.get(TYPE_ARGUMENT)
    return str(field[1]) if field is not None else CLASSIC
