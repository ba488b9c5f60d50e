"""What a backing queue holds, by RabbitMQ's names."""

from leveret.storage.paging import NO_TARGET
from leveret.storage.queue_status import (
    COUNTS,
    TieredFigures,
    memory_status,
    summed_status,
    tiered_status,
)

FIGURES = TieredFigures(
    ready_count=10, ready_bytes=1000, unacked_count=2, unacked_bytes=200, persistent_count=11,
    persistent_bytes=1100, paged_out_count=6, paged_out_bytes=600, disk_reads=1, disk_writes=7,
    q1=1, q2=0, q3=2, q4=3, delta_count=4, delta_first=5, delta_end=9, is_lazy=False,
    target_bytes=NO_TARGET, next_position=20,
)  # fmt: skip


def inner(figures):
    return tiered_status(figures)["backing_queue_status"]


def test_a_tiered_queue():
    status = tiered_status(FIGURES)
    assert set(COUNTS) < set(status)
    assert (status["messages_ram"], status["messages_ready_ram"]) == (6, 4)
    assert (status["message_bytes"], status["message_bytes_ram"]) == (1200, 600)
    assert inner(FIGURES)["delta"] == ["delta", 5, 4, 0, 9]
    empty = FIGURES._replace(delta_count=0, delta_first=0, delta_end=0)
    assert inner(empty)["delta"] == ["delta", "undefined", 0, 0, "undefined"]


def test_how_many_messages_may_be_in_memory():
    assert inner(FIGURES)["target_ram_count"] == "infinity"
    assert inner(FIGURES._replace(target_bytes=3600))["target_ram_count"] == 10
    assert inner(FIGURES._replace(is_lazy=True))["target_ram_count"] == 0


def test_a_queue_in_memory_has_nothing_on_disk():
    status = memory_status(3, 30, 1, 10)
    assert set(COUNTS) < set(status)
    assert (status["messages_ram"], status["message_bytes_ram"]) == (4, 40)
    assert status["messages_paged_out"] == status["messages_persistent"] == 0


def test_a_priority_queue_has_the_sum_of_its_levels():
    status = summed_status([(9, tiered_status(FIGURES)), (0, memory_status(3, 30, 1, 10))])
    assert status["messages_ram"] == 10
    assert status["backing_queue_status"]["len"] == 13
    assert status["backing_queue_status"]["priority_lengths"] == {"9": 10, "0": 3}
    assert summed_status([])["backing_queue_status"]["target_ram_count"] == "infinity"
