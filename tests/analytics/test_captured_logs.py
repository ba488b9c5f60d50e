"""Logs that RabbitMQ's own tracing plugin has written, text and JSON, are read completely.

The logs are in captured/, with the code of their traffic. Each log is of a vhost of its own. The
plugin does not record acknowledgements, so delivered messages count as acknowledged.
"""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.analytics.captured import capture
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import read_rows

DIRECTORY = Path(capture.__file__).parent
TABLES = ("traffic", "fan_out", "unroutable", "routing_keys", "outcomes", "latency", "sizes",
          "connections", "duplicates", "rejected")  # fmt: skip
ODD = capture.ODD_QUEUE


class Published:
    """A channel that records what is published."""

    def __init__(self):
        self.messages = []

    def basic_publish(self, exchange, key, body, properties, mandatory):
        self.messages.append((exchange, key, len(body)))


@pytest.fixture(scope="module")
def published():
    """Exchange, routing key and size of each message."""
    channel = Published()
    capture.publish(channel)
    return channel.messages


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """All tables, by name."""
    trace, out = (tmp_path_factory.mktemp(name) for name in ("captured", "tables"))
    for path in DIRECTORY.glob("*.log"):
        shutil.copy(path, trace)
    outcome = analyze_quickly(trace, out, only=TABLES)
    tables = {name: read_rows(out, name) for name in TABLES}
    return {"outcome": outcome, **tables}


@pytest.fixture(params=["text", "json"])
def rows(request, found):
    """Returns the rows of a table that belong to one log."""
    return lambda table: [row for row in found[table] if row.vhost == request.param]


def test_nothing_is_set_aside(found):
    assert found["rejected"] == []
    assert (found["outcome"].events, found["outcome"].files) == (2 * 34, 2)


def test_traffic_of_queues(rows):
    queues = {row.name: row for row in rows("traffic") if row.kind == "queue"}
    assert {name: (row.published, row.delivered) for name, row in queues.items()} == {
        "orders": (11, 11), "audit": (2, 2), "letters.to": (2, 3), "letters.cc": (1, 1),
        "letters.bcc": (1, 0), ODD: (1, 1),
    }  # fmt: skip


def test_bytes_are_those_of_the_bodies(rows, published):
    expected = Counter()
    for exchange, _, size in published:
        expected[exchange] += size
    found = {row.name: row.bytes_in for row in rows("traffic") if row.kind == "exchange"}
    assert found == expected
    delivered = {row.name: row.bytes_out for row in rows("traffic") if row.kind == "queue"}
    went_to_orders = [size for _, key, size in published if key.startswith("order")]
    assert delivered["orders"] == sum(went_to_orders)


def test_sizes(rows, published):
    assert sum(row.messages for row in rows("sizes")) == len(published)
    assert sum(row.bytes for row in rows("sizes")) == sum(size for _, _, size in published)
    (empty,) = [row for row in rows("sizes") if row.up_to_bytes == 0]
    assert (empty.exchange, empty.messages) == ("orders", 1)


def test_fan_out_and_what_went_nowhere(rows):
    assert {(row.exchange, row.queues): row.messages for row in rows("fan_out")} == {
        ("orders", 0): 2, ("orders", 1): 7, ("orders", 2): 2, ("letters", 3): 1, ("", 1): 4,
    }  # fmt: skip
    (nowhere,) = rows("unroutable")
    assert (nowhere.exchange, nowhere.routing_key, nowhere.messages) == ("orders", "nowhere", 2)
    assert nowhere.user == "guest"


def test_routing_keys(rows, published):
    assert {(row.exchange, row.routing_key): row.messages for row in rows("routing_keys")} == (
        Counter((exchange, key) for exchange, key, _ in published)
    )


def test_messages_with_an_id_are_followed(rows):
    assert {(row.queue, row.fate): row.messages for row in rows("outcomes")} == {
        ("orders", "acknowledged"): 9, ("audit", "acknowledged"): 2,
        ("letters.to", "acknowledged"): 2, ("letters.cc", "acknowledged"): 1,
        ("letters.bcc", "never_delivered"): 1, (ODD, "acknowledged"): 1,
    }  # fmt: skip
    waits = {row.queue: (row.waits, row.wait_max_us) for row in rows("latency")}
    assert {queue: count for queue, (count, _) in waits.items()} == {
        "orders": 9, "audit": 2, "letters.to": 2, "letters.cc": 1, ODD: 1,
    }  # fmt: skip
    assert all(0 <= longest < 1_000_000 for _, longest in waits.values())
    assert rows("duplicates") == []


def test_connections(rows):
    assert sorted((row.user, row.published, row.delivered) for row in rows("connections")) == [
        ("guest", 0, 18),
        ("guest", 16, 0),
    ]
