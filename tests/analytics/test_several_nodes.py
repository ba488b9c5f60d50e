"""The logs of several nodes of a cluster are read as one: a message's journey crosses nodes.

Messages are published on node a to queues of node b, and delivered on node c.
"""

import pytest

from leveret.analytics.journey_command import main
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import read_rows
from tests.analytics.trace_log import FIRST, HOUR, SECOND, START_US, TraceLog

A, B, C = "leveret@a", "leveret@b", "leveret@c"
ACKED, LOST, REJECTED, LETTER = FIRST + 1, FIRST + 2, FIRST + 3, (7 << 16) + FIRST
ORDER = {"message_id": "order-1"}


def write(directory, *, behind_us=0):
    """Write a directory for each node. behind_us: by how much c's clock is behind that of a."""
    a, b, c = (TraceLog(node=node) for node in (A, B, C))
    a.publish(0, ACKED, ["orders"], properties=ORDER)
    c.deliver(2_000 - behind_us, ACKED, "orders", properties=ORDER)
    c.ack(5_000 - behind_us, ACKED, "orders")
    a.publish(10_000, LOST, ["orders"])
    b.add("expire", 20_000, message=LOST, queue="orders")
    a.publish(30_000, REJECTED, ["orders"])
    c.deliver(32_000 - behind_us, REJECTED, "orders")
    c.reject(40_000 - behind_us, REJECTED, "orders")
    b.dead_letter(39_000, REJECTED, "orders", "rejected", LETTER, ["dead"])
    a.deliver(50_000, LETTER, "dead", exchange="dlx")
    a.ack(60_000, LETTER, "dead")
    for log in (a, b, c):
        log.write(directory / log.node)
    return directory


@pytest.fixture
def asked(tmp_path, capsys):
    def ask(*arguments):
        status = main([str(tmp_path), "--processes", "1", *map(str, arguments)])
        return status, capsys.readouterr().out

    return ask


@pytest.mark.parametrize("behind_us", [0, SECOND])
def test_a_journey_has_the_events_of_all_nodes(tmp_path, asked, behind_us):
    write(tmp_path, behind_us=behind_us)
    status, told = asked(ACKED)
    assert status == 0
    assert f"Message {ACKED} (message-id order-1), vhost /, {A}" in told
    for words in (f"on {A}", "queue orders: delivered to consumer", f"on {C}"):
        assert words in told
    assert "The end: acknowledged in queue orders." in told
    assert told.count("Message ") == 1


@pytest.mark.parametrize("behind_us", [0, SECOND])
def test_a_dead_letter_is_followed_to_another_node(tmp_path, asked, behind_us):
    write(tmp_path, behind_us=behind_us)
    status, told = asked(LETTER)
    assert status == 0
    assert f"Message {REJECTED}, vhost /, {A}" in told
    assert "The end: dead-lettered in queue orders." in told
    assert f"Message {LETTER}, vhost /, {A}" in told or f"Message {LETTER}, vhost /, {B}" in told
    assert "The end: acknowledged in queue dead." in told


def test_a_message_of_a_node_that_has_run_for_longer_is_found(tmp_path, asked):
    old, young = TraceLog(node=A), TraceLog(node=B)
    early, late = FIRST + 5, ((START_US + 2 * HOUR) // SECOND) << 32
    for hour in range(4):
        old.publish(hour * HOUR, early + hour, ["q"])
    for hour in range(2, 4):
        young.publish(hour * HOUR, late + hour, ["q"])
    young.deliver(3 * HOUR + 1, early, "q", no_ack=True)
    young.deliver(3 * HOUR + 2, late + 3, "q", no_ack=True)
    for log in (old, young):
        log.write(tmp_path / log.node)
    for number in (early, late + 3):
        assert "The end: delivered as no-ack in queue q." in asked(number)[1]


@pytest.mark.parametrize("behind_us", [0, SECOND])
def test_tables_of_several_nodes(tmp_path, behind_us):
    out = tmp_path / "out"
    analyze_quickly(write(tmp_path / "trace", behind_us=behind_us), out)
    fates = {row.message: row for row in read_rows(out, "fates")}
    assert {number: row.fate for number, row in fates.items()} == {
        LOST: "expired", REJECTED: "dead_lettered",
    }  # fmt: skip
    assert {row.node for row in fates.values()} == {A}
    (latency,) = [row for row in read_rows(out, "latency") if row.queue == "orders" and row.waits]
    assert (latency.waits, latency.acks) == (2, 1)
    assert latency.wait_max_us == (0 if behind_us else 2_000)
    (letter,) = read_rows(out, "dead_letters")
    assert (letter.first_message, letter.new_message, letter.node) == (REJECTED, LETTER, B)
    (outcome,) = [row for row in read_rows(out, "outcomes") if row.queue == "dead"]
    assert (outcome.fate, outcome.messages) == ("acknowledged", 1)
    assert {row.node for row in read_rows(out, "summary")} == {A, B, C}
