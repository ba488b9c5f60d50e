"""The registry: all declared objects of a node in memory, and the one function that changes them.

`apply` applies a declaration to memory. It is the same for declarations from clients, from disk
after a restart and from other nodes, and it writes nothing: the declaration log
(declaration_log.py) decides when and where a declaration is written, and then calls `apply`. The
registry finds the kind of object that a declaration concerns, which does the rest
(declared_objects.py).

RG1. The state after `apply` depends only on the state before it and on the declaration: not on the
    caller, nor on the order in which parts of the broker were constructed.
RG2. `apply` never refuses. `check` finds errors in a declaration before it is written. If it has
    become impossible since then (a binding whose queue was deleted) it is skipped.
RG3. The steps are explicit and in this order: the objects change, then their dependents (routes,
    policies of queues and exchanges, connections), then the event is emitted. Clients whose
    consumers lose their queue are told later, by the declaration log (`take_cancelled`).
RG4. A deletion may take several turns of the event loop (`applying`). From the first turn on the
    deleted objects cannot be found, and no other declaration is applied before the last turn.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.requester import NODE, Requester
from leveret.broker.declarations.values import Declaration, Permission, PutPermission, PutVhost
from leveret.broker.events.events import Events
from leveret.broker.queues.contract.queue_client import Consumer
from leveret.broker.registry.consequences import Removal, finding_consequences
from leveret.broker.registry.declared_objects import DeclaredObjects
from leveret.broker.registry.delaying_queues import with_delaying_queues
from leveret.broker.registry.objects import OBJECTS
from leveret.broker.registry.tables import Dependents, Tables
from leveret.broker.runtime.long_work import finish
from leveret.broker.runtime.names import NODE_ITSELF
from leveret.broker.vhost.virtual_host import VirtualHost


class Registry(Tables):
    """The declared objects of one node. objects: by kind, in the order in which they apply.

    make_vhost: creates the object of a vhost, by name. call_soon: the event loop's.
    """

    def __init__(
        self,
        events: Events,
        make_vhost: Callable[[str], VirtualHost],
        dependents: Dependents,
        call_soon: Callable[[Callable[[], object]], object],
    ) -> None:
        super().__init__(events, make_vhost, dependents, call_soon)
        self.objects: tuple[DeclaredObjects[Any, Any], ...] = tuple(kind(self) for kind in OBJECTS)
        self._by_type = {type_: one for one in self.objects for type_ in one.types}

    def check(self, declaration: Declaration) -> None:
        """Check that a declaration is valid.

        Raises re.error for the pattern of a permission, PolicyError for a policy, RequirementError
        for a parameter, and a fault for an exchange or binding.
        """
        self._by_type[type(declaration)].check(declaration)

    def is_durable(self, declaration: Declaration) -> bool:
        """Whether a declaration must be written to survive a restart."""
        return self._by_type[type(declaration)].is_durable(declaration)

    def is_new(self, declaration: Declaration) -> bool:
        """Whether it adds an object of a kind of which clients may declare any number."""
        objects = self._by_type[type(declaration)]
        return not objects.are_replaced and type(declaration) is objects.types[0]

    def stores_messages(self, declaration: Declaration) -> bool:
        """Whether the object is durable and needs a storage id for its messages."""
        return self._by_type[type(declaration)].stores_messages(declaration)

    def complete(self, declarations: Sequence[Declaration]) -> list[Declaration]:
        """`completing` in one turn of the event loop."""
        return finish(self.completing(declarations))

    def completing(
        self, declarations: Sequence[Declaration]
    ) -> Generator[int, None, list[Declaration]]:
        """Find the declarations to write and apply for declarations that are submitted together.

        Leaves out those that change nothing, and computes changes of queues' placements
        (`DeclaredObjects.completed`). Adds deletions of auto-delete exchanges that lose their last
        binding; these come first, as their events do in RabbitMQ. Adds the queues of delayed
        message exchanges (delaying_queues.py). Yields the work of each step.
        Raises ValueError for a change of a placement that is not possible.
        """
        new = self._completed(declarations)
        removals = [one for one in new if isinstance(one, Removal)]
        consequences = yield from finding_consequences(self.vhosts, removals)
        return list(with_delaying_queues(self.vhosts, [*consequences, *new]))

    def _completed(self, declarations: Iterable[Declaration]) -> list[Declaration]:
        """Complete declarations; if a new object is declared repeatedly, the first one counts."""
        new: dict[object, Declaration] = {}
        for it in declarations:
            objects = self._by_type[type(it)]
            completed = objects.completed(it)
            if completed is not None:
                new.setdefault(objects.place(it) if self.is_new(it) else id(it), completed)
        return list(new.values())

    def apply(self, declaration: Declaration) -> None:
        """Apply a declaration to memory."""
        for _ in self.applying(declaration):
            pass

    def applying(self, declaration: Declaration) -> Iterator[int]:
        """Apply a declaration, in steps if it deletes objects with very many bindings (RG4).

        Yields the work of each step.
        """
        return self._by_type[type(declaration)].apply(declaration)

    def take_cancelled(self) -> list[Consumer]:
        """The consumers of queues that were deleted since the last call, for `tell_cancelled`."""
        cancelled, self.cancelled = self.cancelled, []
        return cancelled

    def acts(
        self, declarations: Iterable[Declaration], requester: Requester
    ) -> list[AuditedChange]:
        """The report of declarations for the audit. Called before they are applied.

        It reports declarations of operators over HTTP, with leveretctl or in a definitions file.
        Programs declare queues, exchanges and bindings all the time. Requests for these over AMQP
        are reported only if they delete a durable object, and imports of these only as a number.
        """
        if requester.way == NODE:
            return []
        acts: list[AuditedChange] = []
        for it in declarations:
            objects = self._by_type[type(it)]
            if objects.is_reported(it, requester):
                acts += objects.acts(it)
        return acts

    def new_vhost(
        self, name: str, description: str = "", tags: str = "", acting_user: str = NODE_ITSELF
    ) -> list[Declaration]:
        """The declarations of a new vhost, with full permissions for the user that creates it."""
        made: list[Declaration] = [PutVhost(name, description, tags, acting_user=acting_user)]
        if self.users.get(acting_user) is not None:
            everything = Permission(name, acting_user, ".*", ".*", ".*")
            made.append(PutPermission(everything, acting_user=acting_user))
        return made
