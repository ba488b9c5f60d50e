"""Publishers that send nothing, though they have always sent steadily."""

import random

import pytest

from leveret.analytics.findings.evidence import Evidence, SeenPublisher, TraceSpan, Unroutable
from leveret.analytics.findings.finding import Queue
from leveret.analytics.findings.silent_publishers import silent
from leveret.analytics.formatting import SECOND_US

NOON_US = 1_772_366_400_000_000
STEPS = 120
METERS = Queue("/", "meters")


def until(end, count=20, again=STEPS):
    """Messages by step of a publisher that is silent from one step until another."""
    return {step: count for step in range(STEPS) if step < end or step >= again}


def like_people(end):
    seeded = random.Random(3)
    return {step: max(0, int(seeded.gauss(20, 4.5))) for step in range(end)}


def trace(sent, others=None, user="gateway", span_steps=STEPS):
    span = TraceSpan(NOON_US, NOON_US + span_steps * 10 * SECOND_US, 10 * SECOND_US, 1)
    data = Evidence(spans={"/": span})
    data.arrivals[METERS] = {SeenPublisher(user, "10.0.0.1:1 -> x"): sent}
    data.sent["/"] = {user: sent, "shop": dict.fromkeys(range(STEPS), 5)}
    if others is not None:
        data.sent["/"]["shop"] = others
    return data


def test_a_publisher_that_sends_nothing_any_more():
    [one] = silent(trace(until(60)))
    assert one.sentence == (
        "User gateway has published nothing to queue meters since 12:10:00 UTC, for 10 min, after"
        " a steady 2 messages a second"
    )
    assert one.hurts == "About 1,200 messages did not arrive; other publishers went on."
    assert one.about == ("gateway", "meters")


def test_one_that_sends_again():
    [one] = silent(trace(until(60, again=80)))
    assert "nothing to queue meters from 12:10:00 to 12:13:20 UTC" in one.sentence


def test_one_that_sends_much_less():
    [one] = silent(trace({step: 20 if step < 60 else 4 for step in range(STEPS)}))
    assert "has published 0.4 messages a second" in one.sentence


@pytest.mark.parametrize(
    ("sent", "others"),
    [
        pytest.param(like_people(60), None, id="it varies as if people sent it"),
        pytest.param(until(60), until(60, 5), id="nothing else goes on"),
        pytest.param(dict.fromkeys(range(30, 60), 20), None, id="it began later"),
        pytest.param(
            {step: 20 for step in range(STEPS) if step % 40 < 20}, None, id="it always pauses"
        ),
        pytest.param(until(116), None, id="it is silent for a short time"),
    ],
)
def test_what_is_not_silent(sent, others):
    assert list(silent(trace(sent, others))) == []


def test_a_publisher_that_has_closed_its_connection_has_ended():
    data = trace(until(60))
    data.closings = {("/", "gateway"): [NOON_US + 600 * SECOND_US]}
    assert list(silent(data)) == []


def test_a_publisher_whose_messages_have_no_queue_is_not_silent():
    data = trace(until(60))
    data.unroutable = [
        Unroutable("/", "x", "k", 9, 0, "gateway", "c", NOON_US + 600 * SECOND_US,
                   NOON_US + 1_140 * SECOND_US)
    ]  # fmt: skip
    assert list(silent(data)) == []
