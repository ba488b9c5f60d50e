"""What a transaction remembers until it is committed."""

from broker.channel.transaction import ACK, DISCARD, REQUEUE, Transaction
from broker.channel.unacked import Unacked, UnackedMessages
from storage.message import Entry


def record(tag):
    return Unacked(Entry(None, tag), None, None, 0)


def test_a_new_transaction_is_empty():
    transaction = Transaction()
    assert transaction.publishes == []
    assert transaction.settlings == []
    assert transaction.taken() == []
    assert not transaction.has_failed


def test_settlings_are_kept_in_order_with_what_is_to_be_done():
    transaction = Transaction()
    transaction.settle(ACK, [(1, record(1)), (2, record(2))])
    transaction.settle(REQUEUE, [(4, record(4))])
    transaction.settle(DISCARD, [(3, record(3))])
    assert [(one.action, [tag for tag, _ in one.taken]) for one in transaction.settlings] == [
        ("ack", [1, 2]), ("requeue", [4]), ("discard", [3]),
    ]  # fmt: skip
    assert [tag for tag, _ in transaction.taken()] == [1, 2, 4, 3]


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
    unacked.put_back(transaction.taken())
    assert [tag for tag, _ in unacked] == [1, 2, 3]
    assert unacked.take_up_to(3) is not None
