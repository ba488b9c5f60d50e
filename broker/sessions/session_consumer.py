"""A consumer of a session: one subscription to a queue, and the number of messages it may hold.

A protocol's consumer inherits from it, and writes the messages to its client (`deliver`).
"""

import logging

from mypy_extensions import mypyc_attr

from leveret.broker.amqp.field_table import Table
from leveret.broker.amqp.json_form import table_to_json, text
from leveret.broker.events.channel_events import consumer_deleted, consumer_lost_its_queue
from leveret.broker.events.stream_events import ChunkRead, ReadingEnded, StreamChunk
from leveret.broker.queues.contract.arguments import CONSUMER_TIMEOUT
from leveret.broker.queues.contract.offset_specification import NEXT, OFFSET_ARGUMENT, read_offset
from leveret.broker.queues.contract.queue_client import UNLIMITED, Consumer, QueueClient
from leveret.broker.queues.contract.status import ConnectionFigures, ConsumerFigures
from leveret.broker.queues.contract.stream_arguments import read_filter
from leveret.broker.sessions.session import Session
from leveret.storage.messages.message import Entry

logger = logging.getLogger("leveret.channel")


@mypyc_attr(allow_interpreted_subclasses=True)
class SessionConsumer(Consumer):
    """One consumer of a client.

    credit: the number of further messages that it may hold unsettled. prefetch_count: the limit of
    unsettled messages; without acknowledgements it is shown only.
    served: the time of its last messages among the session's consumers, if these share a limit.
    """

    __slots__ = (
        "_shares_limit", "arguments", "credit", "prefetch_count", "queue", "served", "session",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        queue: QueueClient,
        tag: str,
        no_ack: bool,
        is_exclusive: bool,
        arguments: Table,
    ) -> None:
        priority: int = arguments["x-priority"][1] if "x-priority" in arguments else 0
        cancels_on_failover = arguments.get("x-cancel-on-ha-failover") == ("t", True)
        start = NEXT
        if OFFSET_ARGUMENT in arguments:
            now_s = session.services.clock.wall_time_s()
            start = read_offset(arguments[OFFSET_ARGUMENT], now_s) or NEXT
        super().__init__(
            tag,
            no_ack,
            is_exclusive,
            priority,
            cancels_on_failover,
            start,
            _own_timeout_ms(arguments),
            read_filter(arguments),
        )
        self.session = session
        self.queue = queue
        self.arguments = arguments
        self.prefetch_count = session.prefetch_count
        self.served = 0
        self.credit = self._credit_max()
        self._shares_limit = queue.kind.has_global_qos

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.tag!r} of {self.queue!r}>"

    def _credit_max(self) -> int:
        prefetch_count = 0 if self.no_ack else self.prefetch_count
        return prefetch_count or self.queue.kind.credit_max or UNLIMITED

    def _timeout_ms(self) -> int | None:
        own = self.timeout_ms
        return self.queue.options.consumer_timeout_ms if own is None else own

    @property
    def held(self) -> int:
        """The number of messages that it holds unsettled."""
        return self._credit_max() - self.credit

    def figures(self, activity: str) -> ConsumerFigures:
        """Its figures for management. activity: one of queues/status.py."""
        session = self.session
        connection = session.connection
        return ConsumerFigures(
            tag=text(self.tag),
            ack_required=not self.no_ack,
            activity=activity,
            is_exclusive=self.is_exclusive,
            priority=self.priority,
            prefetch_count=self.prefetch_count,
            credit=None if self.credit > UNLIMITED // 2 else self.credit,
            timeout_ms=self._timeout_ms(),
            arguments=table_to_json(self.arguments),
            connection=ConnectionFigures(
                connection.name, connection.peer_host, connection.peer_port
            ),
            channel_name=session.name,
            channel_number=session.number,
            user=text(connection.user.name),
            unacked=self.held,
            has_channel=session.is_shown_as_channel,
        )

    def room(self) -> int:
        """The number of messages that it may be given now."""
        session = self.session
        if session.has_ended:
            return 0
        shared = session.global_credit
        if self.no_ack:
            return UNLIMITED if shared > 0 or not self._shares_limit else 0
        if self.credit < shared or not self._shares_limit:
            return self.credit
        return shared

    def note_delivered(self, entries: list[Entry], first_tag: int) -> None:
        """Count messages that were sent, take their credit, and report them."""
        session, queue = self.session, self.queue
        count = len(entries)
        if session.global_prefetch_count:
            self.served = session.next_delivery_tag
        if not self.no_ack:
            self.credit -= count
            session.global_credit -= count
            session.counts.delivered += count
        else:
            session.counts.delivered_no_ack += count
        if queue.may_redeliver:
            session.counts.redelivered += sum(entry.redelivered for entry in entries)
        vhost = session.vhost
        tracer = vhost.tracer
        if tracer is not None:
            tracer.delivered(session, queue, self.tag, entries, first_tag, self.no_ack)
        observer = session.services.observer
        if observer is not None:
            for entry in entries:
                observer.delivered(vhost.name, queue.name, entry.message, entry.redelivered)

    def trace_chunk(self, offset: int, messages: int, size: int, time_ms: int, lag: int) -> None:
        """Report messages of one chunk of a stream."""
        session, tracer = self.session, self.session.vhost.tracer
        if tracer is not None:
            chunk = StreamChunk(offset, messages, size, time_ms)
            is_filtered = bool(self.wanted.values)
            tracer.stream_changed(ChunkRead(session, self.queue, self.tag, chunk, lag, is_filtered))

    def trace_end(self) -> None:
        """Report that it no longer reads a stream."""
        tracer = self.session.vhost.tracer
        if tracer is not None:
            tracer.stream_changed(ReadingEnded(self.session, self.queue, self.tag))

    def settled(self) -> None:
        """The client has settled one message: there is room for another."""
        session = self.session
        self.credit += 1
        session.global_credit += 1
        if session.global_prefetch_count:
            if self.is_waiting or session.global_credit == 1:
                session.credit_consumers()
        elif self.is_waiting:
            self.queue.credit(self)

    def queue_replaced(self, queue: QueueClient) -> None:
        """Another object stands for the queue from now on, perhaps of another kind."""
        held = self.held
        self.queue = queue
        self._shares_limit = queue.kind.has_global_qos
        self.credit = self._credit_max() - held

    @property
    def is_cancelled_by_timeout(self) -> bool:
        """Whether a timeout cancels only the consumer (`consumer_timeout_action`), and not the
        session: its client has to be told.
        """
        session = self.session
        return session.tells_cancels and session.services.config.cancels_timed_out_consumers

    def timed_out(self) -> None:
        """The queue has taken back messages that it held for too long: end it, or its session.

        The session keeps what a cancelled consumer held: late acknowledgements have no effect.
        """
        session = self.session
        if session.has_ended:
            return
        session.services.counts.consumer_timeouts += 1
        timeout_ms = self._timeout_ms()
        if timeout_ms is None:
            timeout_ms = session.services.config.consumer_timeout_ms or 0
        if not self.is_cancelled_by_timeout:
            session.connection.end_timed_out(session.number, timeout_ms)
        elif session.consumers.get(self.tag) is self:
            self.log_cancelled(timeout_ms)
            del session.consumers[self.tag]
            self.queue.cancel(self)
            consumer_deleted(self)
            self.tell_cancelled()

    def log_cancelled(self, timeout_ms: int) -> None:
        """Log that a timeout cancels this consumer: its program may not report the loss."""
        session = self.session
        name, clock = session.connection.name, session.services.clock
        addition = session.services.timeout_log_limit.permit(name, clock.now_ms())
        if addition is not None:
            logger.warning(
                "%s, channel %s: consumer '%s' of queue '%s' is cancelled, as it has held a "
                "message unacknowledged for longer than its timeout, %s ms%s",
                name, session.number, self.tag, self.queue.name, timeout_ms, addition,
            )  # fmt: skip

    def queue_deleted(self) -> None:
        """The queue is deleted: leave the session."""
        self.session.consumers.pop(self.tag, None)
        consumer_lost_its_queue(self)


def _own_timeout_ms(arguments: Table) -> int | None:
    """The timeout that a consumer asks for. Kinds of queues that do not know it do not check it."""
    value = arguments[CONSUMER_TIMEOUT][1] if CONSUMER_TIMEOUT in arguments else None
    is_time = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_time else None
