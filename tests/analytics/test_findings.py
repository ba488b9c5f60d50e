"""Findings as pure functions of figures: words, order, limits. test_incidents.py has the rest."""

from leveret.analytics.findings.episodes import episodes
from leveret.analytics.findings.evidence import (
    Attendance,
    Circling,
    ConsumerPause,
    DeadLetterFlow,
    Duplicates,
    Evidence,
    Poison,
    QueueSteps,
    SeenConsumer,
    TraceSpan,
    Unattended,
    Unread,
    Unroutable,
)
from leveret.analytics.findings.finding import Queue, Severity
from leveret.analytics.findings.findings import OF_ONE_KIND_MAX, findings
from leveret.analytics.formatting import MINUTE_US, SECOND_US

NOON_US = 1_772_366_400_000_000
"""2026-03-01 12:00:00 UTC."""
ORDERS = Queue("/", "orders")


def at(minutes):
    return NOON_US + int(minutes * MINUTE_US)


def an_hour(vhost="/"):
    return Evidence(spans={vhost: TraceSpan(NOON_US, at(60), 10 * SECOND_US, 1)})


def with_steps(data, queue=ORDERS, **values):
    data.queues[queue] = QueueSteps(queue, data.spans[queue.vhost], **values)
    return data


def sentences(data):
    return [finding.sentence for finding in findings(data)]


def test_nothing_is_found_where_nothing_is_known():
    assert findings(Evidence()) == []
    assert findings(an_hour()) == []


def test_a_stall_names_the_holder_the_duration_and_the_waiters():
    data = with_steps(
        an_hour(), came={180: 40}, ready_max={185: 7}, wait_max_us={204: 200 * SECOND_US}
    )
    data.pauses = [ConsumerPause(ORDERS, "10.0.0.1:4000 -> x", "ctag-7", at(30), at(34), 20)]
    data.users = {ORDERS: ["shop"]}
    [stall] = findings(data)
    assert stall.sentence == (
        "Consumer ctag-7 of queue orders acknowledged nothing from 12:30:00 to 12:34:00 UTC, for 4"
        " min, while holding 20 messages"
    )
    assert stall.hurts == (
        "40 messages from shop arrived in this time, and up to 7 waited in the queue, for up to"
        " 3 min 20 s."
    )
    assert "Closing 10.0.0.1:4000 -> x requeues what it holds" in stall.advice
    assert (stall.severity, stall.since_us, stall.until_us) == (Severity.BAD, at(30), at(34))


def test_stalls_at_several_times_are_one_finding():
    data = with_steps(an_hour())
    data.pauses = [
        ConsumerPause(ORDERS, "c", "t", at(minute), at(minute + 1), 5) for minute in (10, 20)
    ]
    [stall] = findings(data)
    assert stall.sentence.endswith("; this happened 2 times, for up to 1 min")
    assert (stall.since_us, stall.until_us) == (at(10), at(21))


def test_what_a_consumer_still_holds_at_the_end():
    data = with_steps(an_hour())
    data.consumers = [
        SeenConsumer(ORDERS, "c", 1, "stuck", 50, 0, 50, at(5), at(5), at(5), 1, 0, 0, None, 50,
                     None, at(5), 0),
        SeenConsumer(ORDERS, "c", 2, "busy", 50, 49, 1, at(5), at(60), at(59.9), 9, 49, 9, 1, 1, 9,
                     at(59.9), 0),
    ]  # fmt: skip
    [stall] = findings(data)
    assert stall.sentence.startswith(
        "Consumer stuck of queue orders stopped acknowledging at 12:05:00 UTC, for 55 min, while"
        " holding 50 messages"
    )
    assert stall.until_us is None


def test_a_queue_without_a_consumer_names_the_last_one():
    data = with_steps(an_hour())
    data.attendance = {ORDERS: Attendance(consumed=100)}
    data.unattended = [Unattended(ORDERS, at(50), None, 500, 500, 500)]
    data.consumers = [
        SeenConsumer(ORDERS, "10.0.0.1:4 -> x", 1, "gone", 100, 100, 0, at(0), at(50), None, 9, 100,
                     9, 1, 1, 9, at(50), 0)
    ]  # fmt: skip
    [nobody] = findings(data)
    assert nobody.sentence == (
        "Queue orders had no consumer since 12:50:00 UTC, for 10 min, and 500 messages are waiting"
        " at the end. The last one, gone on 10.0.0.1:4 -> x, was active until 12:50:00 UTC"
    )


def test_a_queue_that_only_keeps_messages_for_a_time_needs_no_consumer():
    data = with_steps(an_hour(), expired={9: 100})
    data.unattended = [Unattended(ORDERS, at(0), None, 50, 50, 500)]
    assert findings(data) == []


def test_returned_messages_are_told_from_lost_ones():
    data = an_hour()
    data.unroutable = [Unroutable("/", "orders", "uk", 137, 60, None, None, at(10), at(13))]
    [lost] = findings(data)
    assert lost.sentence == (
        "Exchange orders: 137 messages with routing key uk had no queue, from 12:10:00 to"
        " 12:14:00 UTC; 60 were returned to their publisher, and no publisher was told of the"
        " other 77"
    )
    data.unroutable = [data.unroutable[0]._replace(returned=137, exchange="")]
    [returned] = findings(data)
    assert "The default exchange: 137 messages" in returned.sentence
    assert returned.sentence.endswith("all were returned to their publisher")
    assert (lost.severity, returned.severity) == (Severity.BAD, Severity.WARNING)


def test_retries_that_come_back_are_not_reported_as_dead_letters():
    data = an_hour()
    there = DeadLetterFlow(ORDERS, "rejected", "", ("orders.wait",), 9, at(1), at(2))
    back = DeadLetterFlow(Queue("/", "orders.wait"), "expired", "", ("orders",), 9, at(2), at(3))
    data.deaths = [there, back]
    assert findings(data) == []
    data.deaths = [there]
    assert sentences(data)[0].startswith(
        "Consumers rejected 9 messages of queue orders, which are now in orders.wait"
    )


def test_poison_by_its_fate():
    data = an_hour()
    poison = Poison(ORDERS, "acknowledged", 1, 9, 9, 17, "order-17", at(1), at(2))
    data.poison = [poison]
    [one] = sentences(data)
    assert one == (
        "Message 17 (message-id order-17) of queue orders was delivered 9 times from 12:01:00 to"
        " 12:02:00 UTC: acknowledged in the end"
    )
    data.poison.append(poison._replace(fate="expired", messages=2, deliveries=14))
    assert "3 messages of queue orders were delivered 23 times" in sentences(data)[0]
    assert "1 acknowledged in the end and 2 expired" in sentences(data)[0]


def test_an_episode_begins_when_messages_begin_to_wait():
    steps = with_steps(an_hour()).queues[ORDERS]
    steps.ready_max = {0: 1, 10: 12, 20: 60, 30: 400, 40: 5}
    steps.ready = dict(steps.ready_max)
    [episode] = episodes(steps)
    assert (episode.begins, episode.ends, episode.peak_step, episode.peak) == (10, 40, 30, 400)
    steps.ready_max = steps.ready = {0: 1, 10: 12}
    assert episodes(steps) == []


def test_the_user_that_publishes_message_ids_again():
    data = an_hour()
    known = Duplicates(ORDERS, 300, "order-7", 3, at(10), at(20), "gateway", 290)
    data.duplicates = [known]
    assert sentences(data) == [
        "User gateway published 290 message-ids to queue orders again, from 12:10:00 to 12:20:00"
        " UTC; order-7 came 3 times"
    ]
    data.duplicates = [known._replace(own=100)]
    assert sentences(data)[0].startswith("Queue orders got 300 message-ids more than once")


def test_programs_that_number_their_messages_do_not_repeat_each_other():
    data = an_hour()
    data.duplicates = [Duplicates(ORDERS, 300, "7", 3, at(0), at(60), "billing", 120, once=300)]
    assert findings(data) == []
    # One that is always the later one repeats them.
    data.duplicates = [data.duplicates[0]._replace(own=300)]
    assert "User billing published 300 message-ids to queue orders again" in sentences(data)[0]


def test_a_new_consumer_that_takes_messages_without_acks():
    data = with_steps(an_hour(), delivered=dict.fromkeys(range(360), 10))
    usual = SeenConsumer(ORDERS, "10.0.0.1:4 -> x", 1, "ship", 3_000, 3_000, 0, at(0), at(60), None,
                         9, 3_000, 9, 1, 1, 9, None, 0)  # fmt: skip
    taker = usual._replace(connection="10.0.0.2:5 -> x", tag="look", acknowledged=0, settled=0,
                           delivered=300, no_ack=300, first_us=at(20), last_us=at(30), user="dev",
                           )  # fmt: skip
    data.consumers = [usual, taker]
    [one] = findings(data)
    assert one.sentence == (
        "Consumer look of user dev on 10.0.0.2:5 -> x took 300 of the 620 messages that queue"
        " orders delivered from 12:20:00 to 12:30:00 UTC, without acknowledgements"
    )
    assert one.hurts.startswith("ship never got these messages")
    # One that is there from the beginning, and queues without acknowledgements, are usual.
    for consumers in ([usual, taker._replace(first_us=at(0))], [taker]):
        data.consumers = consumers
        assert findings(data) == []


def test_messages_that_go_round_much_more_often_than_before():
    data = with_steps(an_hour(), came={step: 900 if step >= 240 else 10 for step in range(360)})
    data.circling = [Circling(ORDERS, 5, 9_000, 500, 17, at(1), at(59))]
    [one] = findings(data)
    assert one.sentence.endswith("until 12:59:00 UTC; since 12:40:00 UTC much more often")
    assert one.since_us == at(40)


def test_a_consumer_that_ends_again_and_again_with_messages():
    data = an_hour()
    data.consumers = [
        SeenConsumer(ORDERS, f"10.0.0.4:{minute} -> x", 1, "worker", 50, 30, 0, at(minute),
                     at(minute + 3), None, 9, 40, 9, 1, 20, 9, None, 0, user="app")
        for minute in range(10, 40, 5)
    ]  # fmt: skip
    [one] = findings(data)
    assert one.sentence == (
        "Consumer worker of queue orders on host 10.0.0.4 ended 6 times while holding up to 10"
        " messages, from 12:13:00 to 12:38:00 UTC, about every 5 min"
    )
    assert one.hurts == "60 deliveries had to be repeated."
    # An update stops each of several consumers once.
    data.consumers = [one._replace(first_us=at(10), last_us=at(20)) for one in data.consumers]
    assert findings(data) == []


def test_a_user_that_opens_connections_and_closes_none():
    data = an_hour()
    data.opened = {("/", "cron"): [(at(minute), False) for minute in range(60)]}
    assert sentences(data) == [
        "User cron opened 60 connections, 1.0 a minute, and 60 of them are open at the end"
    ]
    # A start of many programs, and connections that are closed, are no leak.
    data.opened = {
        ("/", "start"): [(at(1 + number / 60), False) for number in range(60)],
        ("/", "short"): [(at(minute), minute % 2 == 0) for minute in range(60)],
    }
    assert findings(data) == []


def test_large_messages_are_told_of_stalls_if_they_came_then():
    sizes = {step: 8_000_000 if 60 <= step < 90 else 30_000 for step in range(360)}
    data = with_steps(an_hour(), size_max=sizes)
    data.pauses = [
        ConsumerPause(ORDERS, "c", "t", at(10 + number), at(10.5 + number), 5)
        for number in range(5)
    ]
    [stall] = findings(data)
    assert stall.sentence.endswith(
        "; messages of up to 8 MB came then, and of up to 30 kB otherwise"
    )


def test_many_of_a_kind_are_summed_up():
    data = an_hour()
    data.unroutable = [
        Unroutable("/", "e", f"k{n}", n, 0, None, None, at(1), at(2)) for n in range(1, 30)
    ]
    found = sentences(data)
    assert len(found) == OF_ONE_KIND_MAX + 1
    assert "29 messages with routing key k29 had no queue" in found[0]
    assert found[-1].startswith("24 more of this kind; the next: Exchange e: 24 messages")


def test_several_days_and_vhosts_are_told_apart_and_names_cannot_move_a_cursor():
    data = an_hour()
    data.spans = {
        "/": TraceSpan(NOON_US, at(3_000), MINUTE_US, 1),
        "\x1b[2J": TraceSpan(NOON_US, at(60), 10, 1),
    }  # fmt: skip
    data.unattended = [Unattended(Queue("\x1b[2J", "q"), at(1), None, 9, 9, 9),
                       Unattended(ORDERS, at(1_500), None, 5, 5, 5)]  # fmt: skip
    first, second = sentences(data)
    assert first.startswith("Queue q in \\x1b[2J had no consumer since 12:01:00 UTC")
    assert second.startswith(
        "Queue orders in / had no consumer since 2026-03-02 13:00 UTC, for 1 d 1 h"
    )


def test_lines_that_could_not_be_read():
    data = an_hour()
    data.unread = [Unread("no JSON", 4, "trace/x.jsonl.gz")]
    assert sentences(data) == [
        "4 lines or files of the trace could not be used: no JSON (such as trace/x.jsonl.gz)"
    ]
