"""Output of counts as lines, rows and JSON."""

import json

import pytest

from leveret.mgmt.perf.counts import PerfCounts
from leveret.mgmt.perf.histogram import LatencyHistogram
from leveret.mgmt.perf.lines import (
    compact_header,
    compact_line,
    csv_header,
    csv_row,
    line,
    rate,
    summary_lines,
)
from leveret.mgmt.perf.options import PerfOptions
from leveret.mgmt.perf.samples import Sample, Summary


def options(**given):
    return PerfOptions(["amqp://localhost"], "run", **given)


def counts(**numbers):
    latency = LatencyHistogram()
    for value in (10, 20, 30):
        latency.add(value)
    return PerfCounts(**numbers, latency=latency)


SAMPLE = Sample(2.0, 0.5, counts(sent=50, received=4))


def test_a_line_is_as_perftest_prints_it():
    assert line(SAMPLE, options()) == (
        "id: run, time 2.000 s, sent: 100 msg/s, received: 8.0 msg/s, "
        "min/median/75th/95th/99th/max consumer latency: 10/20/30/30/30/30 µs"
    )


def test_a_line_has_what_its_clients_do():
    with_confirms = line(SAMPLE, options(confirm=1, consumers=0, flag=["mandatory"]))
    assert with_confirms == (
        "id: run, time 2.000 s, sent: 100 msg/s, returned: 0 msg/s, confirmed: 0 msg/s, "
        "nacked: 0 msg/s, min/median/75th/95th/99th/max confirm latency: 0/0/0/0/0/0 µs"
    )
    assert "sent" not in line(SAMPLE, options(producers=0))


def test_latencies_may_be_milliseconds():
    latency = LatencyHistogram()
    latency.add(5000)
    sample = Sample(1.0, 1.0, PerfCounts(latency=latency))
    assert "consumer latency: 5/5/5/5/5/5 ms" in line(sample, options(use_millis=True))


def test_compact_lines_stand_below_their_header():
    header, shown = compact_header(options()), compact_line(SAMPLE, options())
    assert header.split() == ["time", "sent", "received", "consumer", "latency"]
    assert shown[19:].split()[:4] == ["100", "msg/s", "8.0", "msg/s"]
    assert len(header) == 19 + 13 + 13 + 27


def test_rows_have_a_column_for_each_name():
    header, row = csv_header(options()), csv_row(SAMPLE, options())
    assert len(header) == len(row) == 17
    found = dict(zip(header, row, strict=True))
    assert found["published (msg/s)"] == "100"
    assert found["95th p. consumer latency (µs)"] == "30"
    assert found["confirmed (msg/s)"] == found["min confirm latency (µs)"] == ""


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.25, "0.25"), (5.55, "5.5"), (10, "10"), (123456.7, "123457")]
)
def test_small_rates_have_more_digits(value, shown):
    assert rate(value) == shown


def test_the_summarys_rates_are_over_the_time_of_sending_and_of_receiving():
    summary = Summary(counts(sent=100, received=100, cpu_s=1.0), 2.0, 4.0, 5.0)
    shown = summary_lines(summary, options())
    assert shown[:3] == [
        "id: run, sending rate avg: 50 msg/s",
        "id: run, receiving rate avg: 25 msg/s",
        "id: run, consumer latency min/median/75th/95th/99th/max 10/20/30/30/30/30 µs",
    ]
    assert "id: run, messages in total: sent 100, received 100" in shown
    assert "id: run, processors used by this tool: 0.25" in shown


def test_json_has_numbers_rates_and_latencies():
    found = json.loads(json.dumps(SAMPLE.to_json()))
    assert (found["sent"], found["rates"]["sent"], found["seconds"]) == (50, 100.0, 0.5)
    assert found["latency_us"]["p999"] == 30
    assert found["confirm_latency_us"] is None


def test_counts_can_be_sent_and_added_up():
    whole = counts(sent=1, sent_at=5.0)
    whole.add(PerfCounts.from_json(json.loads(json.dumps(counts(sent=2, sent_at=7.0).to_json()))))
    assert (whole.sent, whole.sent_at, whole.latency.total) == (3, 7.0, 6)
    assert not whole.is_empty
    assert PerfCounts().is_empty
