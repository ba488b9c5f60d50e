"""Which consumer of a group is active."""

import random

import pytest

from leveret.cluster.streams.consumer_group import ConsumerGroup, Update


def starts(consumer):
    return [Update(consumer, is_active=True)]


def stops(consumer):
    return [Update(consumer, is_active=False)]


def test_the_first_consumer_stays_active():
    group = ConsumerGroup()
    assert group.join("a") == starts("a")
    assert group.join("b") == group.join("c") == []
    assert group.leave("b") == []
    assert group.leave("a") == starts("c")
    assert group.leave("c") == []
    assert group.join("d") == starts("d")


def test_partitions_are_spread_over_the_consumers():
    groups = [ConsumerGroup(partition) for partition in range(3)]
    assert [group.join("a") for group in groups] == [starts("a")] * 3
    assert [group.join("b") for group in groups] == [[], stops("a"), []]
    assert groups[1].stopped("a") == starts("b")
    assert [group.join("c") for group in groups] == [[], [], stops("a")]
    assert groups[2].stopped("a") == starts("c")
    assert [group.active for group in groups] == ["a", "b", "c"]


def test_nothing_begins_before_the_former_one_has_stopped():
    group = ConsumerGroup(1)
    group.join("a")
    assert group.join("b") == stops("a")
    assert group.join("c") == []
    assert group.stopped("c") == []
    assert group.stopped("a") == starts("b")


def test_a_consumer_that_leaves_instead_of_stopping():
    group = ConsumerGroup(1)
    group.join("a")
    group.join("b")
    assert group.leave("a") == starts("b")


def test_one_that_was_to_begin_leaves():
    group = ConsumerGroup(1)
    group.join("a")
    group.join("b")
    group.leave("b")
    assert group.stopped("a") == starts("a")


def test_the_next_leader_keeps_the_active_consumer():
    group = ConsumerGroup()
    assert group.join("b", is_active=True) == []
    assert group.join("a") == []
    assert group.active == "b"


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("partition", [-1, 0, 1, 5])
def test_one_reads_at_a_time_and_one_reads_in_the_end(seed, partition):
    chance = random.Random(seed)
    group = ConsumerGroup(partition)
    reading, told = set(), []

    def take(updates):
        for update in updates:
            if update.is_active:
                assert not reading
                reading.add(update.consumer)
            else:
                told.append(update.consumer)

    for step in range(40):
        if chance.random() < 0.5 or not group.consumers:
            take(group.join(f"c{step}"))
        elif chance.random() < 0.5:
            gone = chance.choice(group.consumers)
            reading.discard(gone)
            take(group.leave(gone))
        elif told:
            reading.discard(told[0])
            take(group.stopped(told.pop(0)))
    while told:
        reading.discard(told[0])
        take(group.stopped(told.pop(0)))
    assert reading == ({group.active} if group.consumers else set())
