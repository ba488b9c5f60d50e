"""Applies declarations of exchanges, queues and bindings to the vhosts of a node.

A queue or an exchange may have very many bindings, so it is deleted in steps (broker/long_work.py).
In the first one it leaves the tables of its vhost: it cannot be declared, bound or consumed from
any more, and routes pass it over (`is_deleted`). Its bindings are detached in the next ones, each
with its event, and its own event comes last. Nothing else is declared meanwhile
(declaration_log.py), so a new queue of the same name finds none of the old bindings.
"""

import logging
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import singledispatchmethod
from typing import Protocol

from leveret.broker.amqp.errors import not_allowed, not_found
from leveret.broker.amqp.field_table import decode_table
from leveret.broker.binding import Binding, Exchange
from leveret.broker.declarations import (
    ChangeQueueMirrors,
    Declaration,
    DeleteBinding,
    DeleteExchange,
    DeleteQueue,
    PutBinding,
    PutExchange,
    PutQueue,
    PutQueueHome,
    PutQueueMirrors,
)
from leveret.broker.exchanges import create_exchange_type
from leveret.broker.exchanges.delayed import DelayedMessage
from leveret.broker.exchanges.recent_history import RecentHistory
from leveret.broker.long_work import LongWork
from leveret.broker.names import EXCHANGE, NODE_ITSELF, QUEUE, resource
from leveret.broker.own_deletions import DELETE_QUEUE_WORK
from leveret.broker.queues.dead_letter import DECODED_BYTES
from leveret.broker.queues.queue_client import Consumer, ExclusiveOwner, QueueClient
from leveret.broker.queues.queue_home import QueueHome
from leveret.broker.queues.queue_places import RemoteOwner
from leveret.broker.registry import object_events
from leveret.broker.registry.mirroring import put_mirrors
from leveret.broker.routing import replaying_history
from leveret.broker.vhost import VirtualHost

logger = logging.getLogger("leveret.registry")

InVhost = (
    PutExchange
    | DeleteExchange
    | PutQueue
    | DeleteQueue
    | PutQueueHome
    | ChangeQueueMirrors
    | PutQueueMirrors
    | PutBinding
    | DeleteBinding
)
Removal = DeleteExchange | DeleteQueue | DeleteBinding

LOOKED_AT_ONCE = 200
"""To look at a binding is a unit of work (broker/turns.py)."""
DETACH_WORK, DELETE_EXCHANGE_WORK = 30, 50
"""The work of detaching a binding and telling of it, and of deleting an exchange without bindings,
in these units."""


class Owner(ExclusiveOwner, Protocol):
    """A connection that may have exclusive queues. exclusive_queues: its exclusive queues."""

    exclusive_queues: dict[str, QueueClient]


class Topology:
    """The exchanges, queues and bindings of all vhosts of a node.

    A declaration names the connection that owns an exclusive queue; `add_owner` registers the
    connection's object. A queue without a registered owner is skipped: its connection has ended. In
    a cluster, where other nodes cannot know that, it is added, and then deleted by this node.

    cancelled: consumers of deleted queues, whose clients are not told yet.
    """

    def __init__(self, vhosts: Mapping[str, VirtualHost]) -> None:
        self._vhosts = vhosts
        self._owners: dict[str, Owner] = {}
        self.cancelled: list[Consumer] = []

    def add_owner(self, owner: Owner) -> None:
        """A connection is about to declare an exclusive queue."""
        self._owners[owner.name] = owner

    def remove_owner(self, owner: Owner) -> None:
        """A connection has ended."""
        if self._owners.get(owner.name) is owner:
            del self._owners[owner.name]

    # Before a declaration is written

    def check(self, it: Declaration) -> None:
        """Check that a declaration is valid. Raises ChannelFault and ConnectionFault."""
        if isinstance(it, InVhost) and it.vhost not in self._vhosts:
            raise not_allowed(f"vhost {it.vhost} not found")
        if isinstance(it, PutExchange):
            create_exchange_type(it.type, decode_table(it.arguments)[0])
        elif isinstance(it, PutBinding):
            self._check_binding(it)

    def _check_binding(self, it: PutBinding) -> None:
        vhost = self._vhosts[it.vhost]
        source = vhost.exchanges.get(it.source)
        if source is None:
            raise not_found(f"no {resource(EXCHANGE, it.source, it.vhost)}")
        destination = _destination(vhost, it)
        if destination is None:
            raise not_found(f"no {resource(it.destination_kind, it.destination, it.vhost)}")
        arguments = decode_table(it.arguments)[0]
        if Binding(source, destination, it.routing_key, arguments).key not in source.bindings:
            source.type.validate_binding(it.routing_key, arguments)

    def is_durable(self, it: InVhost) -> bool:
        """Whether the declaration changes what exists after a restart."""
        if isinstance(it, PutExchange | PutQueue):
            return it.durable
        vhost = self._vhosts[it.vhost]
        if isinstance(it, DeleteExchange):
            return _is_durable(vhost.exchanges.get(it.name))
        if isinstance(it, DeleteQueue | PutQueueHome | ChangeQueueMirrors | PutQueueMirrors):
            return _is_durable(vhost.queues.get(it.name))
        return _is_durable(vhost.exchanges.get(it.source)) and _is_durable(_destination(vhost, it))

    def stores_messages(self, it: Declaration) -> bool:
        """Whether the object is durable and needs a storage id for its messages."""
        if isinstance(it, PutExchange):
            return it.durable and it.type == DelayedMessage.name
        if not isinstance(it, PutQueue | PutQueueMirrors):
            return False
        places = self._vhosts[it.vhost].places
        if isinstance(it, PutQueueMirrors):
            # What an earlier run was asked for is not a copy of this one.
            return (
                self.is_durable(it)
                and places is not None
                and (it.new_copy, it.incarnation) == (places.node, places.incarnation)
            )
        return it.durable and (places is None or it.node in ("", places.node))

    def without_known(self, declarations: Iterable[Declaration]) -> list[Declaration]:
        """Remove the declarations of exchanges and queues that exist or are repeated.

        The existing objects do not change; in particular, a queue keeps its storage id.
        """
        new: dict[object, Declaration] = {}
        for it in declarations:
            if isinstance(it, PutExchange | PutQueue):
                vhost = self._vhosts[it.vhost]
                known = vhost.queues if isinstance(it, PutQueue) else vhost.exchanges
                if it.name not in known:
                    new.setdefault((type(it), it.vhost, it.name), it)
            else:
                new[id(it)] = it
        return list(new.values())

    def finding_consequences(
        self, removals: Iterable[Removal]
    ) -> Generator[int, None, list[DeleteExchange]]:
        """Find the deletions of auto-delete exchanges that lose their last binding by removals.

        Yields the work of each step (broker/long_work.py), and returns the deletions.
        """
        gone: set[Exchange] = set()
        lost: list[tuple[Iterable[Binding], str, str]] = []
        for it in removals:
            vhost = self._vhosts[it.vhost]
            if isinstance(it, DeleteExchange) and it.name in vhost.exchanges:
                gone.add(vhost.exchanges[it.name])
            acting_user = NODE_ITSELF if isinstance(it, DeleteQueue) else it.acting_user
            lost.append((_removed(vhost, it), it.vhost, acting_user))
        found: list[DeleteExchange] = []
        left: dict[Exchange, int] = {}
        seen: set[Binding] = set()
        looked = 0
        for bindings, vhost_name, acting_user in lost:
            for binding in bindings:
                looked += 1
                if looked % LOOKED_AT_ONCE == 0:
                    yield LOOKED_AT_ONCE
                source = binding.source
                if not source.auto_delete or source in gone or binding in seen:
                    continue
                seen.add(binding)
                left[source] = left.get(source, len(source.bindings)) - 1
                if not left[source]:
                    gone.add(source)
                    found.append(DeleteExchange(vhost_name, source.name, acting_user=acting_user))
                    lost.append((list(source.incoming.values()), vhost_name, acting_user))
        return found

    # Applying

    @singledispatchmethod
    def apply(self, it: Declaration) -> None:
        """Apply a declaration; the methods below are registered by the type of their argument."""
        raise AssertionError(f"nothing applies {it!r}")

    @apply.register
    def put_exchange(self, it: PutExchange) -> None:
        """Add an exchange, unless the name exists."""
        vhost = self._vhost(it)
        if vhost is not None and it.name not in vhost.exchanges:
            exchange = vhost.add_exchange(
                it.name, it.type, it.durable, it.auto_delete, it.internal,
                decode_table(it.arguments)[0], it.storage_id,
            )  # fmt: skip
            object_events.exchange_created(vhost, exchange, it.acting_user)

    @apply.register
    def put_queue(self, it: PutQueue) -> None:
        """Add a queue, unless the name exists."""
        vhost = self._vhost(it)
        if vhost is None or it.name in vhost.queues:
            return
        is_own = vhost.places is None or it.owner_node in ("", vhost.places.node)
        owner = self._owners.get(it.owner) if is_own else None
        is_orphan = bool(it.owner) and is_own and owner is None
        if is_orphan and vhost.places is None:
            logger.info("%r is skipped: the connection that owns the queue has ended", it)
            return
        owner_elsewhere = RemoteOwner(it.owner, it.owner_node) if it.owner else None
        queue = vhost.add_queue(
            it.name, it.durable, it.auto_delete, decode_table(it.arguments)[0],
            owner or owner_elsewhere, it.storage_id, QueueHome(it.node, it.identity), it.mirrors,
        )  # fmt: skip
        if owner is not None:
            owner.exclusive_queues[it.name] = queue
        vhost.counts.queues_created += 1
        object_events.queue_created(vhost, queue, it.acting_user)
        if is_orphan:
            # Not here: applying one declaration submits no other (R1).
            vhost.turns.after_round(lambda: vhost.delete_queue(queue))

    @apply.register
    def put_binding(self, it: PutBinding) -> None:
        """Add a binding, unless it exists."""
        vhost = self._vhost(it)
        source = None if vhost is None else vhost.exchanges.get(it.source)
        destination = None if vhost is None else _destination(vhost, it)
        if vhost is None or source is None or destination is None:
            logger.warning("%r is skipped: its source or destination does not exist", it)
            return
        binding = Binding(source, destination, it.routing_key, decode_table(it.arguments)[0])
        if binding.key in source.bindings:
            return
        binding.attach()
        for watcher in source.watchers:
            watcher.binding_added(binding)
        vhost.routes_changed()
        object_events.binding_created(vhost, binding, it.acting_user)
        if isinstance(source.type, RecentHistory):
            steps = replaying_history(vhost, source.type, destination)
            LongWork(vhost.turns, f"the history of exchange {it.source!r}", steps).start()

    @apply.register
    def put_queue_home(self, it: PutQueueHome) -> None:
        """Name another home for a queue, if it is still that queue."""
        vhost = self._vhost(it)
        queue = None if vhost is None else vhost.queues.get(it.name)
        if vhost is None or queue is None or queue.home.identity != it.identity:
            return
        if vhost.places is not None:
            vhost.places.move(queue, QueueHome(it.node, it.identity))
            vhost.routes_changed()

    @apply.register
    def put_queue_mirrors(self, it: PutQueueMirrors) -> None:
        """Name another record of a queue's mirrors, if it is still that queue."""
        vhost = self._vhost(it)
        if vhost is not None:
            put_mirrors(vhost, it)

    @apply.register
    def delete_binding(self, it: DeleteBinding) -> None:
        """Remove a binding, if it exists."""
        vhost = self._vhost(it)
        bindings = [] if vhost is None else _removed(vhost, it)
        if vhost is not None and bindings:
            for _ in _detaching(vhost, deque(bindings), it.acting_user):
                vhost.routes_changed()

    # Deleting what may have very many bindings: steps, each of which yields its work

    def deleting_exchange(self, it: DeleteExchange) -> Iterator[int]:
        """Remove an exchange, and the bindings from it and to it."""
        vhost = self._vhost(it)
        exchange = None if vhost is None else vhost.exchanges.pop(it.name, None)
        if vhost is None or exchange is None:
            return
        exchange.is_deleted = True
        vhost.routes_changed()
        yield DELETE_EXCHANGE_WORK
        bindings = deque((*exchange.bindings.values(), *exchange.incoming.values()))
        yield from _detaching(vhost, bindings, it.acting_user)
        vhost.routes_changed()
        if exchange.delayed is not None:
            exchange.delayed.delete()
        object_events.exchange_deleted(vhost, exchange, it.acting_user)

    def deleting_queue(self, it: DeleteQueue) -> Iterator[int]:
        """Remove a queue with its messages, and the bindings to it."""
        vhost = self._vhost(it)
        queue = None if vhost is None else vhost.queues.pop(it.name, None)
        if vhost is None or queue is None:
            return
        vhost.mirrors.pop(it.name, None)
        vhost.counts.queues_deleted += 1
        vhost.counts.add_deleted_queue(queue.kind.name, queue.figures.counts().given)
        if queue.owner_connection is not None:
            queue.owner_connection.forget_queue(queue.name)
        self.cancelled += queue.delete_now()
        vhost.routes_changed()
        yield DELETE_QUEUE_WORK
        yield from _detaching(vhost, deque(queue.bindings.values()), NODE_ITSELF)
        vhost.routes_changed()
        object_events.queue_deleted(vhost, queue, it.acting_user)

    def emptying(self, vhost: VirtualHost, acting_user: str) -> Iterator[int]:
        """Remove everything in a vhost that is deleted. The consumers' connections are closed."""
        queues, exchanges = deque(vhost.queues.values()), deque(vhost.exchanges.values())
        vhost.queues.clear()
        vhost.mirrors.clear()
        vhost.exchanges.clear()
        while queues:
            queue = queues.popleft()
            vhost.delete_with_it(queue)
            yield from _detaching(vhost, deque(queue.bindings.values()), NODE_ITSELF)
            object_events.queue_deleted(vhost, queue, acting_user)
            yield DELETE_QUEUE_WORK
        while exchanges:
            exchange = exchanges.popleft()
            if exchange.delayed is not None:
                exchange.delayed.delete()
            yield from _detaching(vhost, deque(exchange.incoming.values()), NODE_ITSELF)
            object_events.exchange_deleted(vhost, exchange, acting_user)
            yield DELETE_EXCHANGE_WORK
        vhost.emptied()

    def _vhost(self, it: InVhost) -> VirtualHost | None:
        vhost = self._vhosts.get(it.vhost)
        if vhost is None:
            logger.error("%r is skipped: vhost %r does not exist", it, it.vhost)
        return vhost


def _detaching(vhost: VirtualHost, bindings: deque[Binding], acting_user: str) -> Iterator[int]:
    """Remove bindings, each of which is freed at its step."""
    while bindings:
        binding = bindings.popleft()
        # A binding of an exchange to itself is both outgoing and incoming.
        if binding.key in binding.source.bindings:
            binding.detach()
            for watcher in binding.source.watchers:
                watcher.binding_removed(binding)
            object_events.binding_deleted(vhost, binding, acting_user)
        yield DETACH_WORK + len(binding.key[-1]) // DECODED_BYTES


def _destination(
    vhost: VirtualHost, it: PutBinding | DeleteBinding
) -> QueueClient | Exchange | None:
    if it.destination_kind == QUEUE:
        return vhost.queues.get(it.destination)
    return vhost.exchanges.get(it.destination)


def _is_durable(thing: QueueClient | Exchange | None) -> bool:
    return thing is not None and thing.durable


def _removed(vhost: VirtualHost, it: Removal) -> list[Binding]:
    """The existing bindings that the declaration removes."""
    if isinstance(it, DeleteQueue):
        queue = vhost.queues.get(it.name)
        return [] if queue is None else list(queue.bindings.values())
    if isinstance(it, DeleteExchange):
        exchange = vhost.exchanges.get(it.name)
        return [] if exchange is None else list(exchange.incoming.values())
    source = vhost.exchanges.get(it.source)
    key = (it.source, it.destination_kind, it.destination, it.routing_key, it.arguments)
    found = None if source is None else source.bindings.get(key)
    return [] if found is None else [found]
