"""The ages of a queue's messages, which are recorded when they leave."""

import pytest

from leveret.broker.queues.delivery.age import BOUNDS_MS, MARKS_MAX, Ages


def bucket(ages):
    """Return the bucket of the only message that has left: its upper bound in milliseconds."""
    (place,) = [place for place, count in enumerate(ages.counts) if count]
    return BOUNDS_MS[place] if place < len(BOUNDS_MS) else None


@pytest.mark.parametrize(
    ("waited_ms", "bound_ms"),
    [(0, 1), (1, 1), (2, 10), (10, 10), (11, 100), (86_400_000, 86_400_000), (86_400_001, None)],
)
def test_a_bucket_holds_its_own_bound(waited_ms, bound_ms):
    ages = Ages(5_000)
    ages.delivered(0, 1, 5_000 + waited_ms)
    assert bucket(ages) == bound_ms
    assert ages.sum_ms == waited_ms


def test_messages_of_one_batch_may_have_waited_differently():
    ages = Ages(0)
    for position, time_ms in enumerate((0, 50, 5_000)):
        ages.mark(time_ms, position)
    ages.delivered(0, 3, 5_050)
    assert ages.counts[BOUNDS_MS.index(100)] == 1
    assert ages.counts[BOUNDS_MS.index(10_000)] == 2
    assert ages.sum_ms == 5_050 + 5_000 + 50


@pytest.mark.parametrize("every_ms", [1, 37])
def test_marks_are_bounded_and_ages_stay_about_right(every_ms):
    """A queue with constant publishes whose consumers are behind."""
    ages = Ages(0)
    count = 100_000
    for number in range(count):
        ages.mark(number * every_ms, number)
    now_ms = count * every_ms
    for position in (10, 50_000, 90_000, 99_000, 99_900, 99_999):
        age_ms = now_ms - position * every_ms
        assert age_ms <= ages.age_ms(position, now_ms) <= age_ms * 1.15 + every_ms
    assert len(ages._positions) <= MARKS_MAX
