"""Which consumers became slower, while others of their queue and host did not."""

import random

from leveret.analytics.findings.evidence import (
    ConsumerSteps,
    Evidence,
    HeldKind,
    QueueSteps,
    SeenConsumer,
    TraceSpan,
)
from leveret.analytics.findings.finding import Queue
from leveret.analytics.findings.slow_consumers import slow
from leveret.analytics.findings.slow_kinds import slow_kind, slow_since
from leveret.analytics.findings.stretches import Stretch, stretch
from leveret.analytics.formatting import SECOND_US

NOON_US = 1_772_366_400_000_000
STEPS = 120
ORDERS = Queue("/", "orders")


def test_a_stretch_goes_on_over_a_few_steps_that_do_not_differ():
    differs = [False] * 40 + [True] * 6 + [False] + [True] * 6 + [False] * 40
    assert stretch(differs, 6) == Stretch(40, 52)
    assert stretch(differs, 13) is None
    # It begins less densely than it goes on.
    differs[33] = differs[37] = True
    assert stretch(differs, 6) == Stretch(33, 52)


def test_a_stretch_that_comes_by_chance_is_none():
    seeded = random.Random(1)
    for part in (0.2, 0.5, 0.7):
        differs = [seeded.random() < part for _ in range(300)]
        assert stretch(differs, 6) is None, part
    assert stretch([], 1) is None


def test_a_stretch_that_differs_in_all_steps_has_no_usual():
    assert stretch([True] * 50, 6) == Stretch(0, 49)


def consumer(tag, host, takes_ms, queue=ORDERS):
    """A consumer that settles ten messages in each step. takes_ms: a function of the step."""
    steps = range(STEPS)
    return ConsumerSteps(
        queue, f"{host}:4000{tag[-1]} -> 10.0.9.9:5672", tag, dict.fromkeys(steps, 10),
        {step: 10 * 1_000 * takes_ms(step) for step in steps},
    )  # fmt: skip


def quick(_step):
    return 100


def slow_in_the_middle(step):
    return 2_000 if 60 <= step < 80 else 100


def found(*consumers, sent_back=()):
    span = TraceSpan(NOON_US, NOON_US + STEPS * 10 * SECOND_US, 10 * SECOND_US, 1)
    data = Evidence(spans={"/": span})
    for one in consumers:
        data.consumer_steps.setdefault(one.queue, []).append(one)
        steps = data.queues.setdefault(one.queue, QueueSteps(one.queue, span))
        steps.sent_back = dict(sent_back)
        for step, count in one.settled.items():
            steps.settled[step] = steps.settled.get(step, 0) + count
            steps.busy_us[step] = steps.busy_us.get(step, 0) + one.busy_us[step]
            steps.hold_p50_us[step] = steps.busy_us[step] // steps.settled[step]
        data.consumers.append(
            SeenConsumer(one.queue, one.connection, 1, one.tag, 1_200, 1_200, 0, NOON_US,
                         span.ends_us, None, STEPS, 1_200, sum(one.busy_us.values()),
                         sorted(one.busy_us.values())[STEPS // 2] // 10, 1, 9, None, 0)
        )  # fmt: skip
    return list(slow(data))


def test_consumers_of_one_host_that_are_slower_than_the_others():
    [one] = found(
        consumer("a0", "10.0.0.1", quick), consumer("a1", "10.0.0.1", quick),
        consumer("b2", "10.0.0.2", slow_in_the_middle),
        consumer("b3", "10.0.0.2", slow_in_the_middle),
    )  # fmt: skip
    assert one.sentence == (
        "Consumers b2 and b3 of queue orders on host 10.0.0.2 take 2 s for a message from 12:10:00"
        " to 12:13:20 UTC, instead of the usual 100 ms; a0 and a1 take 100 ms at the same time"
    )
    assert one.hurts.startswith("They handled 400 of 800 messages in this time")


def test_the_other_queues_of_the_host_are_named():
    mails = Queue("/", "mails")
    one, _ = found(
        consumer("a0", "10.0.0.1", quick), consumer("b2", "10.0.0.2", slow_in_the_middle),
        consumer("a1", "10.0.0.1", quick, mails),
        consumer("b3", "10.0.0.2", slow_in_the_middle, mails),
    )  # fmt: skip
    assert one.hurts.endswith("Consumers of mails on this host are slow at the same time.")


def test_a_host_that_others_are_on_is_not_the_cause():
    [one] = found(consumer("a0", "10.0.0.1", quick), consumer("a1", "10.0.0.1", slow_in_the_middle))
    assert one.sentence.startswith("Consumer a1 of queue orders takes 2 s for a message")


def test_all_consumers_that_become_slower_are_a_finding_about_the_queue():
    [one] = found(*(consumer(f"a{n}", f"10.0.0.{n}", slow_in_the_middle) for n in range(2)))
    assert one.sentence.startswith("All consumers of queue orders (a0 and a1) take 2 s")


def test_a_consumer_that_requeues_what_it_gets_is_not_slow():
    again = dict.fromkeys(range(60, 80), 10)
    assert found(consumer("a0", "h", slow_in_the_middle), sent_back=again.items()) == []


def test_two_consumers_that_are_always_slower_than_two_others():
    [one] = found(
        consumer("a0", "10.0.0.1", quick), consumer("a1", "10.0.0.1", quick),
        consumer("b2", "10.0.0.2", lambda _: 900), consumer("b3", "10.0.0.2", lambda _: 900),
    )  # fmt: skip
    assert one.sentence == (
        "Consumers b2 and b3 of queue orders on host 10.0.0.2 take 900 ms for a message, and the"
        " other 2 take 100 ms, since 12:00:00 UTC"
    )


def test_work_of_two_lengths_is_not_slower_in_one_time():
    seeded = random.Random(2)

    def takes_ms(_step):
        return seeded.choice((100, 2_000))

    assert found(consumer("a0", "h", takes_ms), consumer("a1", "h", takes_ms)) == []


def held(routing_key, takes_ms, up_to_bytes=256):
    """Messages of a kind in each of twenty minutes. takes_ms: a function of the minute."""
    return HeldKind(routing_key, up_to_bytes, {
        6 * minute: (3, 1_000 * takes_ms(minute)) for minute in range(20)
    })  # fmt: skip


def test_a_routing_key_whose_messages_take_long_while_others_do_not():
    kinds = [held("txt", lambda _: 50), held("pdf", lambda minute: 14_000 if minute > 9 else 50)]
    assert slow_kind(kinds, range(60, 120), 10 * SECOND_US) == (
        "; messages with routing key pdf take at least 14 s, and others 50 ms"
    )
    assert slow_since(kinds, range(90, 120), 10 * SECOND_US) == 60
    assert slow_since(kinds[::-1], range(54), 10 * SECOND_US) is None
    assert slow_kind(kinds, range(54), 10 * SECOND_US) == ""
    assert slow_kind(kinds[1:], range(60, 120), 10 * SECOND_US) == ""


def test_large_messages_of_several_keys_take_long():
    kinds = [
        held(key, lambda _, takes_ms=takes_ms: takes_ms, size)
        for key in ("a", "b") for size, takes_ms in ((1 << 15, 100), (1 << 23, 9_000))
    ]  # fmt: skip
    assert slow_kind(kinds, range(120), 10 * SECOND_US) == (
        "; messages with a size above 4.2 MB take at least 9 s, and others 100 ms"
    )
