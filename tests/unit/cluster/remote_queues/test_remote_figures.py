"""The figures of a queue on another node, as the node of its clients knows them."""

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.runtime.pending import Answer
from leveret.cluster.remote_queues.remote_figures import FRESH_MS
from tests.linked_nodes import Nodes
from tests.unit.broker.queues.fakes import FakeConsumer, publish
from tests.unit.cluster.remote_queues.fakes import asked, consuming

A, B = "a@host", "b@host"


@pytest.fixture
def nodes():
    nodes = Nodes(A, B)
    nodes.declare(B, durable=True)
    return nodes


@pytest.fixture
def remote(nodes):
    return nodes.by_name[A].queue()


def pass_time(nodes):
    for node in nodes:
        node.clock.advance(FRESH_MS / 1000)


def test_a_look_at_old_counts_asks_for_new_ones(nodes, remote):
    publish(remote, b"1", b"2")
    assert remote.figures.counts().ready == 0
    nodes.settle()
    assert remote.figures.counts().ready == 2


def test_fresh_counts_are_not_asked_for_again(nodes, remote):
    remote.figures.counts()
    nodes.settle()
    asked_for = len(nodes.ends[A, B].log)
    remote.figures.counts()
    nodes.settle()
    assert len(nodes.ends[A, B].log) == asked_for
    pass_time(nodes)
    remote.figures.counts()
    nodes.settle()
    assert len(nodes.ends[A, B].log) == asked_for + 1


def test_the_counts_of_many_queues_are_one_question(nodes):
    for number in range(50):
        nodes.declare(B, f"q{number}")
    for queue in nodes.by_name[A].vhost.queues.values():
        queue.figures.counts()
    nodes.settle()
    assert len(nodes.ends[A, B].log) == len(nodes.ends[B, A].log) == 1


def test_everything_that_management_shows(nodes, remote):
    publish(remote, b"12345")
    consuming(nodes, remote, FakeConsumer("c", credit=0))
    asked(nodes, remote.figures.refresh)
    status = remote.figures.status()
    assert (status.counts.ready, status.storage.ready_bytes, status.state) == (1, 5, "running")
    (consumer,) = remote.figures.consumers()
    assert (consumer.tag, consumer.connection.name) == ("c", "a connection")
    assert remote.figures.ages().oldest_ready_ms == 0
    assert remote.figures.backing_queue_status()["len"] == 1


def test_without_a_link_it_is_down(nodes, remote):
    publish(remote, b"1")
    asked(nodes, remote.figures.refresh)
    nodes.unlink(A, B)
    assert remote.figures.status().state == "down"
    assert remote.figures.counts().ready == 1, "as it was known last"
    answer = Answer()
    remote.figures.refresh(answer)
    with pytest.raises(ChannelFault, match="is down or inaccessible"):
        answer.result()
