"""What the nodes of each side of a partition do."""

import pytest

from leveret.cluster.partitions.autoheal import Autoheal, Report, Verdict, decide, has_lost
from leveret.cluster.partitions.rules import PauseIfAllDown, PauseMinority, always

THREE = frozenset({"a", "b", "c"})
FOUR = THREE | {"d"}


@pytest.mark.parametrize(
    ("cluster", "side", "goes_on"),
    [
        (THREE, {"a", "b"}, True),
        (THREE, {"c"}, False),
        (FOUR, {"a", "b", "c"}, True),
        (FOUR, {"a", "b"}, False),
        (frozenset({"a", "b"}), {"a"}, False),
        (THREE, {"a", "x", "y"}, False),
    ],
)
def test_a_side_with_half_of_the_cluster_or_less_pauses(cluster, side, goes_on):
    assert PauseMinority(cluster)(frozenset(side)) is goes_on


def test_a_side_without_any_of_the_listed_nodes_pauses():
    rule = PauseIfAllDown(frozenset({"a", "b"}))
    assert rule(frozenset({"b", "c"}))
    assert not rule(frozenset({"c", "d"}))


def test_every_side_goes_on_otherwise():
    assert always(frozenset({"c"}))


@pytest.mark.parametrize(
    ("sides", "winner"),
    [
        ([(("a",), 3), (("b", "c"), 2)], ("a",)),
        ([(("a",), 2), (("b", "c"), 2)], ("b", "c")),
        ([(("a", "d"), 2), (("b", "c"), 2)], ("b", "c")),
    ],
)
def test_the_winner_has_the_most_connections_then_nodes_then_the_greatest_names(sides, winner):
    assert decide(sides) == winner


def reports(sides, connections):
    """The reports of all nodes; sides: their names in one word each."""
    for side in sides:
        others = tuple(name for other in sides if other != side for name in other)
        for name in side:
            yield Report(name, tuple(side), others, connections.get(name, 0))


def test_the_first_node_decides_when_all_have_reported():
    first = Autoheal("a", THREE)
    verdicts = [first.reported(one) for one in reports(["a", "bc"], {"a": 1})]
    assert verdicts == [None, None, Verdict(("a",))]
    assert has_lost("b", verdicts[-1])
    assert not has_lost("a", verdicts[-1])


def test_the_other_nodes_decide_nothing():
    other = Autoheal("b", THREE)
    assert [other.reported(one) for one in reports(["a", "bc"], {})] == [None] * 3


def test_nothing_is_decided_without_a_partition():
    first = Autoheal("a", THREE)
    assert [first.reported(one) for one in reports(["abc"], {})] == [None] * 3


def test_nothing_is_decided_while_a_node_is_away():
    first = Autoheal("a", THREE)
    a, b, c = reports(["a", "bc"], {})
    first.reported(b)
    first.unlinked("b")
    assert first.reported(c) is None
    assert first.reported(a) is None
    assert first.reported(b) == Verdict(("b", "c"))


def test_nothing_is_decided_while_reports_contradict_each_other():
    first = Autoheal("a", THREE)
    first.reported(Report("a", ("a",), ("b",), 0))
    first.reported(Report("b", ("b",), ("a",), 0))
    assert first.reported(Report("c", ("b", "c"), ("a",), 0)) is None
