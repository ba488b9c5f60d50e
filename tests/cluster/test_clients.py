"""The actions of clients (clients.py), with a node that these tests simulate."""

from contextlib import AbstractContextManager
from types import SimpleNamespace

from tests.cluster.clients import bodies

READY = 3


class NodeOfAQueueThatIsFilled(AbstractContextManager):
    """It has three messages, and one more is published for each that is taken."""

    taken = 0

    def connect(self):
        return self

    def channel(self):
        return self

    def __exit__(self, *exception):
        return None

    def basic_get(self, queue, auto_ack):
        self.taken += 1
        assert self.taken <= READY, "it takes what was published meanwhile, and may never end"
        got = SimpleNamespace(message_count=READY - 1)
        return got, None, b"%d" % self.taken


def test_bodies_ends_for_a_queue_that_is_filled_as_fast_as_it_takes():
    assert bodies(NodeOfAQueueThatIsFilled(), "q") == [b"1", b"2", b"3"]
