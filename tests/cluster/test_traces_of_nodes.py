"""Trace logs of two running nodes: what each of them logs, and the result of the analysis."""

import shutil

import pika

from leveret.analytics.journey_command import main as journey
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import read_rows
from tests.cluster.clients import take


def dead_letters_to(queue):
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


def trade(nodes):
    """Publish on a to queues of b; b's client takes one message, and a's the dead letter."""
    a, b = (node.connect().channel() for node in nodes)
    b.queue_declare("orders", durable=True, arguments=dead_letters_to("dead"))
    a.queue_declare("dead")
    a.confirm_delivery()
    for name in ("kept", "refused"):
        a.basic_publish("", "orders", b"x", pika.BasicProperties(message_id=name))
    for settle in (b.basic_ack, lambda tag: b.basic_reject(tag, requeue=False)):
        method, _, _ = b.basic_get("orders")
        settle(method.delivery_tag)
    assert take(a, "dead", 1) == [(b"x", False)]
    a.queue_declare("dead", passive=True)
    b.queue_declare("orders", passive=True)


def test_a_message_is_followed_through_the_logs_of_two_nodes(nodes, tmp_path, capsys):
    a, b = nodes
    a.ctl("trace_log_on")
    assert "log" in b.ctl("list_trace_logs")
    trade(nodes)
    b.ctl("trace_log_off")
    assert "log" not in a.ctl("list_trace_logs", "--no-table-headers")
    logs = tmp_path / "logs"
    for node in nodes:
        written = node.data_dir / "trace"
        node.wait_until(
            lambda written=written: {file.suffix for file in written.rglob("*.*")} == {".gz"},
            "its log is complete",
        )
        shutil.copytree(written, logs / node.name)
    assert journey([str(logs), "--processes", "1", "--message-id", "refused"]) == 0
    told = capsys.readouterr().out
    places = [told.index(words) for words in (
        "published to the default exchange", f"channel 1), on {a.name}",
        "queue orders: delivered to basic.get", f"on {b.name}", "rejected without requeue",
        "dead-lettered (it was rejected)", "The end: dead-lettered in queue orders.",
        "came as a dead letter", "queue dead: delivered", "The end: acknowledged in queue dead.",
    )]  # fmt: skip
    assert places == sorted(places)
    out = tmp_path / "out"
    analyze_quickly(logs, out)
    (fate,) = read_rows(out, "fates")
    assert (fate.queue, fate.fate, fate.message_id) == ("orders", "dead_lettered", "refused")
    assert fate.node == a.name
    outcomes = {(row.queue, row.fate): row.messages for row in read_rows(out, "outcomes")}
    assert outcomes == {
        ("orders", "acknowledged"): 1, ("orders", "dead_lettered"): 1, ("dead", "acknowledged"): 1,
    }  # fmt: skip


def test_a_node_that_joins_or_starts_again_continues_the_log(nodes):
    a, b = nodes
    a.ctl("trace_log_on")
    b.stop()
    b.start()
    assert "log" in b.ctl("list_trace_logs", "--no-table-headers")
