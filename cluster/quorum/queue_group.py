"""The `GroupService` of a queue's client on this node.

All requests for figures are answered with the figures of the queue's machine, which are converted
here. If the leader is on this node, its machine is read directly. Totals of messages are those that
the leading member has counted since it started.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import msgspec

from leveret.broker.amqp.errors import internal_error
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.queue_client import QueueLength
from leveret.broker.queues.contract.retry_delay import DISABLED, delay_text
from leveret.broker.queues.contract.status import (
    SINGLE_ACTIVE,
    UP,
    WAITING,
    AgeFigures,
    CoarseCounts,
    ConsumerFigures,
    QueueStatus,
    QuorumStatus,
)
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.group_service import TakesCounts
from leveret.cluster.quorum.machine.commands import NO_LIMIT, DelayedRetry
from leveret.cluster.quorum.machine.figures import ConsumerCounts, MachineFigures
from leveret.cluster.quorum.queue_machines import (
    FIGURES,
    FiguresError,
    QueueMachine,
    decode_figures,
)
from leveret.cluster.remote_queues.queue_frames import FullFigures
from leveret.cluster.remote_queues.remote_figures import NO_AGES
from leveret.storage.contract.queue_status import StorageCounts

Value = TypeVar("Value")
AnswerTo = Callable[[bytes | None], object]
_CONSUMERS = msgspec.msgpack.Decoder(ConsumerFigures)


class QueueGroupUse(Protocol):
    """The node's use of a group (groups/uses.py)."""

    def attach(self, session: int, sender: int, seen: int, received: Mapping[int, int]) -> None:
        """Start a session with the leader."""

    def send(self, session: int, commands: list[bytes]) -> None:
        """Send commands to the leader, which proposes them in this order."""

    def took(self, session: int, consumer: int, octets: int) -> None:
        """Tell the leader how many bytes a consumer was handed."""

    def ask(self, question: bytes, answer: AnswerTo) -> None:
        """Ask the leader. The answer is None if there is no leader, or if it is lost."""

    def close(self) -> None:
        """End the use."""


class LocalMember(Protocol):
    """The member of the group on the node of the client, if there is one.

    node: the name of the node. declared_at_s: when the queue was declared, or the node started.
    is_new: it was not found by a restart.
    """

    node: str
    declared_at_s: float
    is_new: bool

    def wall_ms(self) -> int:
        """The wall clock."""

    def led(self) -> tuple[int, QueueMachine] | None:
        """The last applied entry and the machine of this member, if it is the leader."""

    def watch(self, demand: Demand | None) -> None:
        """Keep this demand up to date while the leader is on this node. None: no demand."""

    def configure(self, options: QueueOptions) -> None:
        """Propose options that policies have changed, while the leader is on this node."""

    def end(self, is_deleted: bool) -> None:
        """End: the queue is deleted, or the node stops."""


class QueueGroup:
    """The `GroupService` of a queue's client. `begin` is called before the client's first call."""

    _use: QueueGroupUse

    def __init__(self, member: LocalMember) -> None:
        self.watch = member.watch
        self.configure = member.configure
        self._led = member.led
        self._wall_ms = member.wall_ms
        self._known: tuple[int, MachineFigures] | None = None
        """An entry and the figures after it, so that the figures of an idle queue are made once."""
        self._node = member.node
        self._declared_at_s = member.declared_at_s
        self.is_new = member.is_new
        self._end = member.end

    def begin(self, use: QueueGroupUse) -> None:
        """Set the node's use of the group. It refers to the client, which refers to this object."""
        self._use = use

    def attach(self, session: int, sender: int, seen: int, received: Mapping[int, int]) -> None:
        """Start a session with the leader."""
        self._use.attach(session, sender, seen, received)

    def send(self, session: int, commands: list[bytes]) -> None:
        """Send commands to the leader, which proposes them in this order."""
        self._use.send(session, commands)

    def took(self, session: int, consumer: int, octets: int) -> None:
        """Tell the leader how many bytes a consumer was handed: it sends more."""
        self._use.took(session, consumer, octets)

    def close(self, is_deleted: bool) -> None:
        """End: the queue is deleted, or the node stops."""
        self._use.close()
        self._end(is_deleted)

    def ask_length(self, answer: Answer[QueueLength]) -> None:
        """Ask the leader for the numbers of messages and consumers."""
        self._ask(answer, lambda now: QueueLength(now.ready, len(now.consumers)))

    def ask_status(self, answer: Answer[FullFigures]) -> None:
        """Ask the leader for all figures."""
        self._ask(answer, self._full_figures)

    def own_counts(self) -> CoarseCounts | None:
        """The counts, if this node leads."""
        led = self._led()
        return None if led is None else coarse_counts(self._own_figures(*led))

    def own_status(self) -> FullFigures | None:
        """All figures, if this node leads."""
        led = self._led()
        return None if led is None else self._full_figures(self._own_figures(*led))

    def _full_figures(self, now: MachineFigures) -> FullFigures:
        return full_figures(now, self._declared_at_s, self._node, self._wall_ms())

    def want_counts(self, figures: TakesCounts) -> None:
        """Ask the leader for the counts."""
        counts: Answer[CoarseCounts] = Answer(figures.take_counts)
        self._ask(counts, coarse_counts)

    def _ask(self, answer: Answer[Value], shown: Callable[[MachineFigures], Value]) -> None:
        led = self._led()
        if led is not None:
            answer.give(shown(self._own_figures(*led)))
            return

        def answered(data: bytes | None) -> None:
            if data is None:
                answer.refuse(internal_error("the queue has no leader"))
                return
            try:
                now = decode_figures(data)
            except FiguresError as error:
                answer.refuse(internal_error(str(error)))
                return
            answer.give(shown(now))

        self._use.ask(FIGURES, answered)

    def _own_figures(self, applied: int, machine: QueueMachine) -> MachineFigures:
        if self._known is None or self._known[0] != applied:
            self._known = applied, machine.figures()
        return self._known[1]


def coarse_counts(now: MachineFigures) -> CoarseCounts:
    """The counts of a queue."""
    return CoarseCounts(
        now.ready, now.unacked, len(now.consumers), now.taken, now.delivered, now.delivered_no_ack,
        now.got, now.got_no_ack, now.got_empty, now.redelivered, now.acked, now.letters,
        now.delayed, now.duplicates, now.expired_on_time,
    )  # fmt: skip


def full_figures(now: MachineFigures, declared_at_s: float, node: str, wall_ms: int) -> FullFigures:
    """All figures of a queue. node: the one where they are shown. wall_ms: the wall clock."""
    consumers = [_consumer(one, node) for one in now.consumers]
    single = [one.tag for one in consumers if one.activity == SINGLE_ACTIVE]
    with_room = sum(one.held < one.credit for one in now.consumers)
    count, octets = now.ready + now.unacked, now.ready_bytes + now.unacked_bytes
    status = QueueStatus(
        counts=coarse_counts(now),
        storage=StorageCounts(
            now.ready, now.ready_bytes, now.unacked, now.unacked_bytes, count, octets,
            paged_out=now.ready, paged_out_bytes=now.ready_bytes, unacked_paged_out=now.unacked,
            unacked_paged_out_bytes=now.unacked_bytes,
        ),
        declared_at_s=declared_at_s,
        consumer_capacity=with_room / len(consumers) if consumers else 0,
        single_active_consumer_tag=single[0] if single else None,
        memory_bytes=now.memory_bytes,
        dlx_bytes=now.letters_bytes,
        quorum=_quorum_status(now),
        deduplication=now.identifiers,
        expires_on_time=now.expires_on_time,
    )  # fmt: skip
    oldest_ms = max(0, wall_ms - now.oldest_ready_ms) if now.oldest_ready_ms else None
    counts = list(now.waited_counts) or NO_AGES.waited_counts
    return FullFigures(status, AgeFigures(oldest_ms, counts, now.waited_ms), consumers, {})


def _quorum_status(now: MachineFigures) -> QuorumStatus:
    return QuorumStatus(
        priorities=now.priorities,
        returned=now.returned,
        by_priority=tuple([(level, count) for level, count in now.by_priority if count]),
        delivery_limit=None if now.delivery_limit == NO_LIMIT else now.delivery_limit,
        delayed_bytes=now.delayed_bytes,
        next_delayed_ms=now.next_delayed_ms,
        last_delayed_ms=now.last_delayed_ms,
        delayed_retry=_delayed_retry(now),
    )


def _delayed_retry(now: MachineFigures) -> str:
    """As RabbitMQ shows it (`rabbit_quorum_queue:fmt_delayed_retry`)."""
    if now.delayed_retry is DelayedRetry.DISABLED:
        return DISABLED
    return delay_text(
        now.delayed_retry.name.lower(), now.delayed_retry_min_ms, now.delayed_retry_max_ms,
        now.delayed_retry_multiplier,
    )  # fmt: skip


def _consumer(one: ConsumerCounts, node: str) -> ConsumerFigures:
    figures = _CONSUMERS.decode(one.details)
    activity = SINGLE_ACTIVE if one.is_single_active else UP if one.is_active else WAITING
    other_node = "" if one.node == node else one.node
    return msgspec.structs.replace(figures, activity=activity, unacked=one.held, node=other_node)
