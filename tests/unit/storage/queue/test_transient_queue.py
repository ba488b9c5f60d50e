"""A queue in memory: what the tests of the contract in tests/storage/backing_contract leave out."""

from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.queue.transient_queue import TransientQueue
from tests.unit.storage.fakes import ADDRESS


class Confirmed:
    def __init__(self, numbers):
        self.confirm = lambda sequence, *holder: numbers.append(sequence)


def test_it_is_as_safe_as_it_will_be_at_once():
    confirmed = []
    queue = TransientQueue()
    assert not queue.publish(run_of([Message(ADDRESS, None, b"1")]), 0)
    queue.when_safe(Confirmed(confirmed), 7, queue)
    assert confirmed == [7]
