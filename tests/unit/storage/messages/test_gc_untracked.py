"""The garbage collector does not look at messages, however many there are and where they wait."""

import gc

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.storage.messages.message import Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.queue.transient_queue import TransientQueue
from tests.unit.storage.fake_store import ADDRESS, FakeStore

COUNT = 1000
FEW = COUNT // 4
"""What other parts of the process may add meanwhile: a list of all messages would have `COUNT`."""


@pytest.fixture(params=["in memory", "durable", "not durable"])
def queue(request, tmp_path):
    if request.param == "in memory":
        return TransientQueue()
    return FakeStore(tmp_path).queue(is_durable=request.param == "durable")


def publish_with_own_headers(queue):
    for number in range(COUNT):
        raw = encode_properties({"message_id": str(number), "headers": {"n": ("l", number)}})
        queue.publish(run_of([Message(ADDRESS, read_header(raw), b"x")]), 0)


def tracked():
    """How many objects a full collection looks at, and how many items are in its lists."""
    gc.collect()
    found = gc.get_objects()
    return len(found), sum(len(each) for each in found if type(each) is list)


def test_a_full_collection_does_not_look_at_messages(queue):
    objects, items = tracked()
    publish_with_own_headers(queue)
    now_objects, now_items = tracked()
    # The log's list of what is to be written has one run for each message of a durable queue.
    runs = len(queue._store.queue_log.runs) if hasattr(queue, "_store") else 0
    assert now_objects - objects < FEW
    assert now_items - items - runs < FEW
    assert gc.get_referrers(queue.peek()) == []


def test_it_does_not_look_at_those_that_came_back(queue):
    publish_with_own_headers(queue)
    objects, items = tracked()
    queue.requeue(queue.fetch(COUNT, True))
    now_objects, now_items = tracked()
    assert now_objects - objects < FEW
    assert now_items - items < FEW
