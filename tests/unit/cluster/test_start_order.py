"""Which node of a stopped cluster starts without another one."""

from leveret.cluster.membership.start_order import Joins, MayStart, StartOrder, WaitsFor
from leveret.cluster.metadata.messages import (
    RUNNING,
    STARTING,
    AnnounceStatus,
    MetadataPosition,
    ViewId,
    ViewMember,
)


def status(
    name, *, members="abc", epoch=1, index=10, phase=STARTING, is_disc=True, takes_from=(),
    companions=()
):  # fmt: skip
    view = ViewId(epoch, "a", 0)
    return AnnounceStatus(
        view=view,
        members=tuple(ViewMember(one, 0) for one in members),
        member=ViewMember(name, 1, is_disc),
        position=MetadataPosition(view, index),
        phase=phase,
        is_fenced=False,
        links=(),
        takes_from=takes_from,
        companions=tuple(companions),
    )


def decide(own, others, companions="abc", **options):
    order = StartOrder(own, frozenset(companions), waits_max=10, wait_ms=1000, **options)
    return order.decide(others)


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


def test_force_boot_waits_for_no_node():
    assert decide(status("a"), [], is_forced=True) == MayStart()


def test_a_node_names_the_nodes_it_waited_for_when_it_gives_up():
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


def test_a_node_that_is_patient_does_not_give_up():
    order = StartOrder(status("a"), frozenset("abc"), waits_max=None, wait_ms=1000)
    lines = {order.waited() for _ in range(20)}
    assert lines == {
        (
            True,
            "Waiting for nodes b, c, which may have run after this node was stopped, for 1000 ms",
        )
    }


def is_most_of_five(names):
    return len(names) > 2


def test_a_majority_does_not_wait_for_nodes_that_cannot_have_run_on():
    a, b, c = (status(name, members="abcde") for name in "abc")
    told = {"companions": "abcde", "is_majority": is_most_of_five}
    assert decide(a, [b], **told) == WaitsFor(("b", "c", "d", "e"))
    assert decide(a, [b, c], **told) == MayStart(("b", "c"))
    assert decide(b, [a, c], **told) == WaitsFor(("a",))


def test_nodes_that_are_no_majority_wait_even_if_they_were_the_last_ones():
    a, b = status("a", members="ab"), status("b", members="ab")
    assert decide(a, [b], companions="ab", is_majority=is_most_of_five) == WaitsFor(("b",))


def test_nodes_that_keep_nothing_on_disk_are_no_part_of_a_majority():
    a, b, c = status("a", members="abcde"), status("b", is_disc=False), status("c")
    told = {"companions": "abcde", "is_majority": is_most_of_five}
    assert decide(a, [b, c], **told) == WaitsFor(("b", "c", "d", "e"))


def test_a_node_that_takes_everything_from_another_counts_for_a_majority_with_it():
    a, b = status("a", members="abc"), status("b", members="abc")
    e = status("e", members="abce", epoch=0, takes_from=("a", "d"))
    told = {"companions": "abc", "is_majority": is_most_of_five}
    assert decide(a, [b, e], **told) == MayStart(("b", "e"))
    assert decide(b, [a, e], **told) == WaitsFor(("a",))
    assert decide(e, [a, b], **told) == WaitsFor(("a", "d"))
    assert decide(b, [status("c"), e], **told) == WaitsFor(("a", "c"))


def test_a_node_that_gives_up_names_those_it_has_to_take_everything_from():
    order = StartOrder(status("a", takes_from=("c",)), frozenset("ab"), waits_max=0, wait_ms=1000)
    assert order.waited()[1].startswith("Error while waiting for nodes c,")


def test_a_node_waits_for_those_that_a_ram_node_may_have_let_in():
    a, d = status("a"), status("d", epoch=2, members="bd")
    b = status("b", is_disc=False, companions="bcd")
    c = status("c", is_disc=False, companions="bc")
    assert decide(a, [b], companions="ab") == WaitsFor(("b", "c", "d"))
    assert decide(a, [b, c], companions="ab") == WaitsFor(("b", "c", "d"))
    assert decide(a, [b, c, d], companions="ab") == WaitsFor(("d",))
    assert decide(d, [a, b, c], companions="bd") == MayStart()
    assert decide(a, [status("b", is_disc=False, companions="ab")], companions="ab") == MayStart()


def test_a_loser_waits_for_the_winners_whatever_others_wait():
    loser = status("a", takes_from=("b", "c"))
    assert decide(loser, [status("b"), status("d")]) == WaitsFor(("b", "c"))
    assert decide(loser, [status("b", is_disc=False)]) == WaitsFor(("b", "c"))


def test_winners_that_have_lost_everything_are_not_waited_for():
    loser, winner = status("a", takes_from=("c",)), status("c", is_disc=False)
    other = status("b", index=12, takes_from=("c",))
    assert decide(loser, [winner, other]) == WaitsFor(("b",))
    assert decide(other, [winner, loser]) == MayStart()


def test_nodes_that_wait_for_each_other_do_not_wait_for_ever():
    a, b = status("a", members="ab", takes_from=("b",)), status("b", members="ab", takes_from="a")
    assert decide(a, [b], companions="ab") == MayStart()
    assert decide(b, [a], companions="ab") == WaitsFor(("a",))
