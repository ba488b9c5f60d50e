"""How findings on independent incidents are judged (test_incidents.py has the figures)."""

from tests.analytics.incidents.independent.form import Cause, Scene
from tests.analytics.incidents.independent.judgement import (
    HEALTHY_DAYS,
    INCIDENTS,
    LISTED_MAX,
    Figures,
    figures_of,
    judge,
)
from tests.analytics.incidents.simulated_log import MIDNIGHT_US, SECOND_US
from tests.analytics.incidents.suite import Said

STOPPED = Cause(("stalled_consumer",), ("tea",), ("kettle", ("10.0.0.8", "10.0.0.9")), 60, 10)
SCENE = Scene("", "", lambda _: None, 600, 0, (STOPPED,), ((("waits",), "tea"),))


def said(kind="stalled_consumer", about="tea", since_s=65, text="Kettle on 10.0.0.9 stopped"):
    return Said(kind, frozenset({about}), MIDNIGHT_US + since_s * SECOND_US, None, text)


def test_a_cause_is_found_then_named_then_timed():
    assert judge(SCENE, [said(about="coffee")]).missing == [STOPPED]
    assert judge(SCENE, [said(kind="waits")]).missing == [STOPPED]
    assert judge(SCENE, [said(text="Kettle stopped")]).unnamed == [STOPPED]
    assert judge(SCENE, [said(since_s=75)]).late == [STOPPED]
    right = judge(SCENE, [said(), said(kind="waits")])
    assert (right.missing, right.unnamed, right.late, right.false) == ([], [], [], [])


def test_what_is_neither_a_cause_nor_true_as_well_is_false():
    wrong = said(kind="burst")
    judgement = judge(SCENE, [said(), wrong])
    assert judgement.false == [wrong]
    assert figures_of([judgement]) == Figures(1, 1, 1, 1, said=2, true=1, disturbed=0)


def test_of_each_kind_as_many_count_as_a_report_lists():
    flood = [said(kind="unroutable")] * 200
    assert len(judge(SCENE, [*flood, said()]).false) == LISTED_MAX


def test_how_many_incidents_and_healthy_days_there_are():
    assert {name: len(some) for name, some in INCIDENTS.items()} == {
        "first": 40, "second": 10, "third": 10,
    }  # fmt: skip
    assert {name: len(some) for name, some in HEALTHY_DAYS.items()} == {
        "first": 13, "second": 5, "third": 5,
    }  # fmt: skip
