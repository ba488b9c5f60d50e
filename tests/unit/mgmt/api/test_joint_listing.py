"""A list of what several nodes have, made by any: order, pages, and nodes that do not answer."""

import functools

import pytest

from leveret.mgmt.api import joint_listing
from leveret.mgmt.api.errors import ApiError
from leveret.mgmt.api.joint_listing import JointListing, SummedListing
from leveret.mgmt.api.passed_requests import Keys, WantedRows
from tests.listing_nodes import ListingCluster

TURN_CALLS_MAX = 5000
"""Of 20,000 that test_responsiveness.py allows with 10,000 objects."""


@pytest.fixture
def cluster():
    """Three nodes with three objects each, whose names take turns."""
    made = ListingCluster("a", "b", "c")
    for place, node in enumerate(made):
        node.add(*(f"{number}" for number in range(place, 9, 3)), state="running")
    return made


def names(shown):
    return "".join(one["name"] for one in shown)


async def test_any_node_lists_what_all_have_in_one_order(cluster):
    for node in cluster:
        shown, left_out = await node.list()
        assert names(shown) == "012345678"
        assert not left_out
    assert [one["node"] for one in shown] == ["a", "b", "c"] * 3


async def test_a_node_on_its_own_asks_no_node():
    (alone,) = ListingCluster("a")
    alone.add("1", "2")
    assert names((await alone.list())[0]) == "12"
    assert not alone.asked


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"sort": "name", "sort_reverse": "true"}, "876543210"),
        ({"sort": "node"}, "036147258"),
        ({"sort": "node", "sort_reverse": "true"}, "852741630"),
        ({"sort": "missing"}, "012345678"),
    ],
)
async def test_a_list_is_sorted_over_all_nodes(cluster, query, wanted):
    assert names((await cluster.nodes["b"].list(**query))[0]) == wanted


async def test_a_page_is_one_of_the_whole_list_and_only_its_objects_are_rendered(cluster):
    shown, _ = await cluster.nodes["a"].list(page="2", page_size="4")
    assert names(shown["items"]) == "4567"
    assert (shown["page_count"], shown["total_count"], shown["filtered_count"]) == (3, 9, 9)
    assert sorted(name for node in cluster for name in node.rendered) == list("4567")


async def test_of_each_node_as_many_keys_are_asked_for_as_the_page_may_have(cluster):
    await cluster.nodes["a"].list(page="1", page_size="2")
    assert cluster.nodes["b"].asked == [Keys(2), WantedRows([(b"1",)])]
    assert cluster.nodes["c"].asked == [Keys(2)]


async def test_a_filter_counts_on_all_nodes(cluster):
    shown, _ = await cluster.nodes["c"].list(page="1", name="[78]", use_regex="true")
    assert names(shown["items"]) == "78"
    assert (shown["filtered_count"], shown["total_count"]) == (2, 9)


async def test_a_page_behind_the_last_one_is_refused(cluster):
    with pytest.raises(ApiError) as refused:
        await cluster.nodes["a"].list(page="4", page_size="4")
    assert refused.value.error == "page_out_of_range"


async def test_columns_are_chosen_where_the_object_is(cluster):
    shown, _ = await cluster.nodes["a"].list(columns="name", page="1", page_size="1")
    assert shown["items"] == [{"name": "0"}]


async def test_a_node_that_does_not_answer_is_left_out_and_named(cluster):
    cluster.nodes["b"].answers = False
    shown, left_out = await cluster.nodes["a"].list()
    assert names(shown) == "023568"
    assert left_out == {"b"}


async def test_an_object_that_goes_between_the_two_steps_is_missing(cluster):
    node = cluster.nodes["b"]
    take = node.take

    async def take_and_lose(asked):
        if isinstance(asked.part, WantedRows):
            node.objects.pop("4", None)
        return await take(asked)

    node.take = take_and_lose
    assert names((await cluster.nodes["a"].list())[0]) == "01235678"


async def test_large_objects_come_in_several_answers(cluster, monkeypatch):
    monkeypatch.setattr(joint_listing, "ROWS_BYTES_MAX", 10)
    assert names((await cluster.nodes["a"].list())[0]) == "012345678"
    assert cluster.nodes["c"].asked[1:] == [
        WantedRows([(b"2",), (b"5",), (b"8",)]),
        WantedRows([(b"5",), (b"8",)]),
        WantedRows([(b"8",)]),
    ]


async def test_an_object_whose_node_does_not_answer_is_shown_as_this_node_knows_it():
    joint = functools.partial(JointListing, home=lambda item: item["home"])
    cluster = ListingCluster("a", "b", joint=joint)
    for node in cluster:
        node.add("1", home="a")
        node.add("2", home="b")
    a, b = cluster
    assert [one["node"] for one in (await a.list())[0]] == ["a", "b"]
    b.answers = False
    assert [one["node"] for one in (await a.list())[0]] == ["a", "a"]


# Objects that all nodes know, of which each has a node


@pytest.fixture
def known():
    """Two nodes that know the same objects, of which each has a half."""
    joint = functools.partial(JointListing, home=lambda item: item["home"])
    made = ListingCluster("a", "b", joint=joint, knows_all=True)
    for node in made:
        for number in range(6):
            node.add(f"{number}", home="ab"[number % 2])
    return made


async def test_where_objects_are_is_known_and_only_rows_are_asked_for(known):
    a, b = known
    shown, _ = await a.list()
    assert [one["node"] for one in shown] == ["a", "b"] * 3
    page, _ = await a.list(page="2", page_size="2")
    assert (names(page["items"]), page["total_count"], page["page_count"]) == ("23", 6, 3)
    assert b.asked == [WantedRows([(b"1",), (b"3",), (b"5",)]), WantedRows([(b"3",)])]


async def test_an_object_that_moves_while_it_is_listed_is_listed_by_its_new_node(known):
    a, b = known
    take = b.take

    async def take_and_move(asked):
        for node in known:
            node.add("3", home="a")
            node.add("4", home="b")
        return await take(asked)

    b.take = take_and_move
    shown, _ = await a.list()
    assert [one["name"] + one["node"] for one in shown] == ["0a", "1b", "2a", "3a", "4a", "5b"]


async def test_an_object_that_moves_to_a_third_node_is_fetched_from_there():
    joint = functools.partial(JointListing, home=lambda item: item["home"])
    a, b, c = cluster = ListingCluster("a", "b", "c", joint=joint, knows_all=True)
    for node in cluster:
        node.add("1", home="b")
    take = b.take

    async def take_and_move(asked):
        for node in cluster:
            node.add("1", home="c")
        return await take(asked)

    b.take = take_and_move
    shown, _ = await a.list()
    assert [one["name"] + one["node"] for one in shown] == ["1c"]
    assert len(c.asked) == 1


async def test_an_object_of_a_silent_node_is_shown_as_this_node_knows_it(known):
    a, b = known
    b.answers = False
    shown, left_out = await a.list()
    assert (names(shown), {one["node"] for one in shown}) == ("012345", {"a"})
    assert left_out == {"b"}


async def test_an_object_that_is_deleted_everywhere_is_not_listed(known):
    a, b = known
    take = b.take

    async def take_and_delete(asked):
        for node in known:
            node.objects.pop("3", None)
        return await take(asked)

    b.take = take_and_delete
    assert names((await a.list())[0]) == "01245"


async def test_names_that_are_not_utf_8_are_told_apart(cluster):
    cluster.nodes["b"].add("x\udcff", "x\udcfe", text="")
    cluster.nodes["b"].objects["x\udcff"]["name"] = "x\udcff"
    shown, _ = await cluster.nodes["a"].list(columns="text", page="2", page_size="9")
    assert len(shown["items"]) == 2


@pytest.mark.parametrize(
    "query", [{}, {"sort": "state"}, {"sort": "slow", "page": "2"}, {"page": "1", "name": "7"}]
)
@pytest.mark.parametrize("knows_all", [False, True])
async def test_very_many_objects_are_listed_in_slices(query, knows_all):
    made = ListingCluster("a", "b", knows_all=knows_all)
    a, b = made
    a.add(*map(str, range(3000)), state="running")
    b.add(*map(str, range(3000, 6000)), state="running")
    with made.turns.counted():
        await a.list(**query)
    assert made.turns.longest < TURN_CALLS_MAX


# What all nodes have, with sums


@pytest.fixture
def summed():
    """Two nodes that have the same objects, and count what each has done with them."""
    made = ListingCluster("a", "b", joint=functools.partial(SummedListing, columns=["count"]))
    a, b = made
    a.add("quiet", "busy")
    a.add("here", count={"in": 3, "rate": 0.5})
    b.add("quiet")
    b.add("busy", count={"in": 10, "rate": 2.0})
    b.add("here", count={"in": 4, "rate": 0.25})
    return made


async def test_counts_of_all_nodes_are_added_up(summed):
    shown, _ = await summed.nodes["a"].list()
    assert [one.get("count") for one in shown] == [
        {"in": 10, "rate": 2.0}, {"in": 7, "rate": 0.75}, None
    ]  # fmt: skip
    assert {one["node"] for one in shown} == {"a"}


async def test_sorting_by_a_sum_needs_all_nodes(summed):
    for node in summed:
        shown, _ = await node.list(sort="count.in")
        assert [one["name"] for one in shown] == ["here", "busy", "quiet"]


async def test_no_node_is_asked_for_columns_that_are_no_sums(summed):
    shown, _ = await summed.nodes["a"].list(columns="name")
    assert [one["name"] for one in shown] == ["busy", "here", "quiet"]
    assert not summed.nodes["b"].asked


async def test_a_silent_node_is_asked_once(summed, monkeypatch):
    monkeypatch.setattr(joint_listing, "ROWS_AT_ONCE", 1)
    a, b = summed
    b.answers = False
    await a.list()
    assert b.refused == 1


async def test_a_silent_node_is_missing_in_the_sums(summed):
    a, b = summed
    b.answers = False
    shown, left_out = await a.list()
    assert [one.get("count") for one in shown] == [None, {"in": 3, "rate": 0.5}, None]
    assert left_out == {"b"}
