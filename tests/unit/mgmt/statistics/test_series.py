"""Series of samples: rates, regular intervals, and retention."""

from itertools import pairwise

import pytest

from leveret.mgmt.statistics.series import BASIC, SampleWindow, Series, SeriesRetention, SeriesSum

SECOND = 1000
START = 1_700_000_000 * SECOND


def filled(values, step_s=5, retention=BASIC):
    """Return a series with one column, sampled at regular times from START."""
    series = Series(retention)
    for number, value in enumerate(values):
        series.add(START + number * step_s * SECOND, (value,))
    return series


def test_the_rate_is_that_of_the_last_interval():
    series = filled([0, 100, 150])
    assert series.rate(0, START + 10 * SECOND) == 10
    assert series.details(0, START + 10 * SECOND) == {"rate": 10.0}


def test_nothing_has_no_rate():
    assert Series().rate(0, START) == 0
    assert filled([7]).rate(0, START) == 0
    assert Series().last is None


def test_the_rate_is_over_when_the_numbers_stand_still():
    series = filled([0, 100, 100, 100, 100])
    assert series.rate(0, START + 5 * SECOND) == 20
    assert series.rate(0, START + 20 * SECOND) == 0


def test_a_rate_after_a_pause_is_that_of_the_interval_and_not_of_the_pause():
    series = filled([0] * 20 + [50])
    assert series.rate(0, START + 100 * SECOND) == 10


def test_rows_that_say_nothing_new_are_not_kept():
    series = filled([1] * 100)
    assert len(series._levels[0][0]) == 1
    assert series.changed_ms == START


def test_samples_come_at_regular_times_the_newest_first():
    series = filled([0, 10, 20, 30])
    samples = series.samples(0, START + 15 * SECOND, SampleWindow(15, 5))
    assert [sample["sample"] for sample in samples] == [30, 20, 10, 0]
    assert [sample["timestamp"] for sample in samples] == [
        START + seconds * SECOND for seconds in (15, 10, 5, 0)
    ]


def test_before_the_first_sample_there_was_nothing():
    samples = filled([5]).samples(0, START + 5 * SECOND, SampleWindow(15, 5))
    assert [sample["sample"] for sample in samples] == [5, 5, 0, 0]


def test_averages_are_those_of_the_window():
    details = filled([0, 10, 20, 30]).details(0, START + 15 * SECOND, SampleWindow(15, 5))
    assert details["avg_rate"] == 2
    assert details["avg"] == 15


def test_samples_older_than_the_window_are_forgotten_except_for_one():
    series = filled(range(1000), retention=(SeriesRetention(60, 5),))
    times, rows = series._levels[0]
    now = START + 999 * 5 * SECOND
    assert times[0] <= now - 60 * SECOND < times[1]
    assert len(rows) <= 14
    samples = series.samples(0, now, SampleWindow(60, 5))
    assert samples[-1]["sample"] == 999 - 12


def test_long_windows_are_answered_from_coarser_samples():
    series = filled(range(0, 2000))
    now = START + 1999 * 5 * SECOND
    samples = series.samples(0, now, SampleWindow(3600, 60))
    assert len(samples) == 61
    steps = {one["sample"] - two["sample"] for one, two in pairwise(samples)}
    assert steps == {12}


def test_a_sum_of_series_has_the_sums_of_their_numbers():
    one, other = Series(), Series()
    for time_ms, number in ((5_000, 1), (10_000, 11)):
        one.add(time_ms, (number, 0))
        other.add(time_ms, (10 * number, 7))
    both = SeriesSum([one, other, Series()])
    assert both.last == (121, 7)
    details = both.details(0, 10_000, SampleWindow(10, 5))
    assert details["rate"] == 22.0
    assert [sample["sample"] for sample in details["samples"]] == [121, 11, 0]
    assert SeriesSum([]).last is None
    assert SeriesSum([]).details(0, 10_000, SampleWindow(10, 5)) == {"rate": 0, "samples": []}


@pytest.mark.parametrize(
    ("row", "is_of_another"),
    [((5, 3, 9), False), ((6, 4, 0), False), ((4, 3, 9), True), ((5, 2, 9), True)],
)
def test_counters_that_are_lower_are_those_of_another_object(row, is_of_another):
    series = Series()
    assert not series.is_of_another(row, 2)
    series.add(5_000, (5, 3, 9))
    assert series.is_of_another(row, 2) == is_of_another
