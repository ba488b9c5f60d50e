"""The record of a group: what changes it, what is refused, and who is whose neighbour and heir."""

from itertools import pairwise

import msgspec
import pytest

from leveret.cluster.gm.group import (
    Added,
    Change,
    Died,
    Erased,
    Group,
    HasJoined,
    Member,
    Renewed,
    changed,
    founded,
)
from leveret.cluster.rpc.refused import Refused

A, B, C, D = (Member(name, 1, 1) for name in "abcd")


def ring(*members):
    """A group of members that have joined, in this order."""
    group = founded("orders", 7, members[0])
    for left, new in pairwise(members):
        group = changed(changed(group, Added(new, left)), HasJoined(new))
    return group


def drawn(group):
    """Who has which place; dead ones in brackets, those that have not joined with a mark."""
    names = [
        place.member.node + ("" if place.has_joined else "?")
        if place.is_alive
        else f"({place.member.node})"
        for place in group.places
    ]
    return " ".join(names)


def place(group, member):
    found = group.place_of(member)
    assert found is not None
    return found


def test_a_new_member_comes_right_after_the_one_that_was_asked():
    group = changed(ring(A, B, C), Added(D, A))
    assert drawn(group) == "a d? b c"
    assert drawn(changed(group, HasJoined(D))) == "a d b c"


def test_a_new_member_comes_before_the_dead_on_the_right_of_the_one_that_was_asked():
    """A dead member's heir was its neighbour already, and has all of it that any member has."""
    group = changed(ring(A, B, C), Died((B,), A))
    assert drawn(changed(group, Added(D, A))) == "a d? (b) c"


def test_each_change_raises_the_version_and_each_place_keeps_the_one_that_brought_it():
    group = ring(A, B)
    assert group.version == 3
    assert [one.place_id for one in group.places] == [1, 2]
    assert changed(group, Died((B,), A)).version == 4


def test_neighbours_are_the_next_living_members():
    group = changed(ring(A, B, C, D), Died((B, C), A))
    assert group.right_of(place(group, A)).member == D
    assert group.left_of(place(group, D)).member == A
    assert group.left_of(place(group, A)).member == D


def test_a_single_member_is_its_own_neighbour():
    group = founded("orders", 7, A)
    assert group.left_of(group.places[0]) == group.right_of(group.places[0]) == group.places[0]


@pytest.mark.parametrize(
    ("dead", "heirs"), [((B,), "c"), ((B, C), "dd"), ((D,), "a"), ((C, D), "aa"), ((A, D), "bb")]
)
def test_the_heir_of_a_dead_member_is_the_next_living_one_on_its_right(dead, heirs):
    by = next(one for one in (A, B, C, D) if one not in dead)
    group = changed(ring(A, B, C, D), Died(dead, by))
    acting = [group.sender_or_heir(place(group, one)).member.node for one in dead]
    assert "".join(acting) == heirs


def test_a_living_member_has_no_heir():
    group = ring(A, B)
    assert group.sender_or_heir(place(group, A)).member == A


def test_a_dead_member_is_in_the_record_until_it_is_erased():
    group = changed(ring(A, B, C), Died((B,), C))
    assert drawn(group) == "a (b) c"
    assert drawn(changed(group, Erased((B,)))) == "a c"


def test_a_member_that_has_not_joined_dies_with_the_one_on_its_left():
    group = changed(changed(ring(A, B), Added(C, A)), Added(D, A))
    assert drawn(group) == "a d? c? b"
    assert drawn(changed(group, Died((A,), B))) == "(a) (d) (c) b"
    assert drawn(changed(group, Died((D,), B))) == "a (d) (c) b"


def test_without_a_joined_member_the_oldest_of_the_others_begins_again():
    group = changed(changed(ring(A), Added(B, A)), Added(C, A))
    assert drawn(changed(group, Died((A,), C))) == "b"
    assert drawn(changed(group, Died((A, B), C))) == "c"


def test_a_group_begins_again_when_all_lives_have_ended():
    group = ring(A, B)
    again = changed(group, Renewed(Member("b", 2, 1)))
    assert drawn(again) == "b"
    assert again.version == again.places[0].place_id == group.version + 1


GROUP = changed(changed(ring(A, B, C), Died((B,), A)), Added(D, A))
REFUSED = [
    (Added(D, A), "d:1.1 is, or was, a member of orders, and cannot be added again"),
    (Added(B, A), "b:1.1 is, or was, a member"),
    (Added(Member("a", 2, 1), B), "on the right of b:1.1, which is not a living member"),
    (Added(Member("a", 2, 1), D), "on the right of d:1.1, which is not a living member"),
    (HasJoined(A), "a:1.1 is not a living member of orders that has yet to join"),
    (HasJoined(B), "b:1.1 is not a living member"),
    (Died((B,), A), "none of b:1.1 is a living member of orders"),
    (Died((A,), B), "b:1.1 is not a living member of orders, so it cannot declare others dead"),
    (Died((A, C, D), A), "are all living members of orders"),
    (Erased((A,)), "none of a:1.1 is a dead member of orders"),
    (Renewed(A), "a:1.1 is, or was, a member of orders"),
]


@pytest.mark.parametrize(("change", "reason"), REFUSED)
def test_a_change_that_makes_no_sense_is_refused_with_the_reason(change, reason):
    with pytest.raises(Refused, match=reason):
        changed(GROUP, change)


def test_a_member_that_was_erased_does_not_come_again():
    """A submission that is repeated after its member has died and was erased adds no member."""
    group = changed(changed(ring(A, B), Died((B,), A)), Erased((B,)))
    with pytest.raises(Refused):
        changed(group, Added(B, A))
    assert drawn(changed(group, Added(Member("b", 1, 2), A))) == "a b?"


def test_of_two_that_declare_each_other_dead_one_lives_on():
    group = changed(ring(A, B, C), Died((B,), A))
    with pytest.raises(Refused):
        changed(group, Died((A,), B))
    assert drawn(group) == "a (b) c"


def test_deaths_that_are_told_twice_count_for_living_members():
    group = changed(ring(A, B, C, D), Died((B,), A))
    assert drawn(changed(group, Died((B, C), D))) == "a (b) (c) d"


def test_groups_and_changes_can_be_carried_as_bytes():
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(GROUP), type=Group) == GROUP
    for change, _ in REFUSED:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(change), type=Change) == change
