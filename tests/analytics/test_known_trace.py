"""Facts of a written trace that the traffic of a real node (test_real_traffic.py) does not have."""

from functools import partial

import pytest

from tests.analytics.known_trace import at
from tests.analytics.logs import SECOND_US
from tests.analytics.tables import read_rows


@pytest.fixture(scope="module")
def tables(known_tables):
    return partial(read_rows, known_tables)


def test_gaps(tables):
    (gap,) = tables("gaps")
    assert (gap.time_us, gap.until_us, gap.lost) == (at(13), at(14), 77)


def test_the_time_that_messages_were_unacknowledged(tables):
    found = {(row.queue, row.connection): row for row in tables("consumers")}
    quick, slow = found["a", "of quick"], found["a", "of slow"]
    assert (quick.unacked_us, slow.unacked_us) == (250_000, 11 * SECOND_US)
    assert found["b", "of stuck"].unacknowledged == 1
    assert found["b", "of crashing"].unacked_us == 7 * 500_000
    assert found["b", "of crashing"].delivered == 7


def test_the_anomaly_is_found_and_nothing_else(tables):
    found = tables("anomalies")
    assert {(row.name, row.measure, row.value) for row in found if row.name == "steady"} == {
        ("steady", "published", 100.0),
        ("steady", "delivered", 100.0),
    }
    reason = next(row.reason for row in found if row.kind == "queue" and row.measure == "published")
    assert reason == (
        "queue steady: messages published a minute rose to 100 at 2026-01-05 08:17; usual on"
        " Mondays from 8 to 9 is 10"
    )
