"""What a backing queue holds, by RabbitMQ's names."""

from leveret.storage.contract.paging import NO_TARGET
from leveret.storage.contract.queue_status import (
    Places,
    StorageCounts,
    TieredLimits,
    memory_status,
    summed_counts,
    summed_status,
    tiered_status,
)

COUNTS = StorageCounts(
    ready=10, ready_bytes=1000, unacked=2, unacked_bytes=200, persistent=11, persistent_bytes=1100,
    paged_out=6, paged_out_bytes=600, disk_reads=1, disk_writes=7,
)  # fmt: skip
PLACES = Places(q1=1, q2=0, q3=2, q4=3, delta_count=4, delta_first=5, delta_end=9)
LIMITS = TieredLimits(is_lazy=False, target_bytes=NO_TARGET, next_position=20)


def test_messages_that_are_not_paged_out_are_in_memory():
    assert (COUNTS.ready_ram, COUNTS.ram, COUNTS.ram_bytes) == (4, 6, 600)
    named = COUNTS.named()
    assert (named["messages_ram"], named["messages_ready_ram"]) == (6, 4)
    assert (named["message_bytes"], named["message_bytes_ram"]) == (1200, 600)


def test_the_messages_of_a_tiered_queue_that_are_on_disk_only():
    assert tiered_status(COUNTS, PLACES, LIMITS)["delta"] == ["delta", 5, 4, 0, 9]
    empty = PLACES._replace(delta_count=0, delta_first=0, delta_end=0)
    assert tiered_status(COUNTS, empty, LIMITS)["delta"] == [
        "delta",
        "undefined",
        0,
        0,
        "undefined",
    ]


def test_how_many_messages_may_be_in_memory():
    def target(**changes):
        return tiered_status(COUNTS, PLACES, LIMITS._replace(**changes))["target_ram_count"]

    assert target() == "infinity"
    assert target(target_bytes=3600) == 10
    assert target(is_lazy=True) == 0


def test_a_priority_queue_has_the_sum_of_its_levels():
    in_memory = StorageCounts(ready=3, ready_bytes=30, unacked=1, unacked_bytes=10)
    assert summed_counts([COUNTS, in_memory]).ram == 10
    status = summed_status([(9, tiered_status(COUNTS, PLACES, LIMITS)), (0, memory_status(3))])
    assert status["len"] == 13
    assert status["priority_lengths"] == {"9": 10, "0": 3}


def test_a_priority_queue_without_levels_is_empty():
    assert summed_counts([]) == StorageCounts()
    assert summed_status([])["target_ram_count"] == "infinity"
