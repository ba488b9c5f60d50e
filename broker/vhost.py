"""A virtual host: its exchanges, queues and bindings, and what becomes of dead letters.

`generation` grows with every change that could make a message go elsewhere; publishers keep what
they looked up, and look again when the generation is another. The `routes_listener` is told.
Durable things are written to the metadata store as they are declared, before the client gets its
answer.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from broker.actor import Turns
from broker.amqp.content import encode_address
from broker.amqp.field_table import Table, encode_table
from broker.amqp.properties import ContentHeader
from broker.binding import Binding, Exchange
from broker.clock import Clock
from broker.counts import MessageCounts, NodeCounts
from broker.events import NODE_ITSELF, Events
from broker.exchanges import create_exchange_type
from broker.exchanges.default import DefaultExchange
from broker.exchanges.delayed import DelayedMessage, header_after_delay
from broker.exchanges.recent_history import RecentHistory
from broker.exchanges.router import Route, route
from broker.interfaces import QueueHolder
from broker.names import EXCHANGE, QUEUE, resource
from broker.object_events import (
    binding_created,
    binding_deleted,
    exchange_created,
    exchange_deleted,
    queue_created,
    queue_deleted,
)
from broker.queues.actor import Queue, QueueOwner
from broker.queues.dead_letter import REJECTED, cc_keys, dead_letter_header, is_cycle
from broker.queues.priority import PriorityQueue
from storage.backing_queue import BackingQueue
from storage.message import Address, Message
from storage.metadata import Metadata
from storage.metadata_rows import BindingRow, ExchangeRow, QueueRow
from storage.store import Store
from storage.tiered_queue import TieredQueue
from storage.transient_queue import TransientQueue

DEAD_LETTERS_PER_TURN = 500

PREDECLARED_EXCHANGES: tuple[tuple[str, str, bool], ...] = (
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)
"""Name, type and whether it is internal."""

logger = logging.getLogger("leveret.vhost")


class Policing(Protocol):
    """What gives new queues and exchanges the policies that match them (broker/policing.py)."""

    def apply_to_queue(self, vhost: str, queue: Queue) -> None:
        """Give a queue the options that its policies ask for."""

    def apply_to_exchange(self, vhost: str, exchange: Exchange) -> None:
        """Give an exchange what its policy asks for."""


class VirtualHost(QueueOwner):
    """One vhost of a running broker."""

    def __init__(
        self,
        name: str,
        turns: Turns,
        clock: Clock,
        metadata: Metadata,
        store: Store | None = None,
        policing: Policing | None = None,
        counts: NodeCounts | None = None,
        is_as_rabbitmq_4: bool = False,
        events: Events | None = None,
    ) -> None:
        self.name = name
        self.is_as_rabbitmq_4 = is_as_rabbitmq_4
        self._policing = policing
        self.counts = counts or NodeCounts()
        self.events = events or Events()
        self.closed_channels = MessageCounts()
        self.turns = turns
        self.clock = clock
        self.generation = 0
        self.routes_listener: Callable[[], object] | None = None
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        self.is_deleted = False
        self.description = self.tags = ""
        self.is_traced = False
        self._metadata = metadata
        self._store = store
        self._dead_letters = DeadLetterer(self)
        default = DefaultExchange(self.queues)
        self.exchanges[""] = Exchange(self.exchanges, "", default, True, False, False, {})
        for exchange, type_name, internal in PREDECLARED_EXCHANGES:
            self._add_exchange(exchange, type_name, True, False, internal, {})

    # Exchanges

    def declare_exchange(
        self,
        name: str,
        type_name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        user: str = NODE_ITSELF,
    ) -> Exchange:
        """A new exchange; the name is free. Raises 406 for arguments its type does not take."""
        exchange = self._add_exchange(name, type_name, durable, auto_delete, internal, arguments)
        if durable:
            encoded = encode_table(arguments)
            self._metadata.put_exchange(
                ExchangeRow(self.name, name, type_name, durable, auto_delete, internal, encoded)
            )
        exchange_created(self, exchange, user)
        return exchange

    def _add_exchange(
        self,
        name: str,
        type_name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
    ) -> Exchange:
        exchange_type = create_exchange_type(type_name, arguments)
        exchange = Exchange(
            self.exchanges, name, exchange_type, durable, auto_delete, internal, arguments
        )
        self.exchanges[name] = exchange
        if self._policing is not None:
            self._policing.apply_to_exchange(self.name, exchange)
        self.routes_changed()
        return exchange

    def delete_exchange(self, exchange: Exchange, user: str = NODE_ITSELF) -> None:
        """The exchange goes, and with it the bindings from and to it."""
        self._delete_exchanges([exchange], user)

    def _delete_exchanges(self, doomed: list[Exchange], user: str) -> None:
        """Delete exchanges, and the auto-delete ones that are left without bindings by that."""
        for exchange in doomed:
            if self.exchanges.pop(exchange.name, None) is None:
                continue
            if exchange.durable:
                self._metadata.delete_exchange(self.name, exchange.name)
            bindings = (*exchange.bindings.values(), *exchange.incoming.values())
            doomed += self._remove_bindings(bindings, user)
            exchange_deleted(self, exchange, user)
        self.routes_changed()

    # Queues

    def declare_queue(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        arguments: Table,
        owner_connection: QueueHolder | None = None,
        user: str = NODE_ITSELF,
    ) -> Queue:
        """A new queue; the name is free and the arguments are checked."""
        self.counts.queues_created += 1
        storage_id = self._store.new_storage_id() if durable and self._store is not None else 0
        queue = self._add_queue(name, durable, auto_delete, arguments, owner_connection, storage_id)
        if durable:
            encoded = encode_table(arguments)
            self._metadata.put_queue(
                QueueRow(self.name, name, durable, auto_delete, storage_id, encoded)
            )
        queue_created(self, queue, user)
        return queue

    def _add_queue(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        arguments: Table,
        owner_connection: QueueHolder | None,
        storage_id: int,
    ) -> Queue:
        queue = Queue(self, name, durable, auto_delete, arguments, owner_connection, storage_id)
        self.queues[name] = queue
        if self._policing is not None:
            self._policing.apply_to_queue(self.name, queue)
        self.routes_changed()
        return queue

    def delete_queue(self, queue: Queue, user: str = NODE_ITSELF) -> int:
        """The queue goes, and with it its bindings; how many ready messages were lost."""
        if queue.is_deleted:
            return 0
        del self.queues[queue.name]
        self.counts.queues_deleted += 1
        if queue.owner_connection is not None:
            queue.owner_connection.forget_queue(queue.name)
        if queue.durable:
            self._metadata.delete_queue(self.name, queue.name)
        bindings = tuple(queue.bindings.values())
        self._delete_exchanges(self._remove_bindings(bindings, NODE_ITSELF), NODE_ITSELF)
        count = queue.delete()
        queue_deleted(self, queue, user)
        return count

    def make_backing(self, queue: Queue) -> BackingQueue:
        """Where a new queue keeps its messages; what a restart found of it is in it."""
        priority_max = queue.options.max_priority
        store = self._store
        if store is None:
            if priority_max:
                return PriorityQueue(priority_max, lambda level: TransientQueue())
            return TransientQueue()

        def tiered(level: int) -> TieredQueue:
            title = f"{resource(QUEUE, queue.name, self.name)}"
            is_lazy = queue.options.is_lazy
            return store.queue(queue.storage_id, level, title, queue.durable, is_lazy)

        if priority_max:
            levels = store.levels_of(queue.storage_id, priority_max) if queue.durable else []
            return PriorityQueue(priority_max, tiered, levels)
        return tiered(0)

    # Bindings

    def bind(
        self, source: Exchange, destination: Queue | Exchange, routing_key: str, arguments: Table,
        user: str = NODE_ITSELF,
    ) -> None:  # fmt: skip
        """Bind, unless the very same binding is there. Raises 406 if the type refuses it."""
        binding = Binding(source, destination, routing_key, arguments)
        if binding.key in source.bindings:
            return
        source.type.validate_binding(routing_key, arguments)
        binding.attach()
        self.routes_changed()
        if binding.is_durable:
            self._metadata.put_binding(self._row(binding))
        binding_created(self, binding, user)
        if isinstance(source.type, RecentHistory):
            self._replay_history(source.type, destination)

    def unbind(
        self, source: Exchange, destination: Queue | Exchange, routing_key: str, arguments: Table,
        user: str = NODE_ITSELF,
    ) -> None:  # fmt: skip
        """Take a binding away, if it is there."""
        wanted = Binding(source, destination, routing_key, arguments)
        binding = source.bindings.get(wanted.key)
        if binding is not None:
            if binding.is_durable:
                self._metadata.delete_binding(self._row(binding))
            self._delete_exchanges(self._remove_bindings((binding,), user), user)

    def _remove_bindings(self, bindings: Iterable[Binding], user: str) -> list[Exchange]:
        """Detach bindings; the auto-delete exchanges that go with their last one."""
        doomed = []
        for binding in bindings:
            source = binding.source
            if binding.key not in source.bindings:
                continue
            binding.detach()
            binding_deleted(self, binding, user)
            if source.auto_delete and not source.bindings:
                doomed.append(source)
        return doomed

    def _row(self, binding: Binding) -> BindingRow:
        return BindingRow(
            self.name, binding.source.name, binding.destination_kind, binding.destination.name,
            binding.routing_key, encode_table(binding.arguments),
        )  # fmt: skip

    def _replay_history(self, history: RecentHistory, destination: Queue | Exchange) -> None:
        """x-recent-history: what is newly bound gets the last messages at once."""
        for message in history.history:
            assert isinstance(message, Message)
            if isinstance(destination, Queue):
                destination.publish([message], len(message.body), None, 0)
            else:
                self._publish_late(destination, message, [message.address.routing_key], None)

    # Routing

    def routes_changed(self) -> None:
        """Messages may go elsewhere from now on than they went before."""
        self.generation += 1
        if self.routes_listener is not None:
            self.routes_listener()

    def route(self, exchange: Exchange, routing_keys: list[str], header: ContentHeader) -> Route:
        """The queues that a message published to the exchange goes to."""
        return route(exchange, routing_keys, header)

    def delay(
        self, exchange: Exchange, message: Message, routing_keys: list[str], ttl_ms: int | None
    ) -> None:
        """x-delayed-message: the message goes on from the exchange when its delay is over."""
        header = message.header
        assert isinstance(header, ContentHeader)
        assert isinstance(exchange.type, DelayedMessage)
        late = Message(
            message.address, header_after_delay(header), message.body, None, message.number
        )
        self.clock.call_later_ms(
            exchange.type.delay_ms(header),
            lambda: self._publish_late(exchange, late, routing_keys, ttl_ms),
        )

    def _publish_late(
        self, exchange: Exchange, message: Message, routing_keys: list[str], ttl_ms: int | None
    ) -> None:
        header = message.header
        assert isinstance(header, ContentHeader)
        if self.is_deleted or self.exchanges.get(exchange.name) is not exchange:
            return
        found = self.route(exchange, routing_keys, header)
        for history in found.remembering:
            history.remember(message, header)
        if self.tracer is not None:
            self.tracer.published(None, [message], routing_keys, _queues(found))
        for queue in found.queues:
            assert isinstance(queue, Queue)
            if ttl_ms is None:
                queue.publish([message], len(message.body), None, 0)
            else:
                queue.publish_expiring(message, ttl_ms, None, 0)

    def dead_letter(self, queue: Queue, message: Message, reason: str) -> None:
        """A message died in a queue that has a dead-letter exchange; it goes there soon."""
        dead = self.counts.dead_lettered
        dead[reason] = dead.get(reason, 0) + 1
        self._dead_letters.add(queue, message, reason)

    def note_discarded(self, reason: str) -> None:
        """A message died in a queue that has none; it is gone."""
        discarded = self.counts.discarded
        discarded[reason] = discarded.get(reason, 0) + 1

    # Starting and ending

    def restore_exchange(self, row: ExchangeRow, arguments: Table) -> None:
        """Bring back what the metadata store holds."""
        if row.name not in self.exchanges:
            self._add_exchange(
                row.name, row.type, row.durable, row.auto_delete, row.internal, arguments
            )

    def restore_queue(self, row: QueueRow, arguments: Table) -> None:
        """Bring back what the metadata store holds."""
        self._add_queue(row.name, row.durable, row.auto_delete, arguments, None, row.storage_id)

    def restore_binding(self, row: BindingRow, arguments: Table) -> None:
        """Bring back what the metadata store holds; one that lost an end is left out."""
        source = self.exchanges.get(row.source)
        destination: Queue | Exchange | None
        if row.destination_kind == QUEUE:
            destination = self.queues.get(row.destination)
        else:
            assert row.destination_kind == EXCHANGE
            destination = self.exchanges.get(row.destination)
        if source is None or destination is None:
            logger.warning("the binding %r has lost an end and is left out", row)
            return
        Binding(source, destination, row.routing_key, arguments).attach()
        self.routes_changed()

    def close(self) -> None:
        """The broker stops: queues let go of timers and consumers."""
        self.is_deleted = True
        for queue in tuple(self.queues.values()):
            queue.close()

    def delete(self) -> None:
        """The vhost is deleted, and all its messages with it."""
        self.is_deleted = True
        for queue in tuple(self.queues.values()):
            queue.delete()


class DeadLetterer:
    """Publishes dead letters: at most once and without confirms, as classic queues do it.

    A dead letter may be the death of another message, in the queue that it goes to. Such a one
    waits in the mailbox until the first is done, so that a chain of queues does not become a chain
    of calls, and after a turn's worth the rest waits for a turn.
    """

    __slots__ = ("_is_publishing", "_mailbox", "_vhost", "is_awake")

    def __init__(self, vhost: VirtualHost) -> None:
        self._vhost = vhost
        self._mailbox: deque[tuple[Queue, Message, str]] = deque()
        self._is_publishing = False
        self.is_awake = False

    def add(self, queue: Queue, message: Message, reason: str) -> None:
        """A message died."""
        self._mailbox.append((queue, message, reason))
        if not self._is_publishing and not self.is_awake:
            self.take_turn()

    def take_turn(self) -> None:
        """Publish the dead letters that have gathered, up to a turn's worth."""
        self._is_publishing = True
        try:
            budget = DEAD_LETTERS_PER_TURN
            while self._mailbox and budget:
                self._publish(*self._mailbox.popleft())
                budget -= 1
        finally:
            self._is_publishing = False
        if self._mailbox:
            self._vhost.turns.wake(self)

    def _publish(self, queue: Queue, message: Message, reason: str) -> None:
        options = queue.options
        exchange = self._vhost.exchanges.get(options.dead_letter_exchange or "")
        if exchange is None:
            return
        new_key = options.dead_letter_routing_key
        header = message.header
        assert isinstance(header, ContentHeader)
        cc = [] if new_key is not None else cc_keys(header.headers)
        routing_key = message.address.routing_key if new_key is None else new_key
        time_s = int(self._vhost.clock.wall_time_s())
        dead_header = dead_letter_header(
            header, message.address, queue.name, reason, time_s, drop_cc=new_key is not None,
            tells_last=self._vhost.is_as_rabbitmq_4,
        )  # fmt: skip
        found = self._vhost.route(exchange, [routing_key, *cc], dead_header)
        address = Address(exchange.name, routing_key, encode_address(exchange.name, routing_key))
        tracer = self._vhost.tracer
        number = tracer.take_numbers(1) if tracer is not None else 0
        letter = Message(address, dead_header, message.body, None, number)
        for history in found.remembering:
            history.remember(letter, dead_header)
        targets = _queues(found)
        if reason != REJECTED:
            targets = [target for target in targets if not is_cycle(target.name, dead_header)]
            if len(targets) < len(found.queues):
                logger.warning("a dead letter of %r would go in a cycle and is dropped", queue)
        if tracer is not None:
            tracer.dead_lettered(queue, message, reason, letter, [routing_key, *cc], targets)
        for target in targets:
            target.publish([letter], len(letter.body), None, 0)


def _queues(found: Route) -> list[Queue]:
    return [queue for queue in found.queues if isinstance(queue, Queue)]
