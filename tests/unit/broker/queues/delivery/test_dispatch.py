"""The order of consumers."""

import pytest

from leveret.broker.queues.contract.queue_client import Consumer
from leveret.broker.queues.delivery.dispatch import ConsumerRing


class FakeConsumer(Consumer):
    """A consumer with credit for a number of messages."""

    def __init__(self, tag, room=1000, priority=0, is_exclusive=False):
        super().__init__(tag, False, is_exclusive, priority)
        self.capacity = room

    def __repr__(self):
        return self.tag

    def room(self):
        return self.capacity


def ring_of(*consumers, is_single_active=False):
    ring = ConsumerRing(is_single_active)
    for consumer in consumers:
        ring.add(consumer)
    return ring


def turns(ring, count):
    """Return the tags of the consumers that get the next messages, one each."""
    tags = ""
    for _ in range(count):
        consumer = ring.next()
        if consumer is None:
            return tags + "-"
        consumer.capacity -= 1
        tags += consumer.tag
    return tags


def test_an_empty_ring_gives_no_consumer():
    ring = ConsumerRing()
    assert ring.next() is None
    assert not ring.has_candidates
    assert ring.may_add(FakeConsumer("e", is_exclusive=True))


def test_consumers_take_turns_in_the_order_in_which_they_came():
    ring = ring_of(*map(FakeConsumer, "abc"))
    assert turns(ring, 7) == "abcabca"


def test_a_new_consumer_waits_behind_the_others():
    ring = ring_of(*map(FakeConsumer, "ab"))
    assert turns(ring, 1) == "a"
    ring.add(FakeConsumer("c"))
    assert turns(ring, 4) == "bacb"


def test_a_consumer_that_leaves_is_left_out():
    a, b, c = map(FakeConsumer, "abc")
    ring = ring_of(a, b, c)
    assert turns(ring, 1) == "a"
    ring.remove(b)
    assert list(ring.consumers) == [a, c]
    assert turns(ring, 3) == "cac"


def test_a_full_consumer_is_passed_over_and_waits():
    a, b = FakeConsumer("a", room=1), FakeConsumer("b", room=3)
    ring = ring_of(a, b)
    assert turns(ring, 9) == "abbb-"
    assert (a.is_waiting, b.is_waiting) == (True, True)
    assert not ring.has_candidates
    a.capacity = 2
    assert ring.wake(a)
    assert not a.is_waiting
    assert turns(ring, 9) == "aa-"


def test_waking_one_that_does_not_wait_does_nothing():
    a = FakeConsumer("a")
    ring = ring_of(a)
    assert not ring.wake(a)
    assert turns(ring, 2) == "aa"


def test_a_waiting_consumer_may_leave():
    a, b = FakeConsumer("a", room=0), FakeConsumer("b")
    ring = ring_of(a, b)
    assert turns(ring, 1) == "b"
    ring.remove(a)
    assert not a.is_waiting
    assert not ring.wake(a)
    assert turns(ring, 2) == "bb"


def test_the_highest_priority_is_served_while_it_has_room():
    ring = ring_of(
        FakeConsumer("l", priority=-1), FakeConsumer("h", room=2, priority=10),
        FakeConsumer("n"), FakeConsumer("H", room=3, priority=10),
    )  # fmt: skip
    assert turns(ring, 8) == "hHhHHnnn"


def test_one_of_a_high_priority_is_served_again_as_soon_as_it_has_room():
    high, low = FakeConsumer("h", room=1, priority=5), FakeConsumer("l")
    ring = ring_of(low, high)
    assert turns(ring, 3) == "hll"
    high.capacity = 1
    ring.wake(high)
    assert turns(ring, 2) == "hl"


def test_it_is_so_too_when_the_last_other_one_of_its_priority_has_left():
    high, other = FakeConsumer("h", room=0, priority=5), FakeConsumer("H", priority=5)
    low = FakeConsumer("l")
    ring = ring_of(high, other, low)
    assert turns(ring, 1) == "H"
    ring.remove(other)
    high.capacity = 2
    assert ring.wake(high)
    assert turns(ring, 3) == "hhl"


def test_one_candidate_can_be_told_from_several():
    a, b, high = FakeConsumer("a"), FakeConsumer("b"), FakeConsumer("h", priority=1)
    ring = ConsumerRing()
    assert not ring.has_one_candidate
    ring.add(a)
    assert ring.has_one_candidate
    ring.add(high)
    assert not ring.has_one_candidate
    ring.remove(high)
    assert ring.has_one_candidate
    ring.add(b)
    assert not ring.has_one_candidate
    b.capacity = 0
    turns(ring, 2)
    assert ring.has_one_candidate


def test_a_single_active_consumer_gets_everything():
    a, b = FakeConsumer("a"), FakeConsumer("b")
    ring = ring_of(a, b, is_single_active=True)
    assert ring.active is a
    assert turns(ring, 3) == "aaa"


def test_no_consumer_stands_in_for_a_single_active_consumer_that_is_full():
    a, b = FakeConsumer("a", room=1), FakeConsumer("b")
    ring = ring_of(a, b, is_single_active=True)
    assert turns(ring, 3) == "a-"
    a.capacity = 1
    assert ring.wake(a)
    assert turns(ring, 3) == "a-"


def test_when_the_active_consumer_leaves_the_next_one_is_active():
    a, b, c = map(FakeConsumer, "abc")
    ring = ring_of(a, b, c, is_single_active=True)
    ring.remove(b)
    assert turns(ring, 2) == "aa"
    ring.remove(a)
    assert ring.active is c
    assert turns(ring, 2) == "cc"
    ring.remove(c)
    assert ring.active is None
    assert ring.next() is None


def test_the_remaining_consumer_of_the_highest_priority_becomes_active():
    first, low, high = FakeConsumer("f"), FakeConsumer("l"), FakeConsumer("h", priority=1)
    ring = ring_of(first, low, high, is_single_active=True)
    assert ring.active is first
    ring.remove(first)
    assert ring.active is high


def test_an_exclusive_consumer_admits_no_other():
    exclusive, other = FakeConsumer("e", is_exclusive=True), FakeConsumer("o")
    ring = ring_of(exclusive)
    assert not ring.may_add(other)
    ring.remove(exclusive)
    assert ring.may_add(other)


def test_an_exclusive_consumer_does_not_come_beside_others():
    exclusive = FakeConsumer("e", is_exclusive=True)
    assert not ring_of(FakeConsumer("o")).may_add(exclusive)
    assert not ring_of(is_single_active=True).may_add(exclusive)


class CountedConsumer(FakeConsumer):
    """Counts how often any of them is looked at."""

    looked = 0

    def __eq__(self, other):
        CountedConsumer.looked += 1
        return self is other

    __hash__ = object.__hash__

    @property
    def priority(self):
        CountedConsumer.looked += 1
        return self._priority

    @priority.setter
    def priority(self, priority):
        self._priority = priority

    @property
    def is_exclusive(self):
        CountedConsumer.looked += 1
        return False

    @is_exclusive.setter
    def is_exclusive(self, is_exclusive):
        pass


@pytest.mark.parametrize("is_single_active", [False, True])
@pytest.mark.parametrize("priorities", [1, 500])
def test_the_work_for_a_consumer_does_not_grow_with_their_number(is_single_active, priorities):
    consumers = [CountedConsumer(str(one), priority=one % priorities) for one in range(500)]
    ring = ConsumerRing(is_single_active)
    CountedConsumer.looked = 0
    for consumer in consumers:
        assert ring.may_add(consumer)
        ring.add(consumer)
    for _ in consumers:
        found = ring.next()
        if found is not None:
            found.capacity = 0
    assert ring.next() is None
    for consumer in consumers:
        ring.wake(consumer)
        ring.remove(consumer)
    assert CountedConsumer.looked < 20 * len(consumers)


def test_the_next_single_active_consumer():
    ring = ConsumerRing(True)
    first, low, high, last = (FakeConsumer(str(one), priority=one) for one in (1, 0, 5, 5))
    for consumer in (first, low, high, last):
        ring.add(consumer)
    elected = []
    while ring.consumers:
        elected.append(ring.active)
        ring.remove(ring.active)
    assert elected == [first, high, last, low]
    assert ring.active is None
