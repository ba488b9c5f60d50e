"""A virtual host: its exchanges, queues and bindings.

`generation` grows with every change that could route a message differently. Publishers cache their
look-ups until then. The `routes_listener` is called at every such change. Exchanges, queues and
bindings change only by declarations (broker/registry), even when a queue deletes itself.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from mypy_extensions import mypyc_attr

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.field_table import Table, encode_table
from leveret.broker.declarations.requester import THE_NODE, Requester
from leveret.broker.declarations.values import DeleteQueue, PutQueue, Submit
from leveret.broker.events.events import Events
from leveret.broker.events.taps import Taps
from leveret.broker.exchanges import EXCHANGE_TYPES, type_of_declared
from leveret.broker.exchanges.default import DefaultExchange
from leveret.broker.exchanges.delayed import DelayedMessage
from leveret.broker.exchanges.exchange_type import ExchangeType
from leveret.broker.exchanges.message_deduplication import MessageDeduplication
from leveret.broker.exchanges.missing_type import MissingType
from leveret.broker.queues.classic.priority import PriorityQueue
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.priority_levels import PriorityLevels
from leveret.broker.queues.contract.queue_client import Consumer, QueueClient
from leveret.broker.queues.contract.queue_kinds import QueueKinds
from leveret.broker.queues.contract.retained_dead_letters import DeadLetterSource
from leveret.broker.queues.contract.specification import QueueSpecification
from leveret.broker.queues.dead_letters.header import EXPIRED
from leveret.broker.queues.deduplication.identifiers import KnownIdentifiers
from leveret.broker.queues.served_kinds import served_kinds
from leveret.broker.resources.alarms import Alarms
from leveret.broker.resources.flow import FlowControl
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.counts import MessageCounts, NodeCounts
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.names import (
    DELAYING_PREFIX,
    EXCHANGE,
    NODE_ITSELF,
    QUEUE,
    is_delaying,
    resource,
)
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.shared_features import SharedFeatures
from leveret.broker.runtime.turns import Actor, Turns
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.dead_letters.publishing import DeadLetterer
from leveret.broker.vhost.dead_letters.releasing import ReleasingWorker
from leveret.broker.vhost.dead_letters.worker import AtLeastOnceWorker, WorkerSettings
from leveret.broker.vhost.delayed_messages import BUCKETS, DelayedMessages
from leveret.broker.vhost.fan_out import FanOuts
from leveret.broker.vhost.own_deletions import OwnDeletions
from leveret.broker.vhost.replicated_delays import ReplicatedDelays
from leveret.broker.vhost.routing import publish_delayed
from leveret.broker.vhost.seen_identifiers import ExchangePlace, SeenIdentifiers, SeenPlaces
from leveret.broker.vhost.unroutable_messages import UnroutableMessages
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.messages.message import Message
from leveret.storage.queue.chained_queue import ChainedQueue
from leveret.storage.queue.transient_queue import TransientQueue
from leveret.storage.store.store import Store

PREDECLARED_EXCHANGES: tuple[tuple[str, str, bool], ...] = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)
"""Name, type and whether it is internal."""
PREDECLARED = frozenset(name for name, _, _ in PREDECLARED_EXCHANGES)

logger = logging.getLogger("leveret.vhost")


class AppliesPolicies(Protocol):
    """Gives new queues and exchanges the policies that match them (registry/policing.py)."""

    def apply_to_queue(self, vhost: str, queue: QueueClient) -> None:
        """Give a queue the options of its policies."""

    def apply_to_exchange(self, vhost: str, exchange: Exchange) -> None:
        """Give an exchange the settings of its policy."""


@mypyc_attr(allow_interpreted_subclasses=True)
class VirtualHost:
    """One vhost of a running broker.

    refuses_unroutable: clients that publish without `mandatory`, to exchanges without an alternate
    exchange, are refused. expires_on_time: see `QueueOwner`. delaying_queues: those of delayed
    message exchanges, by their names, which no client sees.
    """

    def __init__(
        self,
        name: str,
        turns: Turns,
        clock: Clock,
        submit: Submit,
        store: Store | None = None,
        policing: AppliesPolicies | None = None,
        counts: NodeCounts | None = None,
        is_as_rabbitmq_4: bool = False,
        events: Events | None = None,
        kinds: QueueKinds | None = None,
        letter_settings: WorkerSettings = WorkerSettings(),  # noqa: B008 - it is immutable
        flow: FlowControl | None = None,
        features: SharedFeatures | None = None,
        seen_places: SeenPlaces | None = None,
    ) -> None:
        self.name = name
        self.features = features or SharedFeatures()
        self.kinds = kinds if kinds is not None else served_kinds()
        self.is_as_rabbitmq_4 = is_as_rabbitmq_4
        self._policing = policing
        self.counts = counts or NodeCounts()
        self.events = events or Events()
        self.closed_channels = MessageCounts()
        self.turns = turns
        self.tracer: Taps | None = None
        self.clock = clock
        self.generation = 0
        self.routes_listener: Callable[[], object] | None = None
        self.expiry_listener: Callable[[QueueClient, list[Message]], object] | None = None
        self.header_after_delay: Callable[[ContentHeader], ContentHeader] | None = None
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, QueueClient] = {}
        self.delaying_queues: dict[str, QueueClient] = {}
        self.unroutable = UnroutableMessages(clock)
        self.refuses_unroutable = self.expires_on_time = False
        self.is_deleted = False
        self.description = self.tags = ""
        self.is_traced = False
        self._submit = submit
        self._store = store
        self._seen_places = seen_places or SeenPlaces()
        self.fan_outs = FanOuts(turns, flow or FlowControl(Alarms()))
        self._dead_letters: DeadLetterer | None = DeadLetterer(self)
        self._letter_settings = letter_settings
        self._waiting_for_routes: set[Actor] = set()
        self._own_deletions = OwnDeletions(name, turns, clock, self.delete_queue)
        default = DefaultExchange(self.queues)
        self._add(Exchange(self.exchanges, "", default, True, False, False, {}))
        for exchange, type_name, internal in PREDECLARED_EXCHANGES:
            self.add_exchange(exchange, type_name, True, False, internal, {})

    # Declared objects: broker/registry changes them

    def add_exchange(
        self,
        name: str,
        type_name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        storage_id: int = 0,
    ) -> Exchange:
        """Add an exchange, with the policies that match it and the delayed messages that a restart
        found. Raises 406 and 503 for bad arguments of its type.
        """
        exchange_type = self._type_of_declared(type_name, arguments)
        exchange = Exchange(
            self.exchanges, name, exchange_type, durable, auto_delete, internal, arguments
        )
        if isinstance(exchange_type, DelayedMessage):
            if exchange_type.is_replicated:
                exchange.delayed = ReplicatedDelays(self, name)
            else:
                exchange.delayed = self._make_delayed(exchange, storage_id)
        elif isinstance(exchange_type, MessageDeduplication):
            exchange.seen = self._make_seen(name, exchange_type, storage_id)
        self._add(exchange)
        return exchange

    def exchange_types_changed(self) -> None:
        """Plugins were started or stopped: give exchanges their types, or take them away."""
        for exchange in self.exchanges.values():
            is_missing = isinstance(exchange.type, MissingType)
            if is_missing == (exchange.type_name in EXCHANGE_TYPES):
                exchange.change_type(self._type_of_declared(exchange.type_name, exchange.arguments))
        self.routes_changed()

    def _type_of_declared(self, type_name: str, arguments: Table) -> ExchangeType:
        exchange_type = type_of_declared(type_name, arguments)
        exchange_type.serve(self.lives_here)
        return exchange_type

    def _add(self, exchange: Exchange) -> None:
        self.exchanges[exchange.name] = exchange
        if self._policing is not None:
            self._policing.apply_to_exchange(self.name, exchange)
        self.routes_changed()

    def add_queue(self, specification: QueueSpecification) -> QueueClient:
        """Add a queue, with the policies that match it and the messages that a restart found.

        A queue that was declared before its node was in a cluster lives here. Raises 406 if it
        lives here and this node does not serve its kind.
        """
        placement = specification.placement
        if not placement.node:
            placement = placement._replace(node=self.node)
            specification = specification._replace(placement=placement)
        if placement.node == self.node:
            self.kinds.require_served(specification)
        factory = self.kinds.of(specification.kind)
        queue = factory.make(self, specification)
        self.queues_named_like(specification.name)[specification.name] = queue
        if self._policing is not None:
            self._policing.apply_to_queue(self.name, queue)
        self.routes_changed()
        factory.added(self.name, queue, specification.storage_id)
        return queue

    def queues_named_like(self, name: str) -> dict[str, QueueClient]:
        """The queues among which one of this name is."""
        return self.delaying_queues if is_delaying(name) else self.queues

    def all_queues(self) -> Iterator[QueueClient]:
        """Those that clients see, and the others."""
        return chain(self.queues.values(), self.delaying_queues.values())

    def set_placement(self, queue: QueueClient, placement: Placement, storage_id: int = 0) -> None:
        """Change the placement of a queue. storage_id: see `QueueFactory.moved`."""
        self.kinds.of(queue.kind).moved(self.name, queue, placement, storage_id)
        self.routes_changed()

    def replace_queue(self, queue: QueueClient) -> None:
        """Replace the object that stands for a queue.

        The bindings are changed in one step: a message must not go to both objects. Channels that
        consume from the queue are notified by `Consumer.queue_replaced`.
        """
        before = self.queues[queue.name]
        queue.policy, queue.operator_policy = before.policy, before.operator_policy
        queue.apply(before.options)
        self._lead_to(before, queue)

    def _lead_to(self, before: QueueClient, queue: QueueClient) -> None:
        self.queues[queue.name] = queue
        for binding in tuple(before.bindings.values()):
            binding.lead_to(queue)
        self.routes_changed()

    def replace_by(
        self, queue: QueueClient, successor: QueueClient, arguments: Table, declared: QueueOptions
    ) -> Sequence[Consumer]:
        """Delete a queue, and give its name and bindings to another one, with these arguments.

        declared: the options that the arguments ask for. Returns the consumers of the deleted
        queue.
        """
        del self.queues[successor.name]
        successor.name, successor.arguments, successor.declared = queue.name, arguments, declared
        self._lead_to(queue, successor)
        successor.apply(declared)
        if self._policing is not None:
            self._policing.apply_to_queue(self.name, successor)
        self.kinds.of(successor.kind).renamed(successor)
        return self.kinds.of(queue.kind).replaced(queue)

    @property
    def node(self) -> str:
        """The name of this node, if it is in a cluster; empty otherwise."""
        return self.kinds.node

    def joined_cluster(self) -> None:
        """The node is in a cluster from now on; its queues so far live on it."""
        for queue in self.all_queues():
            if not queue.placement.node:
                queue.placement = Placement(self.node, 0)

    def lives_here(self, queue: QueueClient) -> bool:
        """Whether this node takes the calls for a queue of this vhost."""
        return not self.node or queue.placement.node == self.node

    def declaration_of(
        self, specification: QueueSpecification, acting_user: str = NODE_ITSELF
    ) -> PutQueue:
        """The declaration of a new queue, with the placement chosen for it."""
        placement = self.kinds.of(specification.kind).place(specification)
        owner = specification.owner
        return PutQueue(
            self.name, specification.name, specification.durable, specification.auto_delete,
            encode_table(specification.arguments), owner="" if owner is None else owner.name,
            owner_node="" if owner is None else self.node, node=placement.node,
            identity=placement.identity, record=placement.record, acting_user=acting_user,
        )  # fmt: skip

    def delete_queue(
        self,
        queue: QueueClient,
        requester: Requester = THE_NODE,
        answer: Answer[None] | None = None,
    ) -> None:
        """Delete a queue, unless it or its vhost is already deleted.

        answer: given when the deletion is on disk. Without it no client waits, and a deletion that
        fails is tried again.
        """
        if queue.is_deleted or self.is_deleted:
            if answer is not None:
                answer.give(None)
            return
        declaration = DeleteQueue(self.name, queue.name, acting_user=requester.user)
        answer = answer or self._own_deletions.answer(queue)
        self._submit(declaration, answer=answer, requester=requester)

    def delete_unused(self, queue: QueueClient, is_urgent: bool) -> None:
        """Delete an unused queue, in this turn if it is urgent."""
        if is_urgent:
            self.delete_queue(queue)
            return
        self._own_deletions.delete_unused(queue)

    def delete_queues(self, queues: Iterable[QueueClient], what: str) -> None:
        """Delete queues, in this turn or in later ones. what: the work, for logs."""
        self._own_deletions.delete_all(queues, what)

    def make_backing(self, queue: QueueClient, levels: PriorityLevels | None) -> BackingQueue:
        """Make the backing queue of a new queue, with the messages that a restart found."""
        if levels is None:
            return self._make_queue_level(queue, 0)
        found = self._levels_of(queue.storage_id, levels.highest) if queue.durable else []
        return PriorityQueue(levels, lambda level: self._make_queue_level(queue, level), found)

    def _make_queue_level(self, queue: QueueClient, level: int) -> BackingQueue:
        tail = self.make_part(queue, level, False)
        store = self._store
        if store is None or not queue.durable or not store.has_head(queue.storage_id, level):
            return tail
        head = self.make_part(queue, level, True)
        given = head.given_positions()
        return ChainedQueue(head, tail, max([end for _, end in given], default=0))

    def make_part(self, queue: QueueClient, level: int, is_head: bool) -> BackingQueue:
        """A level of a queue, or the head or tail of a chain (storage/queue/chained_queue.py)."""
        title, is_lazy = resource(QUEUE, queue.name, self.name), queue.options.is_lazy
        return self._make_level(
            queue.storage_id, level, title, queue.durable, is_lazy, False, is_head
        )

    def make_dead_letter_worker(
        self, queue: QueueClient, letters: DeadLetterSource
    ) -> AtLeastOnceWorker:
        """The worker that publishes the dead letters that a queue keeps."""
        if not is_delaying(queue.name):
            return AtLeastOnceWorker(self, queue, letters, self._letter_settings)
        exchange = queue.name.removeprefix(DELAYING_PREFIX)
        return ReleasingWorker(self, queue, letters, self._letter_settings, exchange)

    def _make_delayed(self, exchange: Exchange, storage_id: int) -> DelayedMessages:
        """Make the store of the messages that wait at an exchange of the type x-delayed-message."""
        is_durable = bool(storage_id)
        title = resource(EXCHANGE, exchange.name, self.name)
        if exchange.durable and not is_durable and self._store is not None:
            logger.warning(
                "%s was declared by a version that does not store delayed messages, and keeps them "
                "in memory: delete it and declare it again", title,
            )  # fmt: skip
        return DelayedMessages(
            self.clock,
            self.turns,
            lambda level: self._make_level(storage_id, level, title, is_durable, False, True),
            self._levels_of(storage_id, BUCKETS - 1) if is_durable else [],
            lambda message, publisher: publish_delayed(self, exchange, message, publisher),
            0 if self._store is None else self._store.wall_offset_ms,
            title,
        )

    def _make_seen(
        self, name: str, exchange_type: MessageDeduplication, storage_id: int
    ) -> SeenIdentifiers:
        """Make the memory of an exchange of the type x-message-deduplication."""
        known, store = KnownIdentifiers(exchange_type.size, exchange_type.ttl_ms), self._store
        place, backing, offset_ms = ExchangePlace(self.name, name), None, None
        if storage_id and store is not None:
            title, offset_ms = resource(EXCHANGE, name, self.name), store.wall_offset_ms
            backing = self._make_level(storage_id, 0, title, True, False, False)
        seen = SeenIdentifiers(place, known, self.clock, self._seen_places, backing, offset_ms)
        exchange_type.has_seen = seen.has_seen
        LongWork(self.turns, f"reading the identifiers of {name}", seen.restoring()).start()
        self._seen_places.add(place, seen)
        return seen

    def forget_seen(self, exchange: Exchange) -> None:
        """An exchange is deleted: free what it has seen."""
        if exchange.seen is not None:
            self._seen_places.remove(ExchangePlace(self.name, exchange.name))
            freeing, exchange.seen = exchange.seen.freeing(), None
            LongWork(self.turns, f"the identifiers of {exchange!r}", freeing).start()

    def _make_level(
        self, storage_id: int, level: int, title: str, is_durable: bool, is_lazy: bool,
        knows_deliveries: bool, is_head: bool = False,
    ) -> BackingQueue:  # fmt: skip
        """A backing queue: in memory, or in the store if there is one."""
        if self._store is None:
            return TransientQueue()
        return self._store.queue(
            storage_id, level, title, is_durable, is_lazy, knows_deliveries, is_head
        )

    def _levels_of(self, storage_id: int, level_max: int) -> list[int]:
        """The levels in which a restart found messages."""
        return [] if self._store is None else self._store.levels_of(storage_id, level_max)

    # Routing

    def routes_changed(self) -> None:
        """Messages may be routed differently from now on."""
        self.generation += 1
        if self.routes_listener is not None:
            self.routes_listener()
        if self._waiting_for_routes:
            waiting, self._waiting_for_routes = self._waiting_for_routes, set()
            for actor in waiting:
                self.turns.wake(actor)

    def wake_when_routes_change(self, actor: Actor) -> None:
        """Wake the actor once, at the next change of routes."""
        self._waiting_for_routes.add(actor)

    def dead_letter(self, queue: QueueClient, messages: list[Message], reason: str) -> None:
        """Messages died in a queue that has a dead-letter exchange: publish them there soon."""
        dead_letters, exchange = self._dead_letters, queue.options.dead_letter_exchange
        if dead_letters is None or exchange is None or exchange not in self.exchanges:
            self.note_discarded(queue, reason, len(messages))
            if dead_letters is not None and exchange is not None:
                # They are noted as unroutable.
                dead_letters.add(queue, messages, reason)
            return
        self.counts.dead_lettered[queue.kind.name, reason] += len(messages)
        if reason == EXPIRED and self.expiry_listener is not None:
            self.expiry_listener(queue, messages)
        dead_letters.add(queue, messages, reason)

    def note_kept(self, queue: QueueClient, reason: str, count: int) -> None:
        """Count messages that died in a queue that keeps its dead letters until they are
        confirmed.
        """
        if not is_delaying(queue.name):
            self.counts.kept[queue.kind.name, reason] += count

    def note_discarded(self, queue: QueueClient, reason: str, count: int) -> None:
        """Count messages that died without a dead-letter exchange."""
        self.counts.discarded[queue.kind.name, reason] += count

    # Starting and ending

    def close(self) -> None:
        """The broker stops: queues release timers and consumers."""
        self.is_deleted = True
        self._own_deletions.close()
        for queue in tuple(self.all_queues()):
            queue.close()
        for delayed in self._delayed():
            delayed.close()

    def emptied(self) -> None:
        """Drop references to this vhost from its parts: it is deleted with all its objects."""
        self._own_deletions.close()
        self._dead_letters = None

    def delete_with_it(self, queue: QueueClient) -> None:
        """Delete one of the queues of this deleted vhost."""
        queue.delete_now()

    def _delayed(self) -> list[DelayedMessages | ReplicatedDelays]:
        places = [exchange.delayed for exchange in self.exchanges.values()]
        return [place for place in places if place is not None]
