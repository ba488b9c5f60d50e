"""Consumer timeouts: deliveries that a client does not settle in time.

Once a minute the node checks each session. The timeout of a delivery is its consumer's own, else
that of its queue (an argument or a policy), else the node's. After 80 percent of the timeout the
node warns with a log line, an event and a counter, once for each delivery that is its consumer's
oldest. After the timeout, `consumer_timeout_action` decides:

    close_channel      the session ends with 406, as in RabbitMQ before 4.3
    cancel_consumer    the consumer is cancelled, and its client notified; its unacknowledged
                       messages are requeued. Late settlements of them have no effect.

The session always ends if the client does not support notification of cancelled consumers, or if
the message was fetched with basic.get. Since RabbitMQ 4.3, quorum queues check their consumers
themselves (`SessionConsumer.timed_out`); this module only warns of these. Links of AMQP 1.0 have no
other timeout since RabbitMQ 4.0 (`Session.outlives_timeouts`).
"""

import logging
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from leveret.broker.events.channel_events import consumer_deleted, consumer_near_timeout
from leveret.broker.queues.contract.arguments import CONSUMER_TIMEOUT
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.session_consumer import SessionConsumer
from leveret.broker.sessions.unacked import giving_back
from leveret.broker.sessions.unacked_record import Unacked

WARNED_PERCENT: Final = 80
RECORDS_MAX: Final = 20_000
"""The oldest deliveries of a session that a check looks at: about a millisecond."""

logger = logging.getLogger("leveret.channel")


class Oldest(NamedTuple):
    """The oldest delivery of a consumer, or of those taken with basic.get, and its age."""

    tag: int
    record: Unacked
    held_ms: int
    timeout_ms: int


def check(session: Session, node_timeout_ms: int) -> None:
    """Warn of slow consumers of a session, and cancel them. Raises 406 if the session has to end.

    node_timeout_ms: for deliveries whose consumer and queue have no timeout.
    """
    for oldest in list(_oldest_of_each(session, node_timeout_ms)):
        if oldest.held_ms <= oldest.timeout_ms * WARNED_PERCENT // 100:
            continue
        is_checked_by_queue = _is_checked_by_queue(session, oldest.record)
        if session.outlives_timeouts and not is_checked_by_queue:
            continue
        if is_checked_by_queue and oldest.record.consumer not in session.consumers.values():
            # The queue has taken the message back already, and ended the consumer.
            continue
        # A short timeout may be over at the first check that sees the delivery.
        _warn(session, oldest)
        if oldest.held_ms <= oldest.timeout_ms or is_checked_by_queue:
            continue
        consumer = oldest.record.consumer
        if isinstance(consumer, SessionConsumer) and consumer.is_cancelled_by_timeout:
            _cancel(session, consumer, oldest.timeout_ms)
        else:
            session.services.counts.consumer_timeouts += 1
            session.fail_timed_out(oldest.timeout_ms)


def _oldest_of_each(session: Session, node_timeout_ms: int) -> Iterator[Oldest]:
    now_ms = session.services.clock.now_ms()
    # A consumer that its client has cancelled may hold messages, too.
    seen: set[object] = set()
    for tag, record in islice(session.unacked.records.items(), RECORDS_MAX):
        if record.consumer in seen:
            continue
        seen.add(record.consumer)
        timeout_ms = record.queue.options.consumer_timeout_ms
        if record.consumer is not None and record.consumer.timeout_ms is not None:
            timeout_ms = record.consumer.timeout_ms
        yield Oldest(
            tag, record, int(now_ms - record.delivered_at_ms),
            node_timeout_ms if timeout_ms is None else timeout_ms,
        )  # fmt: skip


def _is_checked_by_queue(session: Session, record: Unacked) -> bool:
    if not session.services.config.is_as_rabbitmq_4_3 or record.consumer is None:
        return False
    return CONSUMER_TIMEOUT in record.queue.kind.consumer_arguments


def _warn(session: Session, oldest: Oldest) -> None:
    """Warn that a delivery is near its timeout, once for each delivery."""
    if oldest.tag in session.warned_deliveries:
        return
    unsettled = session.unacked.records
    session.warned_deliveries = {tag for tag in session.warned_deliveries if tag in unsettled}
    session.warned_deliveries.add(oldest.tag)
    consumer = oldest.record.consumer
    session.services.counts.consumer_timeout_warnings += 1
    if isinstance(consumer, SessionConsumer):
        consumer_near_timeout(consumer, oldest.held_ms, oldest.timeout_ms)
    limit, now_ms = session.services.timeout_log_limit, session.services.clock.now_ms()
    addition = limit.permit(session.connection.name, now_ms)
    if addition is not None:
        logger.warning(
            "%s, channel %s: %s has not acknowledged a message of queue '%s' for %s s; the timeout "
            "is %s s%s",
            session.connection.name, session.number,
            f"consumer '{consumer.tag}'" if isinstance(consumer, SessionConsumer) else "basic.get",
            oldest.record.queue.name, oldest.held_ms // 1000, oldest.timeout_ms // 1000, addition,
        )  # fmt: skip


def _cancel(session: Session, consumer: SessionConsumer, timeout_ms: int) -> None:
    """Cancel a consumer, and give its messages back to the queue.

    Its client or its queue may have cancelled it before, while its messages were not settled. Some
    client libraries fail if they are notified of a consumer that they do not have.
    """
    is_known = session.consumers.get(consumer.tag) is consumer
    if is_known:
        session.services.counts.consumer_timeouts += 1
        consumer.log_cancelled(timeout_ms)
        del session.consumers[consumer.tag]
        consumer.queue.cancel(consumer)
        consumer_deleted(consumer)
    taken = session.unacked.take_back(consumer)
    session.counts.given_back += len(taken)
    give_back = partial(session.give_back, channel_ended=False)
    steps = giving_back(iter(taken), give_back)
    LongWork(session.vhost.turns, f"giving back what {consumer!r} held", steps).start()
    if is_known:
        consumer.tell_cancelled()
