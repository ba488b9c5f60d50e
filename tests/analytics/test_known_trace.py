"""A trace of which every fact is known, and the tables that tell them."""

import pytest

from analytics.job import Options, analyze
from analytics.output import read_table
from tests.analytics.logs import MINUTE_US, SECOND_US, START_US, event, write_log

pytestmark = pytest.mark.timeout(240)


def at(seconds):
    return START_US + int(seconds * SECOND_US)


def delivered(seconds, message, queue, consumer="ctag", **more):
    return event(
        "deliver", at(seconds), message=message, queue=queue, consumer_tag=consumer,
        connection=f"of {consumer}", **more,
    )  # fmt: skip


def published(seconds, message, queues, **more):
    fields = {"exchange": "orders", "connection": "producer", **more}
    return event("publish", at(seconds), message=message, queues=queues, **fields)


def records():
    found = [
        event("open", at(0), connection="producer"),
        # 1: quick. 2: to two queues, acknowledged slowly by one, never by the other.
        published(1, 1, ["a"], properties={"message_id": "twin"}),
        delivered(1.5, 1, "a", "quick"),
        event("ack", at(1.75), message=1, queue="a", connection="of quick"),
        published(2, 2, ["a", "b"], properties={"message_id": "twin"}, body_size=1024),
        delivered(2.25, 2, "a", "slow"),
        event("ack", at(12.25), message=2, queue="a", connection="of slow"),
        delivered(3, 2, "b", "stuck"),
        # 3: expires, comes back by way of a retry queue, is rejected at last.
        published(4, 3, ["retry"], properties={"correlation_id": "c3"}),
        event("expire", at(5), message=3, queue="retry"),
        event("dead_letter", at(5), message=3, queue="retry", reason="expired", new_message=4,
              exchange="", routing_keys=["a"], queues=["a"]),
        delivered(6, 4, "a", "slow"),
        event("reject", at(7), message=4, queue="a", connection="of slow"),
        event("dead_letter", at(7), message=4, queue="a", reason="rejected", new_message=5,
              exchange="dlx", routing_keys=["dead"], queues=["graveyard"]),
        # 6: nowhere. 7: purged. 8: dropped. 9: never delivered.
        published(8, 6, [], routing_keys=["nowhere"]),
        event("return", at(8), message=6, exchange="orders", routing_keys=["nowhere"]),
        published(9, 7, ["purged"]),
        event("drop", at(10), queue="purged", reason="purge", count=1),
        published(11, 8, ["short"]),
        event("drop", at(11), message=8, queue="short", reason="maxlen"),
        published(12, 9, ["idle"]),
        event("gap", at(13), until_us=at(14), lost=77),
    ]  # fmt: skip
    # 10: delivered seven times.
    found.append(published(20, 10, ["b"]))
    for turn in range(7):
        found.append(delivered(21 + turn, 10, "b", "crashing", redelivered=turn > 0))
        found.append(event("requeue", at(21.5 + turn), message=10, queue="b"))
    found.append(event("close", at(40), connection="producer"))
    # Half an hour of steady traffic, with one minute that is not.
    number = 100
    for minute in range(1, 31):
        for _ in range(100 if minute == 17 else 10):
            number += 1
            time_us = START_US + minute * MINUTE_US + number
            found.append(event("publish", time_us, message=number, exchange="steady",
                               queues=["steady"]))  # fmt: skip
            found.append(event("deliver", time_us + 1, message=number, exchange="steady",
                               queue="steady", no_ack=True))  # fmt: skip
    return found


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    directory = tmp_path_factory.mktemp("known")
    write_log(directory / "trace", records())
    out = str(directory / "out")
    analyze(spark, Options(str(directory / "trace"), out))
    return lambda name: read_table(spark, out, name).collect()


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
