"""Tables by routing key stay small, however many keys publishers use."""

import pytest

from leveret.analytics.tables.key_tables import NAMED_MAX
from tests.analytics.logs import START_US, event, write_log
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import read_rows

RARE = 2 * NAMED_MAX
OFTEN = 5
"""Messages with the key that is used often."""


def records():
    """One key that is used often, and many that are used once; few messages are unroutable."""
    keys = ["often"] * OFTEN + [f"rare {number:05}" for number in range(RARE)]
    for number, key in enumerate(keys, 1):
        at, where = START_US + number, {"exchange": "orders", "routing_keys": [key]}
        queues = [] if number % 2 else ["q"]
        yield event("publish", at, message=number, queues=queues, body_size=3, **where)
        if queues:
            yield event("deliver", at + 1, message=number, body_size=3, **where)
    refused = {"exchange": "orders", "routing_keys": ["often"], "reason": "duplicate"}
    yield event("publish", START_US, message=len(keys) + 1, queues=[], body_size=3, **refused)
    yield event("return", START_US, message=len(keys) + 1, **refused)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    directory = tmp_path_factory.mktemp("keys")
    write_log(directory / "trace", records())
    analyze_quickly(directory / "trace", directory / "out")
    return directory / "out"


def test_the_keys_that_are_used_most_are_named(out):
    rows = {row.routing_key: row for row in read_rows(out, "routing_keys")}
    assert len(rows) == NAMED_MAX + 1
    assert (rows["often"].messages, rows["often"].place) == (OFTEN + 1, 1)
    assert rows["often"].temperature == "warm"
    others = rows[None]
    assert others.messages == RARE - (NAMED_MAX - 1)
    assert (others.bytes, others.place, others.temperature) == (3 * others.messages, None, None)
    assert sum(row.share for row in rows.values()) == pytest.approx(1)


@pytest.mark.parametrize(("table", "column"), [("traffic", "name"), ("unroutable", "routing_key")])
def test_the_others_are_one_row(out, table, column):
    rows = [row for row in read_rows(out, table) if row.get("kind", "routing_key") == "routing_key"]
    assert len(rows) <= NAMED_MAX + 1
    assert len([row for row in rows if row[column] is None]) == 1


def test_nothing_is_lost(out):
    traffic = [row for row in read_rows(out, "traffic") if row.kind == "routing_key"]
    assert sum(row.published for row in traffic) == OFTEN + RARE + 1
    assert sum(row.delivered for row in traffic) == (OFTEN + RARE) // 2
    unroutable = read_rows(out, "unroutable")
    assert sum(row.messages for row in unroutable) == -(-(OFTEN + RARE) // 2)
    assert sum(row.returned for row in unroutable) == 0, "a duplicate that was refused is not lost"
