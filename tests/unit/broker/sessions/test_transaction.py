"""The operations that a transaction stores until it is committed."""

from leveret.broker.queues.contract.confirm_holder import ConfirmHolder
from leveret.broker.sessions.transaction import ACK, DISCARD, REQUEUE, Transaction
from leveret.broker.sessions.unacked import UnackedMessages
from leveret.broker.sessions.unacked_record import Unacked
from leveret.storage.messages.message import Entry, Message
from tests.unit.storage.fakes import ADDRESS

MESSAGE = Message(ADDRESS, None, b"")


def record(tag):
    return Unacked(Entry(MESSAGE, tag), None, None, 0)


def test_a_new_transaction_is_empty():
    transaction = Transaction()
    assert not transaction.publishes
    assert not transaction.settlings
    assert transaction.settled_count == 0
    assert not transaction.has_failed


def test_settlings_are_kept_in_order_with_their_kind():
    transaction = Transaction()
    transaction.settle(ACK, [(1, record(1)), (2, record(2))])
    transaction.settle(REQUEUE, [(4, record(4))])
    transaction.settle(DISCARD, [(3, record(3))])
    assert [(one.action, [tag for tag, _ in one.taken]) for one in transaction.settlings] == [
        ("ack", [1, 2]), ("requeue", [4]), ("discard", [3]),
    ]  # fmt: skip
    assert [tag for tag, _ in transaction.taken()] == [1, 2, 4, 3]
    assert transaction.settled_count == 4
    assert [tag for tag, _ in transaction.hand_over()] == [1, 2, 4, 3]
    assert not transaction.settlings


def test_a_commit_publishes_in_order():
    transaction = Transaction()
    done = []
    for number in range(3):
        transaction.publishes.append(lambda number=number: done.append(number))
    assert done == []
    for publish in transaction.publishes:
        publish()
    assert done == [0, 1, 2]


def test_a_rollback_opens_what_was_taken():
    unacked = UnackedMessages()
    for tag in (1, 2, 3):
        unacked.records[tag] = record(tag)
    transaction = Transaction()
    transaction.settle(DISCARD, [(3, unacked.take(3))])
    transaction.settle(ACK, unacked.take_up_to(2))
    assert len(unacked) == 0
    assert len(list(unacked.putting_back(transaction.taken(), 4))) == 1
    assert [tag for tag, _ in unacked] == [1, 2, 3]
    assert unacked.take_up_to(3) is not None


def committed(settled):
    """A transaction of two messages that are published: the log holds one, a mirror both."""
    transaction = Transaction(lambda: settled.append("settled"))
    assert [transaction.next_number(1), transaction.next_number(1)] == [1, 2]
    mirror = ConfirmHolder("mirror")
    mirror.hold(transaction, 1, 1)
    mirror.hold(transaction, 2, 1)
    transaction.hold(2, 1, "log")
    return transaction, mirror


def test_a_commit_waits_for_every_holder_in_whatever_order():
    settled = []
    transaction, mirror = committed(settled)
    transaction.confirm(2, "log")
    mirror.confirm(transaction, 2)
    assert transaction.is_held
    assert settled == []
    mirror.confirm(transaction, 1)
    assert not transaction.is_held
    assert settled == ["settled"]


def test_a_commit_fails_with_a_holder_that_dies():
    settled = []
    transaction, mirror = committed(settled)
    mirror.die(is_settled=False)
    assert transaction.has_failed
    assert transaction.refused_count == 2
    transaction.confirm(2, "log")
    assert settled == ["settled"]


def test_a_holder_that_confirms_for_another_transaction_settles_nothing_here():
    settled = []
    transaction, _ = committed(settled)
    transaction.confirm(1, "log")
    assert transaction.is_held
