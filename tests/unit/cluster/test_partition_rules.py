"""What the nodes of each side of a partition do."""

import dataclasses

import pytest
from msgspec.structs import replace

from leveret.broker.config import Config, SettingError
from leveret.broker.config.cluster_settings import PAUSE_IF_ALL_DOWN, ClusterSettings
from leveret.broker.config.setting_error import explain
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.partitions.autoheal import PartitionReport, Verdict, decide, decides, has_lost
from leveret.cluster.partitions.configured_rules import check
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


def test_nodes_without_which_others_pause_have_to_be_listed():
    settings = ClusterSettings(partition_handling=PAUSE_IF_ALL_DOWN)
    with pytest.raises(SettingError, match="needs the nodes without which others pause") as raised:
        check(settings)
    key, _, _ = explain(Config(), raised.value).partition(":")
    assert key == "cluster_partition_handling.pause_if_all_down.nodes"
    check(dataclasses.replace(settings, pause_if_all_down_nodes=(NodeAddress("a@h"),)))


def test_every_side_goes_on_otherwise():
    assert always(frozenset({"c"}))


def view_of(side):
    return (7, min(side), 1)


def reports(sides, **connections):
    """The reports of all nodes; sides: their names in one word each."""
    return [
        PartitionReport(
            name, tuple(side), view_of(side),
            tuple(other for one in sides if one != side for other in one),
            connections.get(name, 0),
        )
        for side in sides
        for name in side
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sides", "connections", "winner"),
    [
        (["a", "bc"], {"a": 3, "b": 1, "c": 1}, "a"),
        (["a", "bc"], {"a": 2, "b": 1, "c": 1}, "bc"),
        (["ad", "bc"], {"d": 2, "c": 2}, "bc"),
        (["ad", "b", "c"], {}, "ad"),
    ],
)
def test_the_winner_has_the_most_connections_then_nodes_then_the_greatest_names(
    sides, connections, winner
):
    verdict = decide(frozenset("".join(sides)), reports(sides, **connections))
    assert verdict.winners == tuple(winner)
    for side in sides:
        assert has_lost(view_of(side), verdict) == (side != winner)


def test_a_verdict_is_about_the_views_that_were_reported():
    verdict = decide(THREE, reports(["a", "bc"]))
    assert verdict == Verdict(("b", "c"), (view_of("a"),))
    assert not has_lost((8, "a", 1), verdict)


def test_the_first_node_by_name_decides():
    assert decides("a", THREE)
    assert not decides("b", THREE)


@pytest.mark.parametrize("sides", [["abc"], ["ab"], ["a", "b"]])
def test_nothing_is_decided_without_a_partition_or_while_a_node_is_away(sides):
    assert decide(THREE, reports(sides)) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"side": ("b", "c")},
        {"side": ("b",), "view": (7, "b", 1)},
        {"side": ("a", "c"), "view": (7, "a", 1)},
    ],
)
def test_nothing_is_decided_while_reports_contradict_each_other(changed):
    a, b, c = reports(["ab", "c"])
    assert decide(THREE, [a, b, c]) is not None
    assert decide(THREE, [a, replace(b, **changed), c]) is None
