"""A queue's figures on their way from another node: MessagePack and back."""

import msgspec
import pytest

from leveret.broker.queues.contract.status import (
    WAITING,
    AgeFigures,
    CoarseCounts,
    ConnectionFigures,
    ConsumerFigures,
    QueueStatus,
)
from leveret.storage.contract.queue_status import StorageCounts
from tests.unit.broker.queues.fakes import FakeConsumer, FakeVhost, declared, publish, subscribed

CONNECTION = ConnectionFigures("127.0.0.1:50000 -> 127.0.0.1:5672", "127.0.0.1", 50_000)
STATUS = QueueStatus(
    counts=CoarseCounts(ready=3, unacked=1, consumers=2, published=4, delivered=1, redelivered=1),
    storage=StorageCounts(ready=3, unacked=1),
    declared_at_s=1_700_000_000.5,
    consumer_capacity=0.5,
    exclusive_consumer_tag="consumer",
    single_active_consumer_tag=None,
    owner=CONNECTION,
    memory_bytes=2_500,
    head_timestamp_s=1_700_000_000,
)
AGES = AgeFigures(1_234, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0], 7)
CONSUMER = ConsumerFigures(
    tag="consumer", ack_required=True, activity=WAITING, is_exclusive=False, priority=-3,
    prefetch_count=10, credit=None, timeout_ms=1_800_000,
    arguments={"x-priority": -3, "nested": {"list": [True, None, 1.5, "text"]}},
    connection=CONNECTION, channel_name=f"{CONNECTION.name} (1)", channel_number=1, user="guest",
)  # fmt: skip


@pytest.mark.parametrize("figures", [STATUS, STATUS.counts, AGES, CONSUMER])
def test_figures_survive_messagepack(figures):
    encoded = msgspec.msgpack.encode(figures)
    assert msgspec.msgpack.decode(encoded, type=type(figures)) == figures


def test_the_figures_of_a_running_queue_survive_messagepack():
    queue = declared(FakeVhost(), x_max_priority=5)
    publish(queue, b"a", b"b")
    consumer = FakeConsumer(b"\xff".decode("utf-8", "surrogateescape"))
    subscribed(queue, consumer)
    status = queue.figures.status()
    encoded = msgspec.msgpack.encode(status)
    assert msgspec.msgpack.decode(encoded, type=QueueStatus) == status


def test_a_capacity_of_no_consumers_stays_a_whole_number():
    """JSON shows it as 0, and the share of consumers that are there as 0.0."""
    for capacity in (0, 0.0):
        counts = msgspec.structs.replace(STATUS, consumer_capacity=capacity)
        decoded = msgspec.msgpack.decode(msgspec.msgpack.encode(counts), type=QueueStatus)
        assert type(decoded.consumer_capacity) is type(capacity)


def test_counts_are_short_on_the_wire():
    assert len(msgspec.msgpack.encode(CoarseCounts())) == 16
