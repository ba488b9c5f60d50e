"""Statistics of several nodes as one."""

from leveret.mgmt.statistics.sums import added, with_others


def test_numbers_are_added_field_by_field():
    own = {"publish": 3, "publish_details": {"rate": 0.1}, "only_here": 1}
    other = {"publish": 4, "publish_details": {"rate": 0.2}, "only_there": 2}
    assert added(own, other) == {
        "publish": 7, "publish_details": {"rate": 0.3}, "only_here": 1, "only_there": 2
    }  # fmt: skip


def test_values_that_are_no_numbers_are_as_this_node_has_them():
    assert added({"state": "running", "durable": True}, {"state": "down", "durable": True}) == {
        "state": "running", "durable": True
    }  # fmt: skip
    assert added(None, 4) == 4


def test_samples_are_added_by_their_places_since_clocks_differ():
    own = [{"sample": 5, "timestamp": 2000}, {"sample": 3, "timestamp": 1000}]
    other = [{"sample": 50, "timestamp": 7002000}]
    assert added(own, other) == [
        {"sample": 55, "timestamp": 2000}, {"sample": 3, "timestamp": 1000}
    ]  # fmt: skip


def test_only_the_columns_that_are_named_are_sums():
    own, others = {"name": "x", "count": 1, "limit": 5}, [{"count": 2, "limit": 5}, {"count": 4}]
    assert with_others(own, others, ["count", "more"]) == {"name": "x", "count": 7, "limit": 5}
