"""Commits a transaction of a session, or rolls it back."""

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.sessions.publishing import reached_all
from leveret.broker.sessions.session import Session
from leveret.broker.sessions.settling import affordable, apply_settling
from leveret.broker.sessions.transaction import Transaction
from leveret.broker.sessions.unacked import SETTLE_WORK
from leveret.broker.vhost.fan_out import CARE_WORK

APPLY_WORK = 16
"""The work of applying one settlement, besides that of its deliveries (broker/runtime/turns.py)."""


def transaction_of(session: Session) -> Transaction:
    """The open transaction. Raises 406 without tx.select."""
    if session.transaction is None:
        raise precondition_failed("channel is not transactional")
    return session.transaction


async def commit(session: Session) -> None:
    """Publish, then settle, and begin the next transaction. Raises 406 if there is none.

    `Session.commit_ended` follows once everything persistent is on disk.
    """
    transaction = transaction_of(session)
    turns = session.vhost.turns
    while transaction.publishes:
        rest = transaction.publishes.popleft()()
        if rest is not None:
            await reached_all(session, rest)
        turns.work_left -= CARE_WORK
        await turns.give_way()
    while (settling := transaction.next_settling(affordable(session))) is not None:
        action, taken = settling
        turns.work_left -= APPLY_WORK + SETTLE_WORK * len(taken)
        apply_settling(session, action, taken)
        await turns.give_way()
    session.begin_transaction()
    session.committing.append(transaction)
    session.commits_due()


async def roll_back(session: Session) -> None:
    """Discard the publishes, and begin the next transaction. Raises 406 if there is none.

    The settled deliveries become unsettled, without a requeue.
    """
    transaction = transaction_of(session)
    turns = session.vhost.turns
    for work in session.unacked.putting_back(transaction.taken(), session.next_delivery_tag):
        turns.work_left -= work
        await turns.give_way()
    session.begin_transaction()
    LongWork(turns, f"the rollback of {session!r}", transaction.dropping()).start()
