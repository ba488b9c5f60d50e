"""Ages, and the filters of consumers of streams."""

import pytest

from leveret.broker.queues.contract.stream_arguments import (
    AGE_MS_MAX,
    ALL_MESSAGES,
    StreamFilter,
    age_ms,
    read_filter,
)


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [("6s", 6000), ("5m", 300_000), ("4h", 14_400_000), ("3D", 259_200_000), ("0s", 0)],
)
def test_an_age_is_a_number_and_a_unit(text, time_ms):
    assert age_ms(text) == time_ms


def test_an_age_may_be_very_long():
    assert age_ms("9" * 100_000 + "Y") == AGE_MS_MAX


@pytest.mark.parametrize("text", ["", "D", "-1D", "1.5h", "1 D", "1d", "1H", "60", "1D1h", "٣D"])
def test_everything_else_is_no_age(text):
    assert age_ms(text) is None


def test_a_consumer_names_one_value_or_several():
    assert read_filter({"x-stream-filter": ("S", "a")}) == StreamFilter((b"a",), False)
    several = {
        "x-stream-filter": ("A", [("S", "a"), ("I", 1), ("S", "b")]),
        "x-stream-match-unfiltered": ("t", True),
    }
    assert read_filter(several) == StreamFilter((b"a", b"b"), True)


def test_a_consumer_without_a_filter_wants_everything():
    assert read_filter({"x-stream-match-unfiltered": ("t", True)}) == ALL_MESSAGES
