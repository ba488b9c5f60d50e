"""The suite of incidents is what it says: valid records, the same each time, with quiet days."""

import pytest

from leveret.broker.tracing import record
from tests.analytics.incidents.incident import CHURN, SLOW, STALLED, Says
from tests.analytics.incidents.stalls import one_of_three_is_slow
from tests.analytics.incidents.suite import ALL, Said, judge, score

BY_NAME = {one.name: one for one in ALL}
QUICK = ("stall_of_one_of_four_slow_ones", "poison_that_expires", "purged_with_400",
         "a_message_that_is_too_large", "many_keys_without_a_queue",
         "a_queue_for_the_last_value")  # fmt: skip


def test_there_are_a_hundred_incidents_of_which_a_quarter_are_quiet_days():
    assert len(ALL) >= 100
    assert sum(one.is_quiet for one in ALL) >= 25
    assert 0.2 <= sum(one.is_held_out for one in ALL) / len(ALL) <= 0.35


@pytest.mark.parametrize("name", QUICK)
def test_records_are_those_that_a_broker_writes(name):
    records = BY_NAME[name].records()
    assert records == BY_NAME[name].records()
    times = [one["time_us"] for one in records]
    assert times == sorted(times)
    for one in records:
        optional = {"count", "message"} if one["event"] == record.DROP else set()
        assert set(one) - optional == set(record.EVENTS[one["event"]])


def test_a_message_that_is_rejected_with_requeue_is_delivered_again():
    records = BY_NAME["poison_that_expires"].records()
    poison = next(one["message"] for one in records if one["event"] == "reject")
    events = [one["event"] for one in records if one.get("message") == poison]
    assert events[:3] == ["publish", "deliver", "reject"]
    assert events[-2:] == ["reject", "expire"]


def test_a_verdict_lists_missing_false_and_late_findings():
    incident = BY_NAME["stall_of_an_hour_with_one_message"]
    begins_us = incident.records()[0]["time_us"]
    stall = Says(STALLED, "reports", 36_000, 39_600)
    assert incident.must == (stall,)
    late = Said(STALLED, frozenset({"reports"}), begins_us, None, "since the beginning")
    false = Said(CHURN, frozenset({"office"}), None, None, "churn")
    assert judge(incident, []).missing == [stall]
    verdict = judge(incident, [late, false])
    assert (verdict.missing, verdict.wrong_times, verdict.false) == ([], [stall], [false])
    figures = score([verdict])
    assert (figures.recall, figures.precision) == (0.0, 0.5)


def test_a_finding_must_have_the_words():
    incident = BY_NAME[one_of_three_is_slow.__name__]
    without, with_tag = (
        Said(SLOW, frozenset({"resize"}), None, None, text) for text in ("a consumer", "res-2")
    )
    assert judge(incident, [without]).missing
    assert not judge(incident, [with_tag]).missing
