"""The local random exchange, with choices made by the test."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.exchanges.local_random import LocalRandom
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.queues.stream_kind import STREAM_QUEUE
from tests.routes import looked_at, matched

HEADER = read_header(b"\0\0")


@pytest.fixture
def exchange():
    exchange = LocalRandom({}, choose=lambda destinations: destinations[-1])
    for name in ("here 1", "here 2", "there"):
        exchange.bind(name, "", {})
    exchange.serve(lambda queue: queue.startswith("here"))
    return exchange


def test_one_queue_of_this_node_is_chosen(exchange):
    assert matched(exchange, "any key", HEADER) == ["here 2"]


def test_each_queue_that_is_looked_at_is_work(exchange):
    assert looked_at(exchange, "", HEADER) == 4


def test_queues_of_other_nodes_are_never_chosen(exchange):
    exchange.unbind("here 1", "", {})
    exchange.unbind("here 2", "", {})
    assert matched(exchange, "", HEADER) == []


def test_where_queues_live_is_asked_anew_for_each_message():
    assert not LocalRandom.routes_by_key


def test_bindings_have_no_key(exchange):
    exchange.validate_binding("", {})
    with pytest.raises(ChannelFault, match="Non empty binding 'k' key not permitted"):
        exchange.validate_binding("k", {})


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (None, "Destination not found"),
        (STREAM_QUEUE, "Queue type rabbit_stream_queue not valid for this exchange type"),
    ],
)
def test_only_classic_queues_are_bound(exchange, kind, text):
    exchange.validate_destination(CLASSIC_QUEUE)
    with pytest.raises(ChannelFault, match=text):
        exchange.validate_destination(kind)
