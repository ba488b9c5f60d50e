"""The tables of a trace with known facts."""

from functools import partial

import pytest

from tests.analytics.known_trace import at
from tests.analytics.logs import SECOND_US
from tests.analytics.tables import read_rows


@pytest.fixture(scope="module")
def tables(known_tables):
    return partial(read_rows, known_tables)


def test_fates(tables):
    found = {(row.message, row.queue): (row.fate, row.reason) for row in tables("fates")}
    assert found == {
        (2, "b"): ("never_acknowledged", None),
        (3, "retry"): ("dead_lettered", "expired"),
        (4, "a"): ("dead_lettered", "rejected"),
        (5, "graveyard"): ("never_delivered", None),
        (7, "purged"): ("dropped", "purge"),
        (8, "short"): ("dropped", "maxlen"),
        (9, "idle"): ("never_delivered", None),
        (10, "b"): ("never_acknowledged", None),
    }


def test_a_dead_letter_keeps_the_properties_of_its_message(tables):
    (letter,) = [row for row in tables("fates") if row.message == 5]
    assert (letter.correlation_id, letter.exchange) == ("c3", "dlx")


def test_the_path_of_a_dead_letter(tables):
    (path,) = tables("dead_letter_paths")
    assert (path.first_message, path.last_message, path.hops) == (3, 5, 2)
    assert [(hop.queue, hop.reason) for hop in path.path] == [
        ("retry", "expired"),
        ("a", "rejected"),
    ]
    assert path.words == (
        "published to retry (expired), from there to a (rejected, by dlx), at last to graveyard"
    )
    assert [row.hop for row in sorted(tables("dead_letters"), key=lambda row: row.hop)] == [1, 2]


def test_poison(tables):
    (poison,) = tables("poison")
    assert (poison.message, poison.queue, poison.deliveries) == (10, "b", 7)
    assert sum(row.redelivered for row in tables("redeliveries")) == 6


def test_unroutable_duplicates_gaps(tables):
    (nowhere,) = tables("unroutable")
    assert (nowhere.routing_key, nowhere.messages, nowhere.returned) == ("nowhere", 1, 1)
    (twin,) = tables("duplicates")
    assert (twin.message_id, twin.messages, twin.first_us) == ("twin", 2, at(1))
    (gap,) = tables("gaps")
    assert (gap.time_us, gap.until_us, gap.lost) == (at(13), at(14), 77)


def test_consumers_are_ranked(tables):
    found = {(row.queue, row.connection): row for row in tables("consumers")}
    quick, slow = found["a", "of quick"], found["a", "of slow"]
    assert (quick.place_by_speed, slow.place_by_speed) == (1, 2)
    assert (quick.place_by_unacked, slow.place_by_unacked) == (2, 1)
    assert (quick.unacked_us, slow.unacked_us) == (250_000, 11 * SECOND_US)
    assert found["b", "of stuck"].unacknowledged == 1
    assert found["b", "of crashing"].unacked_us == 7 * 500_000
    assert found["b", "of crashing"].delivered == 7


def test_fan_out_sizes_and_churn(tables):
    fan_out = {row.queues: row.messages for row in tables("fan_out") if row.exchange == "orders"}
    assert fan_out == {0: 1, 1: 6, 2: 1}
    sizes = {row.up_to_bytes: row.messages for row in tables("sizes") if row.exchange == "orders"}
    assert sizes == {16: 7, 1024: 1}
    (churn,) = tables("connection_churn")
    assert (churn.opened, churn.closed, churn.open) == (1, 1, 0)
    (producer,) = [row for row in tables("connections") if row.connection == "producer"]
    assert (producer.lived_us, producer.published) == (40 * SECOND_US, 8)


def test_topology(tables):
    edges = {(row.source, row.target, row.dead_letters): row.messages for row in tables("topology")}
    assert edges["orders", "a", None] == 2
    assert edges["guest", "orders", None] == 8
    assert edges["a", "dlx", "rejected"] == 1
    assert edges["dlx", "graveyard", "rejected"] == 1
    assert edges["b", "crashing on of crashing", None] == 7


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
