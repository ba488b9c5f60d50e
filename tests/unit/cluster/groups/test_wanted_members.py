"""In which order a group comes to have the members that it is to have."""

from leveret.cluster.groups.wanted_members import WantedMembers, next_change
from leveret.cluster.raft.configuration import Configuration, MemberKind

REACHABLE = {"a/1", "b/2", "c/3", "b/4", "c/4", "d/4", "e/5"}


def steps(now, wanted, me="a/1", reachable=REACHABLE):
    """All changes in their order. Members that can be reached become voters."""
    done = []
    while (change := next_change(now, wanted, me, reachable)) is not None:
        member, membership = change
        done.append(("remove" if membership is None else membership.value, member))
        if membership is None:
            now = now.without_member(member)
        else:
            now = now.with_member(member, membership)
            if membership is MemberKind.VOTER and member in reachable:
                now = now.with_voter(member)
    return done


def test_a_member_is_added_before_another_one_is_removed():
    now = Configuration(("a/1", "b/2", "c/3"))
    assert steps(now, WantedMembers(("a/1", "b/2", "d/4"))) == [
        ("voter", "d/4"), ("remove", "c/3"),
    ]  # fmt: skip


def test_a_lost_member_is_removed_before_the_one_that_takes_its_place_is_added():
    now = Configuration(("a/1", "b/2", "c/3"))
    assert steps(now, WantedMembers(("a/1", "b/4", "c/3"))) == [
        ("remove", "b/2"), ("voter", "b/4"),
    ]  # fmt: skip


def test_the_member_that_leads_is_removed_last():
    now = Configuration(("a/1", "b/2", "c/3"))
    assert steps(now, WantedMembers(("d/4",))) == [
        ("voter", "d/4"), ("remove", "b/2"), ("remove", "c/3"), ("remove", "a/1"),
    ]  # fmt: skip


def test_the_only_voter_stays_until_there_is_another_one():
    assert steps(Configuration(("a/1",)), WantedMembers(())) == []
    # A new member that cannot be reached does not become a voter.
    wanted = WantedMembers(("x/9",))
    assert steps(Configuration(("a/1",)), wanted) == [("voter", "x/9")]
    assert steps(Configuration(("a/1",)), WantedMembers(("e/5",)))[-1] == ("remove", "a/1")


def test_no_member_is_removed_while_a_new_one_catches_up():
    now = Configuration(("a/1", "b/2", "c/3"), ("d/4",))
    wanted = WantedMembers(("a/1", "b/2", "d/4"))
    assert next_change(now, wanted, "a/1", REACHABLE) is None
    assert next_change(now, wanted, "a/1", {"a/1"}) == ("c/3", None), "not for one that is away"


def test_a_member_without_a_vote_is_added_as_such():
    wanted = WantedMembers(("a/1",), ("b/2",))
    assert steps(Configuration(("a/1",)), wanted) == [("non_voter", "b/2")]


def test_a_member_that_is_newer_than_the_wish_stays():
    now = Configuration(("a/1", "d/4"))
    assert steps(now, WantedMembers(("a/1",), (), 4)) == []
    assert steps(now, WantedMembers(("a/1",), (), 5)) == [("remove", "d/4")]
