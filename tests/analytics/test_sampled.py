"""Counts from a sampled log are multiplied to stand for all messages."""

import pytest

from leveret.analytics.job import Options, analyze
from leveret.analytics.output import read_table
from tests.analytics.logs import START_US, event, header, write_log


@pytest.mark.timeout(180)
def test_counts_are_multiplied(spark, tmp_path):
    records = [
        event("publish", START_US + number, message=number * 10, queues=["q"]) for number in (1, 2)
    ] + [event("publish", START_US, vhost="whole", message=1, queues=["q"])]
    write_log(tmp_path / "trace", records[:2], head=header(sample=10))
    write_log(tmp_path / "trace", records[2:], "whole", head=header(vhost="whole"))
    out = str(tmp_path / "out")
    analyze(spark, Options(str(tmp_path / "trace"), out, only=("traffic", "depth")))
    traffic = read_table(spark, out, "traffic").where("kind = 'queue'").collect()
    assert {row.vhost: row.published for row in traffic} == {"/": 20, "whole": 1}
    assert {row.vhost: row.ready for row in read_table(spark, out, "depth").collect()} == {
        "/": 20,
        "whole": 1,
    }
