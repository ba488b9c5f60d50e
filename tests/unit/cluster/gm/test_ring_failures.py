"""What happens to broadcasts when members die, links break, and both at once."""

import pytest

from leveret.cluster.gm.activity import ACTIVITY, MessageHead, MessageWriter
from leveret.cluster.gm.group import Died, Member
from leveret.cluster.gm.outputs import (
    BroadcastsConfirmed,
    DeliverBroadcasts,
    Expelled,
    StartPause,
    SubmitChange,
)
from leveret.cluster.gm.ring_member import RingMember
from tests.unit.cluster.gm.ring_by_hand import RingByHand


def bring_round(ring, links):
    for link in links.split():
        ring.pass_on(*link)


# The sender dies


@pytest.mark.parametrize("links", ["ab", "ab bc", "ab bc cd", "ab bc cd da", "ab bc cd da ab"])
def test_a_broadcast_that_one_has_when_its_sender_dies_all_deliver(links):
    ring = RingByHand("abcd")
    sender = ring.member("a")
    ring.broadcast("a")
    bring_round(ring, links)
    ring.crash("a")
    ring.settle()
    assert [ring.has(name, sender) for name in "bcd"] == [1, 1, 1]
    assert ring.ring() == "bcd"


def test_a_broadcast_that_dies_with_its_sender_is_not_delivered():
    ring = RingByHand("abcd")
    sender = ring.member("a")
    ring.broadcast("a")
    ring.crash("a", kept=0)
    ring.settle()
    assert [ring.has(name, sender) for name in "bcd"] == [0, 0, 0]


def test_of_several_broadcasts_those_are_delivered_that_left_the_sender():
    ring = RingByHand("abc")
    sender = ring.member("a")
    for _ in range(3):
        ring.broadcast("a")
    ring.crash("a", kept=2)
    ring.settle()
    assert [ring.has(name, sender) for name in "bc"] == [2, 2]


def test_the_heir_dies_as_well():
    """Node c has the broadcast from b, which dies: d did not hear of it, and has to."""
    ring = RingByHand("abcd")
    sender = ring.member("a")
    ring.broadcast("a")
    bring_round(ring, "ab bc")
    ring.crash("a")
    ring.crash("b", kept=0)
    ring.settle()
    assert [ring.has(name, sender) for name in "cd"] == [1, 1]
    assert ring.ring() == "cd"


def test_the_heir_dies_after_it_has_recorded_the_death():
    ring = RingByHand("abcd")
    sender = ring.member("a")
    ring.broadcast("a")
    bring_round(ring, "ab bc")
    ring.crash("a")
    ring.declare_dead("a", by="b")
    ring.apply("b", "c")
    ring.crash("b", kept=0)
    ring.settle()
    assert [ring.has(name, sender) for name in "cd"] == [1, 1]


# Those between


@pytest.mark.parametrize("dead", ["b", "c", "d", "bc", "cd", "bd", "bcd"])
@pytest.mark.parametrize("links", ["", "ab", "ab bc", "ab bc cd", "ab bc cd da", "ab bc cd da ab"])
def test_a_living_sender_is_told_of_any_death(links, dead):
    """Several deaths at once, wherever the broadcast and its acknowledgement are."""
    ring = RingByHand("abcd")
    ring.broadcast("a")
    bring_round(ring, links)
    for name in dead:
        ring.crash(name, kept=0)
    ring.settle()
    assert ring.told("a") == 1
    assert ring.ring() == "".join(name for name in "abcd" if name not in dead)


def test_a_member_left_alone_is_told_all():
    ring = RingByHand("ab")
    ring.broadcast("a", count=2)
    ring.crash("b", kept=0)
    ring.settle()
    assert ring.told("a") == 2


def test_a_death_that_not_all_have_applied_brings_nothing_twice():
    """Node a knows of b's death and sends to c, which does not: c waits for the record."""
    ring = RingByHand("abc")
    sender = ring.member("a")
    ring.broadcast("a")
    bring_round(ring, "ab bc")
    ring.crash("b")
    ring.declare_dead("b", by="a")
    ring.apply("a")
    ring.broadcast("a")
    ring.pass_on("a", "c")
    assert ring.has("c", sender) == 1
    ring.apply("c")
    assert ring.has("c", sender) == 2
    ring.settle()


@pytest.fixture
def short_neighbour():
    """A ring of a and b. Node c was between b and a for a while, and b has not heard of it.

    The first broadcast of b came while a had c on its left: a has dropped it.
    """
    ring = RingByHand("abc", "ab")
    ring.do(("new member", "c"))
    ring.pass_on("c", "b")
    ring.commit()
    ring.apply("a")
    ring.broadcast("b")
    ring.pass_on("b", "a")
    ring.crash("c", kept=0)
    ring.declare_dead("c", by="a")
    ring.apply("a")
    assert ring.has("a", ring.member("b")) == 0
    return ring


def test_a_member_that_skips_records_sends_a_catch_up(short_neighbour):
    """The right neighbour may have had another left one meanwhile."""
    ring = short_neighbour
    ring.skip_to_newest("b")
    ring.broadcast("b")
    ring.settle()
    assert ring.has("a", ring.member("b")) == 2


def test_what_a_left_neighbour_sent_before_it_became_that_is_dropped(short_neighbour):
    ring = short_neighbour
    ring.broadcast("b")
    ring.pass_on("b", "a")
    assert ring.has("a", ring.member("b")) == 0
    ring.settle()
    assert ring.has("a", ring.member("b")) == 2


def test_a_member_that_skips_records_takes_the_catch_up_of_one_of_them():
    """Node c gets a new left neighbour by a record that it never sees."""
    ring = RingByHand("abcd")
    sender = ring.member("a")
    ring.broadcast("a")
    ring.crash("b")
    ring.declare_dead("b", by="a")
    ring.apply("a")
    ring.crash("d")
    ring.declare_dead("d", by="a")
    ring.apply("a")
    ring.pass_on("a", "c")
    ring.skip_to_newest("c")
    ring.settle()
    assert ring.has("c", sender) == 1


# Links


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_link_that_comes_back_in_time_costs_a_catch_up_and_no_member(kept):
    ring = RingByHand("abc")
    sender = ring.member("a")
    for _ in range(3):
        ring.broadcast("a")
    ring.do(("break", "a", "b", kept))
    ring.pass_on("a", "b")
    ring.pass_on("b", "a")
    assert ring.nodes["a"].pauses == [ring.member("b")]
    assert ring.has("b", sender) == kept
    ring.do(("connect", "a", "b"))
    ring.broadcast("a")
    ring.settle()
    assert ring.has("b", sender) == 4
    assert ring.ring() == "abc"


def test_a_pause_that_began_before_the_link_came_back_does_not_count():
    ring = RingByHand("ab")
    for _ in range(2):
        ring.do(("break", "a", "b", 0))
        bring_round(ring, "ab ba")
        ring.do(("connect", "a", "b"))
        bring_round(ring, "ab ba")
    ring.do(("break", "a", "b", 0))
    bring_round(ring, "ab ba")
    pauses = ring.nodes["a"].pauses[:]
    assert len(pauses) == 3
    for pause in pauses[:2]:
        ring.do(("pause over", "a", pause))
    assert not ring.submissions
    ring.do(("pause over", "a", pauses[2]))
    assert [change for change, _ in ring.submissions] == [
        Died((ring.member("b"),), ring.member("a"))
    ]


def test_two_that_lose_the_link_between_them_do_not_both_die():
    ring = RingByHand("abc")
    one, other = ring.member("a"), ring.member("b")
    ring.do(("break", "a", "b", 0))
    bring_round(ring, "ab ba")
    ring.do(("pause over", "a", other))
    ring.do(("pause over", "b", one))
    ring.commit()
    assert ring.ring() == "ac"
    ring.apply("b")
    assert ring.machine("b") is None, "it is expelled"


def test_a_living_member_that_is_declared_dead_is_told_and_joins_again():
    ring = RingByHand("abc")
    ring.do(("break", "a", "b", 0))
    bring_round(ring, "ab ba")
    ring.do(("pause over", "a", ring.member("b")))
    ring.commit()
    ring.broadcast("b")
    ring.do(("connect", "a", "b"))
    ring.settle()
    assert set(ring.ring()) == set("abc")
    assert ring.member("b") == Member("b", 1, 2)


def test_an_expelled_member_does_nothing():
    ring = RingByHand("ab")
    machine = ring.machine("b")
    ring.broadcast("a")
    message = ring.ways["a", "b"][0]
    ring.do(("break", "a", "b", 0))
    bring_round(ring, "ab ba")
    ring.do(("pause over", "a", ring.member("b")))
    ring.commit()
    assert machine.group_changed(ring.log[-1]) == [Expelled()]
    assert machine.link_up("a", 1) == machine.link_down("a") == machine.flush() == []
    assert machine.pause_over(ring.member("a")) == machine.received("a", message) == []


@pytest.mark.parametrize(("pauses", "deaths"), [("bc", ["b", "c"]), ("cb", ["bc"])])
def test_a_neighbour_is_declared_dead_with_those_behind_it_whose_pause_is_over(pauses, deaths):
    ring = RingByHand("abcd")
    ring.crash("b", kept=0)
    ring.crash("c", kept=0)
    ring.pass_on("b", "a")
    ring.pass_on("c", "a")
    for name in pauses:
        ring.do(("pause over", "a", Member(name, 1, 1)))
    found = ["".join(one.node for one in change.members) for change, _ in ring.submissions]
    assert found == deaths


def test_a_node_that_started_again_has_no_pause():
    """Its incarnation shows that the life of its member has ended."""
    ring = RingByHand("ab")
    machine = ring.machine("a")
    assert machine.link_down("b") == [StartPause(Member("b", 1, 1))]
    assert machine.link_up("b", 2) == [SubmitChange(Died((Member("b", 1, 1),), Member("a", 1, 1)))]


# Joins and deaths


def start_join(ring, name="c", asked="b"):
    ring.do(("new member", name))
    ring.pass_on(name, asked)
    ring.commit()


@pytest.mark.parametrize("applied", ["", "a", "b", "c", "ab", "bc", "abc"])
def test_the_member_that_was_asked_dies_while_the_new_one_joins(applied):
    ring = RingByHand("abc", "ab")
    asked = ring.member("b")
    ring.broadcast("b")
    start_join(ring)
    ring.broadcast("a")
    ring.apply(*applied)
    ring.crash("b", kept=1)
    ring.settle()
    assert set(ring.ring()) == set("ac")
    assert ring.told("a") == 1
    # What b sent is dropped where c is the left neighbour already.
    assert ring.has("a", asked) == (0 if "a" in applied else 1)


def test_the_member_that_was_asked_dies_before_it_has_submitted_the_join():
    ring = RingByHand("abc", "ab")
    ring.do(("new member", "c"))
    ring.crash("b")
    ring.settle()
    assert set(ring.ring()) == set("ac")


@pytest.mark.parametrize("applied", ["", "a", "b", "c", "ab", "abc"])
def test_the_new_member_dies_while_it_joins(applied):
    ring = RingByHand("abc", "ab")
    start_join(ring)
    ring.broadcast("a")
    ring.broadcast("b")
    ring.apply(*applied)
    ring.crash("c", kept=0)
    ring.settle()
    assert ring.ring() == "ab"
    assert (ring.told("a"), ring.told("b")) == (1, 1)


@pytest.mark.parametrize("dead", "ab")
def test_a_member_joins_while_another_one_dies(dead):
    ring = RingByHand("abcd", "abc")
    sender = ring.member("a")
    ring.broadcast("a")
    bring_round(ring, "ab")
    ring.crash(dead)
    start_join(ring, "d", "c")
    ring.broadcast("c")
    ring.settle()
    assert ring.has("c", sender) == 1
    assert ring.told("c") == 1
    assert set(ring.ring()) == set("abcd") - {dead}


def test_if_only_new_members_live_one_of_them_begins_again():
    ring = RingByHand("abc", "a")
    ring.do(("new member", "b"))
    ring.do(("new member", "c"))
    bring_round(ring, "ba ca")
    ring.commit()
    ring.apply("b", "c")
    ring.crash("a", kept=0)
    ring.settle()
    assert set(ring.ring()) == set("bc")


def test_the_old_and_the_new_life_of_a_node_are_told_apart():
    ring = RingByHand("abc")
    ring.broadcast("a")
    ring.crash("a", kept=0)
    ring.do(("start", "a"))
    for other in "bc":
        ring.pass_on("a", other)
        ring.do(("connect", "a", other))
    ring.settle()
    assert ring.member("a") == Member("a", 2, 1)
    ring.broadcast("a")
    ring.settle()
    assert ring.told("a") == 1


def test_a_group_all_of_whose_lives_have_ended_begins_again():
    ring = RingByHand("ab")
    ring.crash("a", kept=0)
    ring.crash("b", kept=0)
    ring.do(("start", "a"))
    ring.do(("start", "b"))
    ring.do(("connect", "a", "b"))
    ring.settle()
    assert set(ring.ring()) == set("ab")
    assert ring.log[-1].version > 3


# G7


def test_what_a_dead_sender_left_comes_before_the_first_confirm_after_its_death():
    """The next leader, c, hears of all of a's broadcasts by the time its own is confirmed."""
    ring = RingByHand("abcd")
    sender = ring.member("a")
    ring.broadcast("a")
    ring.pass_on("a", "b")
    ring.crash("a")
    ring.declare_dead("a", by="b")
    ring.apply("c")
    ring.broadcast("c")
    assert ring.has("c", sender) == 0
    ring.settle()
    assert (ring.has("c", sender), ring.told("c")) == (1, 1)


def test_a_confirm_follows_what_the_same_message_delivers():
    ring = RingByHand("ab")
    machine, group = ring.machine("b"), ring.log[-1]
    machine.broadcast(b"own")
    machine.flush()
    a, b = (place.place_id for place in group.places)
    writer = MessageWriter(MessageHead(ACTIVITY, group.identity, group.version, a, b))
    writer.add(b, 0, 1, [])
    writer.add(a, 0, 1, [b"x"])
    assert machine.received("a", b"".join(writer.end())) == [
        DeliverBroadcasts(Member("a", 1, 1), [b"x"]),
        BroadcastsConfirmed(1),
    ]


def test_a_machine_without_a_record_waits():
    machine = RingMember(Member("a", 1, 1))
    assert machine.flush() == machine.link_up("b", 1) == machine.link_down("b") == []
