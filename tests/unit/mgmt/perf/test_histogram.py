"""Percentiles with an error of at most 1 %; encoding and merging of histograms."""

import json
import random

import pytest

from leveret.mgmt.perf.histogram import LatencyHistogram, bucket_of, value_of


def filled(values):
    histogram = LatencyHistogram()
    for value in values:
        histogram.add(value)
    return histogram


@pytest.mark.parametrize("value", [0, 1, 63, 64, 65, 127, 128, 1000, 123_456, 86_400 * 10**6])
def test_a_value_is_known_to_a_hundredth(value):
    assert value_of(bucket_of(value)) == pytest.approx(value, rel=0.01)


def test_buckets_follow_each_other_without_gaps():
    buckets = [bucket_of(value) for value in range(5000)]
    assert sorted(set(buckets)) == list(range(max(buckets) + 1))
    assert buckets == sorted(buckets)


def test_percentiles_are_those_of_the_values():
    chance = random.Random(1)
    values = sorted(int(chance.expovariate(1 / 5000)) for _ in range(10_000))
    found = filled(values).summary()
    assert (found["min"], found["max"]) == (values[0], values[-1])
    for name, share in (("median", 0.5), ("p75", 0.75), ("p95", 0.95), ("p99", 0.99)):
        assert found[name] == pytest.approx(values[int(share * len(values)) - 1], rel=0.02)


def test_percentiles_never_leave_what_there_was():
    assert set(filled([1000, 1000]).summary().values()) == {1000.0}


def test_nothing_is_all_zeros():
    assert set(LatencyHistogram().summary().values()) == {0.0}


def test_a_histogram_survives_json_and_can_be_added():
    one, other = filled([1, 10, 100]), filled([5, 100_000])
    content = json.loads(json.dumps(other.to_json()))
    one.merge(LatencyHistogram.from_json(**content))
    assert one.total == 5
    assert one.summary() == filled([1, 10, 100, 5, 100_000]).summary()


def test_adding_nothing_changes_nothing():
    one = filled([7])
    one.merge(LatencyHistogram.from_json(**LatencyHistogram().to_json()))
    assert (one.total, one.minimum, one.maximum) == (1, 7, 7)
