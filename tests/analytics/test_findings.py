"""The findings of a report: pure functions of aggregates."""

import pytest

from leveret.analytics.report.aggregates import Aggregates, Deaths, Queue, Unroutable
from leveret.analytics.report.findings import OF_ONE_KIND_MAX, Severity, findings
from leveret.analytics.report.latency_findings import onset
from tests.analytics.story import (
    MINUTES,
    ORDERS,
    STALL,
    afternoon,
    consumer,
    empty,
    minute,
    series,
    stalled,
)


def sentences(data):
    return [finding.sentence for finding in findings(data)]


def test_nothing_is_found_where_nothing_is_wrong():
    assert sentences(Aggregates()) == []
    data = empty()
    data.queues = [series()]
    data.consumers = [consumer("a", last_ack=MINUTES - 1), consumer("b", last_ack=MINUTES - 1)]
    assert sentences(data) == []


def test_a_rise_names_who_stopped():
    [first, *rest] = findings(stalled())
    assert first.sentence == (
        "queue orders: p99 wait rose from 12 ms to 4 s at 14:05, when consumer ctag-7 stopped"
        " acknowledging; it was over at 15:00"
    )
    assert first.severity is Severity.BAD
    assert "250 unacknowledged" in first.advice
    assert rest == []


def test_a_rise_that_stays_and_a_consumer_that_left():
    data = stalled(until=MINUTES)
    data.consumers = [
        consumer("gone", last_ack=STALL)._replace(last_delivery_us=minute(STALL)),
        consumer("ctag-1", last_ack=MINUTES - 1),
    ]
    assert sentences(data) == [
        "queue orders: p99 wait rose from 12 ms to 4 s at 14:05, when consumer gone received no"
        " more messages; it stayed so"
    ]


def test_a_rise_because_more_is_published():
    data = stalled()
    data.consumers = []
    data.queues[0].came = {step: 6_000 if step >= STALL else 600 for step in range(MINUTES)}
    assert "when publishing to it rose from 10 to 100 messages per second" in sentences(data)[
        0
    ].replace(".0 ", " ")


def test_a_rise_without_a_cause():
    data = stalled()
    data.consumers = []
    assert "; the trace shows no cause" in sentences(data)[0]


@pytest.mark.parametrize(
    ("waits", "found"),
    [
        ([], None),
        ([10_000] * 9, None),
        ([10_000] * 9 + [900_000] + [10_000] * 9, None),
        ([10_000] * 9 + [900_000] * 3, 9),
        ([100] * 9 + [1_000] * 9, None),
        ([10_000, 10_000, 900_000, 900_000], None),
        ([300_000] * 9 + [600_000] * 9, None),
    ],
)
def test_where_waits_begin_to_be_longer(waits, found):
    assert onset(waits) == found


def test_a_queue_that_grows_and_one_that_nobody_consumes():
    data = empty()
    growing, ignored = series(), series(Queue("/", "ignored"))
    growing.ready = {0: 10, MINUTES - 1: 24_010}
    growing.ready_at_end = 24_010
    ignored.delivered, ignored.ready, ignored.ready_at_end = {}, {0: 1, 5: 500}, 500
    data.queues = [ignored, growing]
    assert sentences(data) == [
        "queue orders: 24,010 messages are ready at the end, up from 10 at 12:00:"
        " 100 more per minute",
        "queue ignored: 500 messages are ready, and none has been consumed",
    ]


def test_consumers_that_hold_messages_or_are_slow():
    data = empty()
    data.consumers = [
        consumer("never", last_ack=None, unacknowledged=1_000, median_us=None),
        consumer("stopped", last_ack=30, unacknowledged=5),
        consumer("slow", last_ack=MINUTES - 1, median_us=400_000),
        consumer("quick", last_ack=MINUTES - 1),
    ]
    never, stopped, slow = sentences(data)
    assert "consumer never (10.0.0.1:40005 -> 10.0.0.9:5672) holds 1,000" in never
    assert "has acknowledged none of them" in never
    assert "last acknowledged one at 12:30" in stopped
    assert "consumer slow takes 400 ms to acknowledge (median), the others 3 ms" in slow


def test_dead_letters_that_are_lost_are_worse():
    data = empty()
    data.deaths = [
        Deaths(ORDERS, "expired", "", 40, 0, minute(1), minute(2)),
        Deaths(ORDERS, "maxlen", "dlx", 7, 7, minute(1), minute(2)),
    ]
    lost, fine = findings(data)
    assert lost.severity is Severity.BAD
    assert "because the queue was full, from 12:01 to 12:02; 7 dead letters routed" in lost.sentence
    assert "to the default exchange because they expired" in fine.sentence


def test_many_of_a_kind_are_summed_up():
    data = empty()
    data.unroutable = [Unroutable("/", "e", f"k{n}", n, 0, None, None) for n in range(1, 30)]
    found = sentences(data)
    assert len(found) == OF_ONE_KIND_MAX + 1
    assert "29 messages with routing key k29 routed to no queue; not returned" in found[0]
    assert found[-1].startswith("24 more of this kind; the next: exchange e: 24 messages")


def test_all_else_that_goes_wrong_in_an_afternoon():
    told = "\n".join(sentences(afternoon()))
    for part in (
        "message 7612286648293785601 (message-id order-17) 17 times",
        "90% of its messages have the routing key eu",
        "3 message-ids published more than once; order-9 4 times",
        "300 connections per minute opened at 12:40",
        "12 messages expired, without dead-lettering",
        "12:30: queue orders: delivered 3 where 600 is usual",
        "The trace has 2 gaps, the first at 2026-03-01 13:00:00.000000: 77 records",
        "4 lines or files of the trace could not be used: no JSON (such as trace/x.jsonl.gz)",
    ):
        assert part in told
    assert "\x1b" not in told


def test_several_days_and_vhosts_are_told_apart():
    data = stalled()
    data.ends_us += 86_400_000_000
    data.vhosts = ["/", "shop"]
    assert (
        "queue orders in /: p99 wait rose from 12 ms to 4 s at 2026-03-01 14:05"
        in sentences(data)[0]
    )
