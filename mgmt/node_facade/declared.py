"""The virtual hosts, queues, exchanges and bindings of a node, by names, as plain data.

A list may be long: its iterators read the figures of an object when they reach it, so that the
caller can read them in slices. The objects are those that existed when the iterator was made.
"""

from collections.abc import Iterator, Sequence, Set
from itertools import starmap
from typing import Any

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.policies.policy_table import merged
from leveret.broker.protocols.mqtt.names import QOS_0_TYPE, QUEUE_PREFIX
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_factory import PeekedMessage, QueueFactory
from leveret.broker.queues.contract.queue_kind import STREAM
from leveret.broker.queues.contract.status import (
    AgeFigures,
    CoarseCounts,
    ConsumerFigures,
    QueueStatus,
    RaftFigures,
)
from leveret.broker.queues.contract.waiting_retries import WaitingRetries
from leveret.broker.runtime.counts import MessageCounts
from leveret.broker.runtime.pending import Answer
from leveret.broker.vhost.binding import Binding, Exchange
from leveret.broker.vhost.delayed_inspection import (
    DelayedInspection,
    ExchangeInspection,
    ReplicatedInspection,
)
from leveret.broker.vhost.replicated_delays import ReplicatedDelays
from leveret.broker.vhost.routing import header_of
from leveret.broker.vhost.unroutable_messages import UnroutableRun
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.mgmt.node_facade.facts import (
    BindingFacts,
    DeclaredQueue,
    ExchangeFacts,
    OwnFigures,
    Place,
    PlacedQueue,
    QueueFacts,
    StreamFacts,
    UnroutableCountFacts,
    UnroutableMessageFacts,
    VhostFacts,
)

NO_COUNTS = CoarseCounts()


class DeclaredFacade:
    """The declared objects of a node. An unknown vhost has none."""

    def __init__(self, vhosts: dict[str, VirtualHost]) -> None:
        self._vhosts = vhosts

    # Virtual hosts

    def has_vhost(self, name: str) -> bool:
        """Whether it is declared."""
        return name in self._vhosts

    def vhost_names(self) -> list[str]:
        """All vhosts, in the order of their declarations."""
        return list(self._vhosts)

    def vhost(self, name: str) -> VhostFacts | None:
        """A vhost; None if there is none."""
        it = self._vhosts.get(name)
        if it is None:
            return None
        return VhostFacts(
            it.name, it.description, it.tags, it.is_traced, len(it.queues), len(it.exchanges)
        )

    def vhosts(self) -> list[VhostFacts]:
        """All vhosts."""
        found = map(self.vhost, self._vhosts)
        return [one for one in found if one is not None]

    def closed_channels(self) -> dict[str, MessageCounts]:
        """The messages of channels that are closed, by vhost."""
        return {name: vhost.closed_channels for name, vhost in self._vhosts.items()}

    # Messages that reached no queue

    def unroutable_counts(self, vhost: str) -> list[UnroutableCountFacts]:
        """The counts of a vhost on this node; none of an unknown vhost."""
        it = self._vhosts.get(vhost)
        return [
            UnroutableCountFacts(one.exchange, one.prefix, one.messages, one.returned, one.last_ms)
            for one in ([] if it is None else it.unroutable.counts())
        ]

    def unroutable_messages(self, vhost: str) -> Iterator[UnroutableMessageFacts]:
        """The last messages of a vhost on this node, the newest first."""
        it = self._vhosts.get(vhost)
        return iter(()) if it is None else starmap(_unroutable, it.unroutable.newest())

    def forget_unroutable(self, vhost: str) -> None:
        """Forget counts and messages of a vhost on this node."""
        it = self._vhosts.get(vhost)
        if it is not None:
            it.unroutable.forget()

    # Queues

    def has_queue(self, vhost: str, name: str) -> bool:
        """Whether it is declared."""
        return self._queue(vhost, name) is not None

    def queue_names(self, vhost: str) -> list[str]:
        """All queues of a vhost, in the order of their declarations; none of an unknown vhost."""
        it = self._vhosts.get(vhost)
        return [] if it is None else list(it.queues)

    def home_of(self, vhost: str, name: str) -> str:
        """The node that a queue lives on; empty for this one, and for an unknown queue."""
        queue = self._queue(vhost, name)
        return "" if queue is None else queue.placement.node

    def lives_here(self, vhost: str, name: str) -> bool:
        """Whether a queue lives on this node."""
        queue = self._queue(vhost, name)
        return queue is not None and self._vhosts[vhost].lives_here(queue)

    def is_exclusive(self, vhost: str, name: str) -> bool:
        """Whether a queue belongs to one connection."""
        queue = self._queue(vhost, name)
        return queue is not None and queue.is_exclusive

    def declared_queues(self, vhost: str) -> Iterator[DeclaredQueue]:
        """All queues of a vhost as they were declared."""
        it = self._vhosts.get(vhost)
        found = () if it is None else tuple(it.queues.values())
        return (_declared(vhost, queue) for queue in found)

    def declared_queue(self, vhost: str, name: str) -> DeclaredQueue | None:
        """A queue as it was declared; None if there is none."""
        queue = self._queue(vhost, name)
        return None if queue is None else _declared(vhost, queue)

    def queue(self, vhost: str, name: str) -> QueueFacts | None:
        """The node's data about a queue; None if there is none."""
        queue = self._queue(vhost, name)
        if queue is None:
            return None
        host, figures = self._vhosts[vhost], queue.figures
        policy, operator_policy = queue.policy, queue.operator_policy
        own = members = None
        if queue.kind.is_replicated or queue.placement.record:
            members = host.kinds.of(queue.kind).members(queue)
        if host.lives_here(queue):
            own = OwnFigures(
                status=figures.status(), tiers=figures.backing_queue_status(), ages=figures.ages()
            )
        return QueueFacts(
            declared=_declared(vhost, queue),
            node=queue.placement.node,
            policy=policy.name if policy else None,
            operator_policy=operator_policy.name if operator_policy else None,
            policy_definition=merged(policy, operator_policy),
            is_replicated=queue.kind.is_replicated,
            members=members,
            own=own,
        )

    def queue_counts(self, place: Place) -> CoarseCounts:
        """The counts of a queue, or the last ones received from its node; zeros if it is unknown.

        A list may be sorted by them, so it is one call.
        """
        try:
            return self._vhosts[place[0]].queues[place[1]].figures.counts()
        except KeyError:
            return NO_COUNTS

    def queue_ages(self, vhost: str, name: str) -> AgeFigures | None:
        """The ages of a queue's messages; None if there is no such queue."""
        queue = self._queue(vhost, name)
        return None if queue is None else queue.figures.ages()

    # Members of replicated queues

    def placements(self) -> Iterator[PlacedQueue]:
        """Where each queue of all vhosts lives."""
        return starmap(_placed, self._all_queues())

    def placed_queue(self, vhost: str, name: str) -> PlacedQueue | None:
        """Where a queue lives; None if there is none."""
        queue = self._queue_with_members(vhost, name)
        return None if queue is None else _placed(self._vhosts[vhost], queue)

    def is_led_by(self, vhost: str, name: str, node: str) -> bool:
        """Whether a node leads a queue already; a queue that is gone needs no leader."""
        found = self._with_factory(vhost, name)
        return found is None or found[1].is_led_by(found[0], node)

    def peek(self, vhost: str, name: str, place: int) -> Answer[PeekedMessage | None]:
        """The message at a place of a queue that this node leads; see `QueueFactory.peek`."""
        answer: Answer[PeekedMessage | None] = Answer()
        found = self._with_factory(vhost, name)
        if found is None:
            answer.give(None)
        else:
            found[1].peek(found[0], place, answer)
        return answer

    def retries_here(self, vhost: str, name: str) -> WaitingRetries | None:
        """The messages of a replicated queue that wait; see `QueueFactory.retries_here`."""
        found = self._with_factory(vhost, name)
        return None if found is None else found[1].retries_here(found[0])

    def reclaim(self, vhost: str, name: str) -> Answer[None]:
        """Free what a snapshot of a queue makes superfluous on this node."""
        answer: Answer[None] = Answer()
        found = self._with_factory(vhost, name)
        if found is None:
            answer.give(None)
        else:
            found[1].reclaim(found[0], answer)
        return answer

    def queues_catching_up(self) -> Iterator[PlacedQueue | None]:
        """The queues whose new member on this node lacks messages; None for each other queue."""

        def catches_up(host: VirtualHost, queue: QueueClient) -> PlacedQueue | None:
            is_behind = host.kinds.of(queue.kind).is_catching_up(queue)
            return _placed(host, queue) if is_behind else None

        return starmap(catches_up, self._all_queues())

    def raft_figures(self) -> Iterator[tuple[Place, str, RaftFigures | None]]:
        """The kind of each queue, with the figures of its member on this node; None without any."""

        def of(host: VirtualHost, queue: QueueClient) -> tuple[Place, str, RaftFigures | None]:
            kinds = host.kinds
            figures = kinds.of(queue.kind).raft(queue) if queue.kind.is_replicated else None
            return (host.name, queue.name), queue.kind.name, figures

        return starmap(of, self._all_queues())

    def streams(self) -> Iterator[tuple[Place, StreamFacts | None]]:
        """Each queue, with what this node knows of it if it is a stream."""

        def of(host: VirtualHost, queue: QueueClient) -> tuple[Place, StreamFacts | None]:
            found = queue.figures.status().stream if queue.kind.name == STREAM else None
            facts = None if found is None else StreamFacts(
                found.first_offset, found.next_offset, found.size_bytes,
                _consumers_of_clients(queue),
            )  # fmt: skip
            return (host.name, queue.name), facts

        return starmap(of, self._all_queues())

    def queues_that_need(
        self, node: str, kind: str, running: Set[str]
    ) -> Iterator[PlacedQueue | None]:
        """The queues of a kind that would be down, or lose messages, without a node.

        None for each other queue, so that the caller can read them in slices. running: the nodes
        that run.
        """

        def need(host: VirtualHost, queue: QueueClient) -> PlacedQueue | None:
            if queue.kind.name != kind:
                return None
            is_needed = host.kinds.of(queue.kind).needs_node(queue, node, running)
            return _placed(host, queue) if is_needed else None

        return starmap(need, self._all_queues())

    def details(self, vhost: str, name: str) -> dict[str, Any]:
        """The details of a queue's members that only its kind knows: JSON, by fields of the API."""
        found = self._with_factory(vhost, name)
        return {} if found is None else found[1].details(found[0])

    def can_synchronise(self, vhost: str, name: str) -> bool:
        """Whether this node leads a queue whose members may lack messages."""
        found = self._with_factory(vhost, name)
        return found is not None and found[1].can_synchronise(found[0])

    def delayed_inspection(self, vhost: str, exchange: str) -> ExchangeInspection | None:
        """The messages that wait here at an exchange; None unless its type delays messages."""
        it = self._vhosts.get(vhost)
        found = None if it is None else it.exchanges.get(exchange)
        if found is None or found.delayed is None:
            return None
        if isinstance(found.delayed, ReplicatedDelays):
            return ReplicatedInspection(found.delayed.here)
        return DelayedInspection(found.delayed)

    def has_leader(self, vhost: str, exchange: str) -> bool:
        """Whether the queue of an exchange at which messages wait has a leader, if it has a queue.

        It is False as well if the queue is deleted.
        """
        it = self._vhosts.get(vhost)
        found = None if it is None else it.exchanges.get(exchange)
        if it is None or found is None or not isinstance(found.delayed, ReplicatedDelays):
            return True
        queue = found.delayed.queue
        return queue is not None and it.kinds.of(queue.kind).has_leader(queue)

    def has_inspection(self, vhost: str, name: str) -> bool:
        """Whether a queue is of a kind whose messages can be inspected."""
        queue = self._queue(vhost, name)
        return queue is not None and queue.kind.has_inspection

    def _all_queues(self) -> list[tuple[VirtualHost, QueueClient]]:
        return [(host, queue) for host in self._vhosts.values() for queue in host.all_queues()]

    def _with_factory(self, vhost: str, name: str) -> tuple[QueueClient, QueueFactory] | None:
        queue = self._queue_with_members(vhost, name)
        return None if queue is None else (queue, self._vhosts[vhost].kinds.of(queue.kind))

    def _queue_with_members(self, vhost: str, name: str) -> QueueClient | None:
        """A queue, also one of a delayed message exchange, which clients do not see."""
        it = self._vhosts.get(vhost)
        return None if it is None else it.queues_named_like(name).get(name)

    # Queues that live on this node, which keeps their figures

    def own_queue_count(self) -> int:
        """Their number."""
        return sum(len(_own(vhost)) for vhost in self._vhosts.values())

    def own_counts(self, vhost: str) -> Iterator[tuple[str, CoarseCounts]]:
        """Their names and counts."""
        return ((queue.name, queue.figures.counts()) for queue in self._own_queues(vhost))

    def own_statuses(self, vhost: str) -> Iterator[tuple[str, QueueStatus]]:
        """Their names and statuses."""
        return ((queue.name, queue.figures.status()) for queue in self._own_queues(vhost))

    def own_consumers(self, vhost: str) -> Iterator[tuple[str, list[ConsumerFigures]]]:
        """Their names and their consumers, without those that channels of other nodes have."""
        return ((queue.name, _consumers_of_clients(queue)) for queue in self._own_queues(vhost))

    def consumers(self, vhost: str, name: str) -> list[ConsumerFigures]:
        """The consumers of one of these queues that channels of this node have."""
        queue = self._queue(vhost, name)
        return [] if queue is None else _consumers_of_clients(queue)

    def _queue(self, vhost: str, name: str) -> QueueClient | None:
        it = self._vhosts.get(vhost)
        return None if it is None else it.queues.get(name)

    def _own_queues(self, vhost: str) -> list[QueueClient]:
        it = self._vhosts.get(vhost)
        return [] if it is None else _own(it)

    # Exchanges and bindings

    def has_exchange(self, vhost: str, name: str) -> bool:
        """Whether it is declared."""
        return self._exchange(vhost, name) is not None

    def exchange_names(self, vhost: str) -> list[str]:
        """All exchanges of a vhost, in the order of their declarations."""
        it = self._vhosts.get(vhost)
        return [] if it is None else list(it.exchanges)

    def exchange(self, vhost: str, name: str) -> ExchangeFacts | None:
        """An exchange; None if there is none."""
        it = self._exchange(vhost, name)
        return None if it is None else _exchange_facts(vhost, it)

    def exchanges(self, vhost: str) -> Iterator[ExchangeFacts]:
        """All exchanges of a vhost."""
        it = self._vhosts.get(vhost)
        found = () if it is None else tuple(it.exchanges.values())
        return (_exchange_facts(vhost, one) for one in found)

    def has_binding(self, binding: BindingFacts) -> bool:
        """Whether exactly this binding exists."""
        source = self._exchange(binding.vhost, binding.source)
        key = (*binding[1:-1], encode_table(binding.arguments))
        return source is not None and key in source.bindings

    def bindings_from(self, vhost: str, exchange: str) -> Iterator[BindingFacts]:
        """The bindings from an exchange that were declared; none of an unknown one."""
        it = self._exchange(vhost, exchange)
        return _facts_of(vhost, () if it is None else tuple(it.bindings.values()))

    def bindings_to_exchange(self, vhost: str, exchange: str) -> Iterator[BindingFacts]:
        """The bindings to an exchange."""
        it = self._exchange(vhost, exchange)
        return _facts_of(vhost, () if it is None else tuple(it.incoming.values()))

    def bindings_to_queue(self, vhost: str, queue: str) -> Iterator[BindingFacts]:
        """The bindings to a queue that were declared."""
        it = self._queue(vhost, queue)
        return _facts_of(vhost, () if it is None else tuple(it.bindings.values()))

    def _exchange(self, vhost: str, name: str) -> Exchange | None:
        it = self._vhosts.get(vhost)
        return None if it is None else it.exchanges.get(name)


def _own(vhost: VirtualHost) -> list[QueueClient]:
    """The queues of a vhost that live on this node, without a call for each: there may be many."""
    here = vhost.node
    return [queue for queue in vhost.queues.values() if not here or queue.placement.node == here]


def _declared(vhost: str, queue: QueueClient) -> DeclaredQueue:
    # In RabbitMQ the queues of an MQTT session that ends with its connection are durable, and the
    # one for QoS 0 has a type of its own.
    is_mqtt = queue.is_exclusive and queue.name.startswith(QUEUE_PREFIX)
    is_qos_0 = is_mqtt and queue.name.endswith("qos0")
    return DeclaredQueue(
        vhost=vhost,
        name=queue.name,
        kind=QOS_0_TYPE if is_qos_0 else queue.kind.name,
        durable=queue.durable or is_mqtt,
        auto_delete=queue.auto_delete,
        is_exclusive=queue.is_exclusive,
        arguments=queue.arguments,
    )


def _placed(vhost: VirtualHost, queue: QueueClient) -> PlacedQueue:
    members = vhost.kinds.of(queue.kind).members(queue)
    return PlacedQueue(vhost.name, queue.name, queue.kind.name, queue.placement.node, members)


def _consumers_of_clients(queue: QueueClient) -> list[ConsumerFigures]:
    return [one for one in queue.figures.consumers() if not one.node]


def _exchange_facts(vhost: str, it: Exchange) -> ExchangeFacts:
    return ExchangeFacts(
        vhost=vhost,
        name=it.name,
        type=it.type_name,
        durable=it.durable,
        auto_delete=it.auto_delete,
        internal=it.internal,
        arguments=it.arguments,
        policy=None if it.policy is None else it.policy.name,
        bindings=len(it.bindings),
        messages_delayed=None if it.delayed is None else it.delayed.count,
        next_delayed_ms=None if it.delayed is None else it.delayed.next_due_ms,
        deduplication=None if it.seen is None else it.seen.status(),
        duplicates=0 if it.seen is None else it.seen.duplicates,
        published=it.published_count,
        routed=it.routed_count,
    )


def _facts_of(vhost: str, bindings: Sequence[Binding]) -> Iterator[BindingFacts]:
    return (
        BindingFacts(
            vhost, one.source.name, one.destination_kind, one.destination.name, one.routing_key,
            one.arguments,
        )
        for one in bindings
    )  # fmt: skip


def _unroutable(run: UnroutableRun, place: int) -> UnroutableMessageFacts:
    message = run.messages[place]
    return UnroutableMessageFacts(
        run.time_ms, run.user, message.address.exchange, message.address.routing_key,
        run.is_returned, header_of(message).properties, bytes(message.body), run.sizes[place],
    )  # fmt: skip
