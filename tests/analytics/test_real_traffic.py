"""The tables of a log of real clients at a real node contain every known fact.

real_traffic.py has the scenarios, account.py the clients' account of them. Counts must be equal;
times, which only the node knows exactly, must be between the times that the clients know.
"""

from collections import Counter

import pytest

from leveret.analytics.journey_command import main as journey
from leveret.analytics.tables.tables import TABLES
from leveret.mgmt.replay.replay_command import main as replay
from tests.analytics import expected
from tests.analytics.real_traffic import (
    ACKNOWLEDGED,
    FATES,
    HOT,
    LATE_SECONDS,
    ORDER_SIZES,
    SLOW_SECONDS,
    TTL_SECONDS,
    VHOST,
    WARM,
    run_real_traffic,
)
from tests.analytics.reference import percentile
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import read_rows

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_real_traffic(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def out(run, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tables")
    analyze_quickly(run.trace, directory)
    return directory


@pytest.fixture(scope="module")
def tables(out):
    """Returns the rows of a table."""
    found = {table.name: read_rows(out, table.name) for table in TABLES}
    return found.__getitem__


def by(rows, *names):
    """The single row for each key."""
    found = {tuple(row[name] for name in names): row for row in rows}
    assert len(found) == len(rows)
    return found


def is_between(time_us, step):
    return step.from_us <= time_us <= step.to_us


# Input


def test_every_event_is_there_and_nothing_else(tables, run):
    events = Counter(step.event for step in run.account.steps)
    assert {row.event: row.events for row in tables("summary")} == {"header": 1, **events}
    assert {row.sample for row in tables("summary")} == {1}
    for row in tables("summary"):
        steps = run.account.all(row.event)
        assert all(step.from_us <= row.last_us for step in steps), row
        assert all(step.to_us >= row.first_us for step in steps), row


@pytest.mark.parametrize(
    "table", [table for table in TABLES if table.name not in ("rejected", "trust")]
)
def test_all_of_it_is_of_the_traced_vhost_and_of_one_minute(tables, run, table):
    names = {column.name for column in table.columns}
    for row in tables(table.name):
        assert row.vhost == VHOST
        if "minute" in names:
            assert row.minute.timestamp() * 1e6 == run.minute_us


@pytest.mark.parametrize("name", ["rejected", "gaps", "anomalies"])
def test_nothing_was_lost_or_set_aside_or_can_be_unusual(tables, name):
    assert tables(name) == []


# Traffic


def test_traffic(tables, run):
    columns = ("published", "delivered", "acknowledged", "redelivered", "returned", "bytes_in",
               "bytes_out")  # fmt: skip
    found = {
        (row.kind, row.name, column): row[column]
        for row in tables("traffic")
        for column in columns
        if row[column]
    }
    assert found == expected.traffic(run.account)
    assert len(by(tables("traffic"), "kind", "name")) == len(tables("traffic"))


def test_fan_out(tables):
    found = {key: row.messages for key, row in by(tables("fan_out"), "exchange", "queues").items()}
    assert {key: found[key] for key in found if key[0]} == {
        ("orders", 0): 4, ("orders", 1): 5, ("orders", 2): 3, ("orders", 3): 2,
        ("letters", 2): 1, ("events", 1): HOT + WARM + 1,
    }  # fmt: skip


def test_unroutable(tables, run):
    shop = run.names["shop"]
    found = {
        (row.exchange, row.routing_key): (row.messages, row.returned, row.user, row.connection)
        for row in tables("unroutable")
    }
    assert found == {
        ("orders", "nowhere"): (1, 1, "shop", shop),
        ("orders", "void"): (3, 0, "shop", shop),
    }


def test_routing_keys(tables):
    rows = by(tables("routing_keys"), "exchange", "routing_key")
    count = HOT + WARM + 1
    assert {
        key: (row.messages, row.share, row.place, row.temperature)
        for (exchange, key), row in rows.items()
        if exchange == "events"
    } == {
        "hot": (HOT, HOT / count, 1, "hot"),
        "warm": (WARM, WARM / count, 2, "warm"),
        "cold": (1, 1 / count, 3, "cold"),
    }
    orders = {"one": 500, "two": 3 * 1024, "three": 2 * 1025, "void": 30, "nowhere": 10}
    assert {key: row.bytes for (name, key), row in rows.items() if name == "orders"} == orders
    assert ("letters", "to") in rows
    assert ("letters", "copy") not in rows


def test_sizes(tables):
    rows = by(tables("sizes"), "exchange", "up_to_bytes")
    small, one, two, three = 16, *(ORDER_SIZES[key] for key in ("one", "two", "three"))
    assert {
        size: (row.messages, row.bytes)
        for (exchange, size), row in rows.items()
        if exchange == "orders"
    } == {small: (4, 40), 128: (5, 5 * one), 1024: (3, 3 * two), 2048: (2, 2 * three)}
    assert (rows["", 0].messages, rows["", 8192].messages, rows["", 8192].bytes) == (3, 2, 10_000)
    assert rows["events", 1].messages == HOT + WARM + 1


def test_duplicates(tables, run):
    (twin,) = tables("duplicates")
    assert (twin.message_id, twin.messages) == ("twin", 2)
    assert (twin.queue, twin.exchanges, twin.connections) == ("twins", [""], [run.names["shop"]])
    assert twin.last_connection == run.names["shop"]
    first, last, _ = run.account.all("publish", message_id="twin")
    assert is_between(twin.first_us, first)
    assert is_between(twin.last_us, last)


def test_topology(tables, run):
    rows = by(tables("topology"), "source", "target", "dead_letters")
    assert {key: row.messages for key, row in rows.items()} == expected.topology(run.account)
    to_queue = rows["orders", "orders.a", None]
    assert (to_queue.source_kind, to_queue.target_kind) == ("exchange", "queue")
    assert to_queue.bytes == 5 * 100 + 3 * 1024 + 2 * 1025
    assert is_between(to_queue.first_us, run.account.one("publish", "order-one-0"))
    assert is_between(to_queue.last_us, run.account.one("publish", "order-three-1"))
    seconds = {row.messages / row.rate for row in tables("topology")}
    assert max(seconds) - min(seconds) < 1e-6
    assert 1 <= max(seconds) <= 60


# Connections


def test_connections(tables, run):
    rows, account = by(tables("connections"), "connection"), run.account
    rows = {label: rows[name,] for label, name in run.names.items()}
    assert len(rows) == len(tables("connections"))
    assert {label for label, row in rows.items() if row.opened_us is None} == {"early"}
    assert {label for label, row in rows.items() if row.closed_us is not None} == {"early", "guest"}
    for label, row in rows.items():
        for event, time_us in (("open", row.opened_us), ("close", row.closed_us)):
            for step in account.all(event, connection=run.names[label]):
                assert is_between(time_us, step)
    guest = rows["guest"]
    assert guest.lived_us == guest.closed_us - guest.opened_us
    assert {label: row.user for label, row in rows.items()} == {
        "early": "shop", "shop": "shop", "worker": "worker", "idler": "idler", "guest": "worker",
    }  # fmt: skip
    published = len(account.all("publish"))
    assert {label: row.published for label, row in rows.items() if row.published} == {
        "shop": published
    }
    assert (rows["idler"].delivered, rows["idler"].acknowledged, rows["idler"].channels) == (
        4,
        1,
        3,
    )


def test_connection_churn(tables):
    (churn,) = tables("connection_churn")
    # The earlier connection is one of the two that closed.
    assert (churn.opened, churn.closed, churn.open) == (4, 2, 3)


# Queues over time


def test_depth(tables, run):
    rows = by(tables("depth"), "queue")
    found = {queue: (row.ready, row.unacked, row.came, row.left) for (queue,), row in rows.items()}
    assert found == expected.depth(run.account, before={"old": 2})
    paced, idle, stuck = rows["paced",], rows["idle",], rows["stuck",]
    assert (paced.ready_max, paced.unacked_max) == (3, 3)
    assert (idle.ready_max, idle.unacked_max) == (3, 0)
    # A second can end between a publish and its delivery.
    assert stuck.ready_max <= 3
    assert stuck.unacked_max == 3


def test_latency(tables, run):
    rows = by(tables("latency"), "queue")
    measures = {"wait": expected.waits(run.account), "ack": expected.ack_times(run.account)}
    assert {queue for (queue,) in rows} == measures["wait"].keys() | measures["ack"].keys()
    for (queue,), row in rows.items():
        for measure, times in measures.items():
            least, most = times.get(queue, ([], []))
            assert row[f"{measure}s"] == len(least)
            for name, part in PERCENTILES.items():
                took = row[f"{measure}_{name}_us"]
                if not least:
                    assert took is None
                    continue
                assert percentile(least, part) <= took <= percentile(most, part), (queue, name)


def test_delays_that_clients_made_are_found(tables):
    rows = by(tables("latency"), "queue")
    assert rows["orders.b",].wait_p50_us >= LATE_SECONDS * 1e6
    assert rows["orders.a",].ack_p50_us >= SLOW_SECONDS * 1e6
    assert rows["paced",].ack_max_us < 2e6


def test_the_histogram_of_latency(tables, run):
    found = {}
    for row in sorted(tables("latency_histogram"), key=lambda row: row.up_to_us):
        found.setdefault((row.measure, row.queue), []).extend([row.up_to_us] * row.messages)
    wanted = {("wait", queue): times for queue, times in expected.waits(run.account).items()}
    wanted |= {("ack", queue): times for queue, times in expected.ack_times(run.account).items()}
    assert found.keys() == wanted.keys()
    for key, buckets in found.items():
        for bucket, least, most in zip(buckets, *wanted[key], strict=True):
            assert bucket_of(least) <= bucket <= bucket_of(most), key


def bucket_of(number):
    return 0 if number == 0 else 1 << (number - 1).bit_length()


# Consumers


def test_consumers_and_what_they_hold(tables, run):
    rows = by(tables("consumers"), "queue", "connection", "consumer_tag")
    delivered = Counter(
        (step.queue, step.connection, step.tag) for step in run.account.all("deliver")
    )
    assert {key: row.delivered for key, row in rows.items()} == delivered
    held = {}
    for hold in expected.holds(run.account):
        step = hold.deliver
        held.setdefault((step.queue, step.connection, step.tag), []).append(hold)
    for key, row in rows.items():
        check_consumer(row, held.get(key, []), run)


def check_consumer(row, holds, run):
    """Compare a consumer's row with its deliveries."""
    acked = [hold for hold in holds if hold.ended is not None and hold.ended.event == "ack"]
    assert row.acknowledged == len(acked)
    assert row.unacknowledged == sum(hold.ended is None for hold in holds)
    deliveries = run.account.all(
        "deliver", queue=row.queue, connection=row.connection, tag=row.consumer_tag
    )
    assert is_between(row.first_us, deliveries[0])
    assert is_between(row.last_delivery_us, deliveries[-1])
    assert (row.user, row.channel) == (deliveries[0].user, deliveries[0].channel)
    if acked:
        assert is_between(row.last_ack_us, acked[-1].ended)
        least, most = expected.in_order(expected.between(*hold) for hold in acked)
        assert percentile(least, 0.5) <= row.ack_p50_us <= percentile(most, 0.5)
        assert percentile(least, 0.99) <= row.ack_p99_us <= percentile(most, 0.99)
    else:
        assert (row.last_ack_us, row.ack_p50_us, row.rate) == (None, None, 0)
    if all(hold.ended for hold in holds):
        spans = [expected.between(*hold) for hold in holds]
        assert sum(least for least, _ in spans) <= row.unacked_us <= sum(most for _, most in spans)


def test_a_consumer_that_never_acknowledges_holds_messages_to_the_end(tables):
    (stuck,) = [row for row in tables("consumers") if row.queue == "stuck"]
    end_us = max(row.last_us for row in tables("summary"))
    assert stuck.unacknowledged == 3
    assert (
        3 * (end_us - stuck.last_delivery_us) <= stuck.unacked_us <= 3 * (end_us - stuck.first_us)
    )


def test_consumers_are_ranked(tables):
    rows = by([row for row in tables("consumers") if row.queue == "shared"], "consumer_tag")
    swift, sluggish = rows["swift",], rows["sluggish",]
    assert (swift.place_by_speed, sluggish.place_by_speed) == (1, 2)
    assert (swift.place_by_unacked, sluggish.place_by_unacked) == (2, 1)
    seconds = (sluggish.last_ack_us - sluggish.first_us) / 1e6
    assert sluggish.rate == pytest.approx(1 / seconds)


# Fates of messages


def test_outcomes(tables):
    fates = Counter((queue, fate) for (_, queue), (fate, _, _) in FATES.items())
    fates["twins", "never_delivered"] += 2
    fates.update({(queue, "acknowledged"): count for queue, count in ACKNOWLEDGED.items()})
    assert {
        key: row.messages for key, row in by(tables("outcomes"), "queue", "fate").items()
    } == fates


def test_fates(tables):
    rows = by([row for row in tables("fates") if row.queue != "twins"], "message_id", "queue")
    assert {key: (row.fate, row.reason, row.deliveries) for key, row in rows.items()} == FATES


def test_fates_tell_where_messages_came_from(tables, run):
    came, ids = expected.arrivals(run.account), {"chain-3": "c-3"}
    ids |= {f"stuck-{number}": "why" for number in range(3)}
    for row in tables("fates"):
        arrival = came[row.message_id, row.queue]
        assert (row.exchange, row.routing_keys[0]) == (arrival.exchange, arrival.key)
        is_letter = arrival.event == "dead_letter"
        assert row.connection == (None if is_letter else run.names["shop"])
        assert row.correlation_id == ids.get(row.message_id)


def test_fates_tell_when_it_happened(tables, run):
    for row in tables("fates"):
        if row.queue == "twins":
            continue
        key = row.message_id, row.queue
        assert is_between(row.came_us, expected.arrivals(run.account)[key]), key
        if row.deliveries:
            assert is_between(row.delivered_us, run.account.one("deliver", *key)), key
        else:
            assert row.delivered_us is None
        ends = ends_of(run.account, row)
        assert any(is_between(row.ended_us, end) for end in ends) if ends else not row.ended_us, key


def ends_of(account, row):
    """The steps one of which ended a message."""
    if row.fate == "dropped":
        return account.all("drop", queue=row.queue, reason=row.reason)
    event = {"expired": "expire", "rejected": "reject", "dead_lettered": "dead_letter"}
    if row.fate in event:
        return [account.one(event[row.fate], row.message_id, row.queue)]
    return []


def test_poison_and_redeliveries(tables, run):
    (poison,) = tables("poison")
    assert (poison.message_id, poison.queue, poison.deliveries) == ("crash-7", "crash", 7)
    assert (poison.fate, poison.exchange, poison.routing_keys) == ("acknowledged", "", ["crash"])
    deliveries = run.account.all("deliver", message_id="crash-7")
    assert is_between(poison.first_us, deliveries[0])
    assert is_between(poison.last_us, deliveries[-1])
    found = {
        row.queue: (row.delivered, row.redelivered, row.rejected, row.requeued)
        for row in tables("redeliveries")
    }
    assert found == {
        "refused": (2, 1, 1, 0), "crash": (12, 10, 10, 0), "unsafe": (4, 2, 0, 2),
        "recovered": (2, 1, 0, 1), "doomed": (2, 0, 1, 0), "fleeting": (1, 0, 0, 1),
    }  # fmt: skip


def test_dead_letters(tables, run):
    ids = {row.message: row.message_id for row in tables("fates")}
    found = {}
    for row in tables("dead_letters"):
        hop = row.queue, row.reason, row.exchange, row.routing_keys, row.queues
        found[ids[row.message], row.hop] = hop
        assert ids[row.first_message] == ids[row.message]
        assert ids.get(row.new_message, ids[row.message]) == ids[row.message]
        assert is_between(row.time_us, run.account.one("dead_letter", ids[row.message], row.queue))
    assert found == {
        ("chain-3", 1): ("work", "rejected", "retry", ["work"], ["wait"]),
        ("chain-3", 2): ("wait", "expired", "again", ["work"], ["work.again"]),
        ("chain-3", 3): ("work.again", "rejected", "dead", ["work"], ["audit", "graves"]),
        ("chain-2", 1): ("wait", "expired", "again", ["wait"], ["work.again"]),
        ("chain-2", 2): ("work.again", "rejected", "dead", ["wait"], ["audit", "graves"]),
        ("chain-lost", 1): ("odd", "rejected", "void", ["odd"], []),
        ("spilt", 1): ("short.dlx", "maxlen", "", ["overflow"], ["overflow"]),
    }


def test_paths_of_dead_letters(tables):
    ids = {row.message: row.message_id for row in tables("fates")}
    rows = {ids[row.first_message]: row for row in tables("dead_letter_paths")}
    assert {name: (row.hops, row.words) for name, row in rows.items()} == {
        "chain-3": (
            3,
            "published to work (rejected, by retry), from there to wait (expired, by again), from"
            " there to work.again (rejected, by dead), at last to audit and graves",
        ),
        "chain-2": (
            2,
            "published to wait (expired, by again), from there to work.again (rejected, by dead),"
            " at last to audit and graves",
        ),
        "chain-lost": (1, "published to odd (rejected, by void) and lost: no queue took it"),
        "spilt": (1, "published to short.dlx (maxlen), at last to overflow"),
    }
    first, second, _ = rows["chain-3"].path
    assert (first.message, second.reason) == (rows["chain-3"].first_message, "expired")
    # A queue's clock counts milliseconds, and a trace's clock microseconds.
    assert second.time_us - first.time_us >= TTL_SECONDS * 1e6 - 1000
    assert len(rows) == len(tables("dead_letter_paths"))


# The same log in other tools


def test_the_journey_of_a_message_that_died_three_times(run, capsys):
    assert journey([str(run.trace), "--message-id", "chain-3", "--processes", "1"]) == 0
    told = capsys.readouterr().out
    hops = [
        "published to the default exchange with routing key work, 10 bytes; routed to queue work",
        "queue work: delivered to basic.get",
        "queue work: rejected without requeue",
        "queue work: dead-lettered (it was rejected) to exchange retry with routing key work",
        "queue wait: dead-lettered (it had expired) to exchange again with routing key work",
        "queue work.again: rejected without requeue",
        "queue work.again: dead-lettered (it was rejected) to exchange dead with routing key work;"
        " routed to queues audit and graves",
        "queue audit: no end is known; it is still ready",
        "queue graves: no end is known; it is still ready",
    ]
    places = [told.find(hop) for hop in hops]
    assert -1 not in places, told
    assert places == sorted(places), told
    assert "chain-2" not in told


def test_the_report_says_what_went_wrong(out):
    text = (out / "report.html").read_text()
    for sentence in (
        " of queue crash was delivered ",
        "dead-lettered to exchange void, because consumers rejected them, and lost",
        "Exchange orders: 3 messages with routing key void had no queue",
        " published 1 message-id to queue twins again, ",
    ):
        assert sentence in text


def test_all_of_it_could_be_replayed(run, capsys):
    assert replay([str(run.trace), "--dry-run"]) == 0
    assert f"{len(run.account.all('publish'))} messages" in capsys.readouterr().out
