"""Counts from a sampled log are multiplied to stand for all messages."""

from tests.analytics.logs import START_US, event, header, write_log
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import read_rows


def test_counts_are_multiplied(tmp_path):
    records = [
        event("publish", START_US + number, message=number * 10, queues=["q"]) for number in (1, 2)
    ] + [event("publish", START_US, vhost="whole", message=1, queues=["q"])]
    write_log(tmp_path / "trace", records[:2], head=header(sample=10))
    write_log(tmp_path / "trace", records[2:], "whole", head=header(vhost="whole"))
    out = tmp_path / "out"
    analyze_quickly(tmp_path / "trace", out, only=("traffic", "depth"))
    queues = [row for row in read_rows(out, "traffic") if row.kind == "queue"]
    assert {row.vhost: row.published for row in queues} == {"/": 20, "whole": 1}
    assert {row.vhost: row.ready for row in read_rows(out, "depth")} == {"/": 20, "whole": 1}
