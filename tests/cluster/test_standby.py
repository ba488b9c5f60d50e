"""A standby that is a cluster: one of its nodes follows, and a promotion holds on all of them."""

import signal

import pytest

from leveret.broker.moving.transfers.placement_by_hash import chosen
from tests.mgmt.standby_nodes import ROUTE, declare, follow, has, status, wait_for_state

QUEUES, SIZES = 2000, 4


@pytest.fixture
def following(nodes):
    """The node that follows, and the other one."""
    by_name = {node.name: node for node in nodes}
    first = by_name.pop(chosen(("schema-replication",), by_name))
    (other,) = by_name.values()
    return first, other


def test_another_node_follows_when_its_node_is_killed(following, upstream):
    follower, other = following
    declare(upstream, "q")
    follow(other, upstream)
    shown = wait_for_state(other, "syncing")
    assert shown["node"] == follower.name
    assert has(follower, "queues", "q")
    follower.stop(signal.SIGKILL)
    declare(upstream, "q2")
    other.wait_until(lambda: has(other, "queues", "q2"), "the other node follows")
    assert status(other)["node"] == other.name
    follower.start()
    declare(upstream, "q3")
    follower.wait_until(lambda: has(follower, "queues", "q3"), "it is followed on both")
    assert has(follower, "queues", "q2")


def test_nothing_is_declared_after_a_promotion_on_another_node(following, upstream):
    """SR1 of broker/policies/schema_replication.py."""
    follower, other = following
    count = promote_during_a_sync(other, upstream)
    for node in (other, follower):
        wait_for_state(node, "promoted")
    follower.wait_until(lambda: "a sync was ended" in follower.log, "the sync has ended")
    assert count_of_queues(other) == count_of_queues(follower) == count


def promote_during_a_sync(node, upstream):
    """Promote when some queues are followed and some are not; return how many are there then.

    A sync that was complete before the promotion is followed by one with more queues.
    """
    for size in range(1, SIZES + 1):
        declare(upstream, *(f"q{size}.{number}" for number in range(size * QUEUES)))
        before = count_of_queues(node)
        follow(node, upstream)
        node.wait_until(lambda least=before: count_of_queues(node) > least, "a sync is under way")
        assert node.post(f"{ROUTE}/promote").status == 204
        count = count_of_queues(node)
        if count < count_of_queues(upstream):
            return count
        assert node.delete(ROUTE).status == 204
    raise AssertionError(f"each of {SIZES} syncs was complete before the promotion")


def count_of_queues(node):
    return node.get("overview?columns=object_totals.queues")["object_totals"]["queues"]


def test_the_node_that_follows_is_told_of_an_operators_acceptance(following, upstream):
    follower, other = following
    declare(upstream, *(f"q{number}" for number in range(20)))
    follow(other, upstream)
    other.wait_until(lambda: has(other, "queues", "q19"), "all are followed")
    for number in range(20):
        upstream.delete(f"queues/%2F/q{number}")
    upstream.wait_until(lambda: upstream.get("queues") == [], "it has no queues")
    wait_for_state(other, "held")
    held = status(other)["syncs"]["held"]
    other.wait_until(lambda: status(other)["syncs"]["held"] > held + 1, "it is still held")
    assert other.post(f"{ROUTE}/accept").status == 204
    other.wait_until(lambda: not has(other, "queues", "q19"), "it is accepted")
    follower.wait_until(lambda: not has(follower, "queues", "q19"), "on both nodes")
