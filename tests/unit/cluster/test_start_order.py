"""Which node of a stopped cluster starts without another one."""

from leveret.cluster.membership.start_order import Joins, MayStart, StartOrder, WaitsFor
from leveret.cluster.metadata.messages import (
    RUNNING,
    STARTING,
    Member,
    Position,
    Status,
    ViewId,
)


def status(name, *, members="abc", epoch=1, index=10, phase=STARTING, is_disc=True, takes_from=()):
    view = ViewId(epoch, "a", 0)
    return Status(
        view=view,
        members=tuple(Member(one, 0) for one in members),
        member=Member(name, 1, is_disc),
        position=Position(view, index),
        phase=phase,
        is_fenced=False,
        links=(),
        takes_from=takes_from,
    )


def decide(own, others, companions="abc", **options):
    return StartOrder(own, frozenset(companions), **options).decide(others)


def test_the_node_that_stopped_last_starts():
    assert decide(status("a"), [], companions="a") == MayStart()


def test_a_node_waits_for_those_that_may_have_run_on():
    assert decide(status("a"), [status("b")]) == WaitsFor(("b", "c"))


def test_a_running_node_is_joined():
    assert decide(status("a"), [status("c", phase=RUNNING)]) == Joins("c")


def test_of_nodes_that_stopped_at_once_the_longest_log_starts():
    a, b, c = status("a", index=10), status("b", index=12), status("c", index=11)
    assert decide(b, [a, c]) == MayStart()
    assert decide(a, [b, c]) == decide(c, [a, b]) == WaitsFor(("b",))


def test_of_equal_logs_the_node_that_joined_first_starts():
    a, b, c = (status(name, members="bca") for name in "abc")
    assert decide(b, [a, c]) == MayStart()
    assert decide(a, [b, c]) == WaitsFor(("b",))


def test_a_later_view_counts_more_than_a_longer_log():
    a, b = status("a", index=12), status("b", epoch=2, members="bc", index=11)
    assert decide(a, [b, status("c")]) == WaitsFor(("b",))


def test_a_node_that_waits_for_a_winner_of_autoheal_does_not_start_before_it():
    loser = status("b", epoch=9, takes_from=("a",))
    assert decide(loser, [status("a"), status("c")]) == WaitsFor(("a",))
    assert decide(status("a"), [loser, status("c")]) == MayStart()


def test_a_ram_node_waits_for_any_disc_node():
    ram = status("a", is_disc=False)
    assert decide(ram, [status("b"), status("c")]) == WaitsFor(("b", "c"))
    assert decide(ram, [status("b", phase=RUNNING)]) == Joins("b")


def test_force_boot_waits_for_nobody():
    assert decide(status("a"), [], is_forced=True) == MayStart()


def test_a_node_gives_up_and_names_whom_it_waited_for():
    order = StartOrder(status("a"), frozenset("abc"), waits_max=2, wait_ms=1000)
    assert order.waited() == (
        True,
        "Waiting for nodes b, c, which may have run after this node was stopped, for 1000 ms,"
        " 1 retries left",
    )
    goes_on, _ = order.waited()
    assert goes_on
    goes_on, line = order.waited()
    assert not goes_on
    assert "nodes b, c" in line
    assert "force_boot" in line
