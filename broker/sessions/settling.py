"""Settles deliveries: acknowledges, requeues, dead-letters or drops them.

In a transaction, the commit does all of this (committing.py). A large number of deliveries is
settled over several turns.
"""

from leveret.broker.events.taps import Taps
from leveret.broker.queues.contract.modifications import Modification, modify
from leveret.broker.queues.contract.retry_delay import retry_delay
from leveret.broker.runtime.pending import Steps
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.transaction import ACK, DISCARD, FAIL, REJECT, REQUEUE
from leveret.broker.sessions.unacked import SETTLE_WORK, by_queue
from leveret.broker.sessions.unacked_record import Unacked

SETTLED_AT_ONCE = 4000
"""Deliveries that are settled in one turn, whatever work is left: two milliseconds."""


def ack(session: Session, delivery_tag: int, multiple: int) -> Steps | None:
    """Acknowledge deliveries. On the hot path, hence called without a method object.

    Returns None if they are; a coroutine that acknowledges them if there are too many for this
    turn.
    """
    if multiple and _are_many(session):
        return _settle_in_slices(session, ACK, delivery_tag)
    if multiple or session.transaction is not None:
        _settle(session, ACK, delivery_tag, bool(multiple))
        return None
    record = session.unacked.take(delivery_tag)
    if record is None:
        session.require_taken_back(delivery_tag)
        return None
    tracer = session.vhost.tracer
    if tracer is not None:
        tracer.acked(session, [(delivery_tag, record)])
    record.queue.ack((record.entry,))
    if record.consumer is not None:
        record.consumer.settled()
    return None


async def nack(session: Session, delivery_tag: int, multiple: bool, requeue: bool) -> None:
    """Requeue deliveries, or dead-letter or drop them."""
    action = REQUEUE if requeue else DISCARD
    if multiple and _are_many(session):
        await _settle_in_slices(session, action, delivery_tag)
    else:
        _settle(session, action, delivery_tag, multiple)


def reject(session: Session, delivery_tag: int, requeue: bool) -> None:
    """Requeue one delivery, or dead-letter or drop it. Raises 406 for an unknown tag."""
    action = DISCARD
    if requeue:
        action = FAIL if session.services.config.is_as_rabbitmq_4_3 else REJECT
    _settle(session, action, delivery_tag, False)


def _settle(session: Session, action: str, delivery_tag: int, multiple: bool) -> None:
    taken = session.take_unacked(delivery_tag, multiple)
    _settle_taken(session, action, taken)


def _settle_taken(session: Session, action: str, taken: list[tuple[int, Unacked]]) -> None:
    if session.transaction is not None:
        session.transaction.settle(action, taken)
    else:
        apply_settling(session, action, taken)


def _are_many(session: Session) -> bool:
    """Whether a turn may be too short to settle the deliveries."""
    return len(session.unacked) > SETTLED_AT_ONCE


async def _settle_in_slices(session: Session, action: str, delivery_tag: int) -> None:
    """Settle all deliveries up to a tag, in each turn as many as there is work left for."""
    tags = session.unacked.open_tags(delivery_tag or session.unacked.last_tag)
    if tags is None:
        session.require_taken_back(delivery_tag)
        before = session.unacked.last_open_before(delivery_tag)
        tags = session.unacked.open_tags(before) if before else None
        if tags is None:
            return
    turns = session.vhost.turns
    while (taken := session.unacked.take_next(tags, affordable(session))) is not None:
        turns.work_left -= SETTLE_WORK * (1 + len(taken))
        _settle_taken(session, action, taken)
        await turns.give_way()


def affordable(session: Session) -> int:
    """The number of deliveries that may be settled in the rest of this turn: at least one."""
    return max(1, session.vhost.turns.affordable(SETTLE_WORK))


def apply_settling(
    session: Session, action: str, taken: list[tuple[int, Unacked]],
    modification: Modification | None = None,
) -> None:  # fmt: skip
    """Apply an ack, nack or reject to the deliveries. modification: what a client adds to it.

    Raises 540 after it has rejected deliveries of a queue that does not take them back.
    """
    if session.vhost.tracer is not None:
        _trace_settling(session, session.vhost.tracer, action, taken)
    if action != ACK:
        session.counts.given_back += len(taken)
    if modification is not None:
        _modify(taken, modification)
    elif action in (REQUEUE, REJECT, FAIL):
        session.requeue(taken, is_failed=action == FAIL or (action == REJECT and _delay(taken)))
    else:
        for queue, entries in by_queue(taken):
            if action == ACK:
                queue.ack(entries)
            else:
                queue.discard(entries)
        for _, record in taken:
            if record.consumer is not None:
                record.consumer.settled()
    if action != ACK:
        # The deliveries of other queues are settled first: they are no longer the session's.
        for queue in dict.fromkeys([record.queue for _, record in taken]):
            queue.kind.check_reject(queue.name, session.vhost.name)


def _delay(taken: list[tuple[int, Unacked]]) -> bool:
    """Whether a queue of these deliveries delays retries."""
    return any(retry_delay(record.queue.options) is not None for _, record in taken)


def _modify(taken: list[tuple[int, Unacked]], modification: Modification) -> None:
    for queue, entries in by_queue(taken):
        modify(queue, entries, modification)
    for _, record in taken:
        if record.consumer is not None:
            record.consumer.settled()


def _trace_settling(
    session: Session, tracer: Taps, action: str, taken: list[tuple[int, Unacked]]
) -> None:
    if action == ACK:
        tracer.acked(session, taken)
    else:
        tracer.rejected(session, taken, action != DISCARD)


async def recover(session: Session) -> None:
    """Requeue all unsettled deliveries."""
    if not session.unacked:
        return
    turns = session.vhost.turns
    tags = session.unacked.open_tags(session.unacked.last_tag)
    assert tags is not None, "the last tag is open"
    while (taken := session.unacked.take_next(tags, affordable(session))) is not None:
        turns.work_left -= SETTLE_WORK * (1 + len(taken))
        session.counts.given_back += len(taken)
        session.give_back(taken, channel_ended=False)
        await turns.give_way()
