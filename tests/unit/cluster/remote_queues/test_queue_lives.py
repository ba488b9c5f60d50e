"""A publisher and a queue whose node restarts, or that is deleted and declared elsewhere meanwhile.

Programs are made by seed. Clients of node a publish to the queue that has the name just then; its
home is b or c, which may hear of declarations late. Whatever happens, each run is confirmed or
refused, once, and no message reaches another queue than the one that it was published to.
"""

import random

import pytest

from leveret.broker.queues.contract.publication import publication_of
from leveret.storage.messages.message import Message
from tests.linked_nodes import Nodes
from tests.storage.reading import ready_entries
from tests.unit.broker.queues.fakes import HEADER
from tests.unit.cluster.remote_queues.fakes import ADDRESS, Publisher

A, B, C = "a@host", "b@host", "c@host"
STEPS = 60


class Lives:
    """A random program. publishers: one for each run, with the bodies that it published."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.nodes = Nodes(A, B, C)
        self.home = self.nodes.declare(B, durable=True)
        self.publishers = []

    def publish(self):
        publisher = Publisher()
        count = self.random.randint(1, 3)
        messages = [Message(ADDRESS, HEADER, b"%d" % self.home.identity) for _ in range(count)]
        queue = self.nodes.by_name[A].queue()
        assert queue.placement == self.home
        self.publishers.append(publisher)
        queue.publish(publication_of(messages, None, publisher, 1))

    def declare_anew(self):
        self.nodes.delete()
        self.home = self.nodes.declare(self.random.choice((B, C)), durable=True)

    def break_link(self):
        other = self.random.choice((B, C))
        if (A, other) in self.nodes.ends:
            self.nodes.unlink(A, other)

    def mend_links(self):
        for other in (B, C):
            if (A, other) not in self.nodes.ends:
                self.nodes.link(A, other)

    def restart(self):
        self.nodes.restart(self.random.choice((B, C)))

    def lag(self):
        self.nodes.late.setdefault(self.random.choice((B, C)), [])

    def catch_up(self):
        for name in tuple(self.nodes.late):
            self.nodes.catch_up(name)

    def run(self):
        often = [self.publish, self.nodes.step] * 4
        seldom = [
            self.declare_anew, self.break_link, self.mend_links, self.mend_links, self.restart,
            self.lag, self.catch_up,
        ]  # fmt: skip
        for _ in range(STEPS):
            self.random.choice(often + seldom)()
        self.catch_up()
        self.mend_links()
        self.nodes.settle()


@pytest.mark.parametrize("seed", range(60))
def test_each_publish_has_one_outcome_and_reaches_no_other_queue(seed):
    lives = Lives(seed)
    lives.run()
    for publisher in lives.publishers:
        assert not publisher.owed, "each run is confirmed or refused"
    queue = lives.nodes.by_name[lives.home.node].queue()
    bodies = {entry.message.body for entry in ready_entries(queue.backing)}
    assert bodies <= {b"%d" % lives.home.identity}


def test_a_publish_is_refused_when_its_node_restarts_before_the_confirm():
    nodes = Nodes(A, B)
    nodes.declare(B, durable=True)
    publisher = Publisher()
    queue = nodes.by_name[A].queue()
    queue.publish(publication_of([Message(ADDRESS, HEADER, b"x")], None, publisher, 1))
    while nodes.ends[A, B].sent:
        nodes.by_name[B].queues.received(nodes.ends[B, A], nodes.ends[A, B].sent.popleft())
    nodes.restart(B)
    assert publisher.died == [False]
    nodes.settle()
    again = Publisher()
    queue.publish(publication_of([Message(ADDRESS, HEADER, b"y")], None, again, 1))
    nodes.settle()
    assert (publisher.confirmed, again.confirmed) == ([], [1])


def test_what_was_published_to_a_queue_that_is_deleted_counts_as_confirmed():
    nodes = Nodes(A, B, C)
    nodes.declare(B, durable=True)
    publisher = Publisher()
    nodes.by_name[A].queue().publish(
        publication_of([Message(ADDRESS, HEADER, b"x")], None, publisher, 1)
    )
    nodes.delete()
    nodes.declare(C, durable=True)
    assert publisher.died == [True]
    nodes.settle()
    assert nodes.by_name[C].queue().backing.ready_count == 0
