"""Guaranteed multicast: G1 to G7 while no member dies; tests/sim has random runs."""

import pytest

from leveret.cluster.gm.activity import ACTIVITY, MessageHead, MessageWriter
from leveret.cluster.gm.group import Added, Member, changed, founded
from leveret.cluster.gm.outputs import BroadcastsConfirmed, Joined, MembersChanged
from leveret.cluster.gm.ring_member import MESSAGE_BYTES, RingMember
from tests.sim.ring_world import IDENTITY
from tests.unit.cluster.gm.ring_by_hand import RingByHand

A, B = Member("a", 1, 1), Member("b", 1, 1)


def alone():
    machine = RingMember(A)
    machine.group_changed(founded("orders", IDENTITY, A))
    return machine


def messages(outputs):
    return [b"".join(output.pieces) for output in outputs]


def test_a_broadcast_goes_round_and_is_confirmed():
    ring = RingByHand("abc")
    sender = ring.member("a")
    ring.broadcast("a")
    ring.pass_on("a", "b")
    assert (ring.has("b", sender), ring.has("c", sender), ring.told("a")) == (1, 0, 0)
    ring.pass_on("b", "c")
    assert (ring.has("c", sender), ring.told("a")) == (1, 0)
    ring.pass_on("c", "a")
    assert ring.told("a") == 1


def test_all_keep_a_broadcast_until_its_acknowledgement_has_come():
    ring = RingByHand("abc")
    ring.broadcast("a")
    for link in ("ab", "bc", "ca"):
        ring.pass_on(*link)
    assert [ring.machine(name).pending_count for name in "abc"] == [0, 1, 1]
    ring.pass_on("a", "b")
    assert [ring.machine(name).pending_count for name in "abc"] == [0, 0, 1]
    ring.pass_on("b", "c")
    assert ring.machine("c").pending_count == 0
    assert not ring.arrivals(), "who made the acknowledgement does not need it"


def test_the_broadcasts_of_a_round_are_one_message():
    ring = RingByHand("abc")
    ring.broadcast("a", count=3)
    assert len(ring.ways["a", "b"]) == 1
    ring.do(("arrive", "a", "b"))
    ring.do(("broadcast", "b"))
    ring.do(("flush", "b"))
    assert len(ring.ways["b", "c"]) == 1
    ring.settle()
    assert (ring.told("a"), ring.told("b")) == (3, 1)


def test_a_payload_is_not_sent_back_to_its_sender():
    ring = RingByHand("ab")
    ring.broadcast("a")
    assert b"a:1.1 1" in ring.ways["a", "b"][0]
    ring.pass_on("a", "b")
    assert b"a:1.1 1" not in ring.ways["b", "a"][0]
    ring.settle()
    assert ring.told("a") == 1


def test_several_senders_are_delivered_each_in_its_order():
    ring = RingByHand("abcd")
    for name in "abcabd":
        ring.broadcast(name)
    ring.settle()
    sent = {"a": 2, "b": 2, "c": 1, "d": 1}
    for name in "abcd":
        for sender in sent.keys() - {name}:
            assert ring.has(name, ring.member(sender)) == sent[sender]


def test_a_single_member_is_told_at_the_end_of_the_round():
    machine = alone()
    assert machine.broadcast(b"x") == 1
    assert machine.broadcast(b"y") == 2
    assert machine.flush() == [BroadcastsConfirmed(2)]
    assert machine.flush() == []
    assert machine.pending_count == 0


def test_the_first_member_joins_with_the_record():
    machine = RingMember(A)
    assert machine.group_changed(founded("orders", IDENTITY, A)) == [Joined(())]
    assert (machine.left, machine.right) == (None, None)


def test_no_member_broadcasts_before_it_has_joined():
    with pytest.raises(AssertionError, match="joined"):
        RingMember(A).broadcast(b"x")


def test_a_quiet_group_sends_nothing():
    ring = RingByHand("abc")
    ring.broadcast("a")
    ring.settle()
    for name in "abc":
        assert ring.machine(name).flush() == []


# Joining


def test_a_joining_member_delivers_broadcasts_not_delivered_everywhere_and_all_later_ones():
    ring = RingByHand("abc", "ab")
    sender = ring.member("a")
    ring.broadcast("a")
    ring.settle()
    ring.broadcast("a")
    ring.pass_on("a", "b")
    ring.do(("new member", "c"))
    ring.pass_on("c", "b")
    ring.commit()
    ring.apply("b", "c")
    ring.pass_on("b", "c")
    assert ring.history.bases[ring.member("c")][sender] == 1
    assert ring.has("c", sender) == 2
    ring.broadcast("a")
    ring.settle()
    assert ring.has("c", sender) == 3


def test_broadcasts_after_a_change_of_members_are_delivered_by_the_new_member():
    ring = RingByHand("abc", "ab")
    ring.do(("new member", "c"))
    ring.pass_on("c", "b")
    ring.commit()
    ring.apply("a")
    ring.broadcast("a")
    ring.settle()
    assert ring.has("c", ring.member("a")) == 1


def test_a_broadcast_is_not_confirmed_before_the_new_member_has_it():
    """The message of who knows the new member waits with who does not."""
    ring = RingByHand("abc", "ab")
    ring.do(("new member", "c"))
    ring.pass_on("c", "b")
    ring.commit()
    ring.apply("a")
    ring.broadcast("a")
    ring.pass_on("a", "b")
    assert ring.has("b", ring.member("a")) == 0
    ring.apply("b")
    assert ring.has("b", ring.member("a")) == 1
    ring.pass_on("b", "a")
    assert ring.told("a") == 0
    ring.settle()


def test_a_new_member_hears_of_others_that_come_while_it_joins():
    ring = RingByHand("abcd", "a")
    for name in "bcd":
        ring.do(("new member", name))
    ring.broadcast("a")
    ring.settle()
    assert len(ring.ring()) == 4


def test_members_are_told_of_new_members():
    machine = alone()
    group = changed(machine.group, Added(B, A))
    assert machine.group_changed(group)[0] == MembersChanged((B,), ())
    assert (machine.left, machine.right) == (B, B)


# Records and messages


def test_a_record_that_is_not_newer_changes_nothing():
    machine = alone()
    assert machine.group_changed(machine.group) == []


def test_a_message_that_is_not_from_the_left_neighbour_is_dropped():
    """GM3."""
    ring = RingByHand("abc")
    group = ring.log[-1]
    places = {place.member.node: place.place_id for place in group.places}
    writer = MessageWriter(MessageHead(ACTIVITY, IDENTITY, group.version, places["c"], places["b"]))
    writer.add(places["c"], 0, 1, [b"x"])
    assert ring.machine("b").received("c", b"".join(writer.end())) == []


def test_a_damaged_message_is_refused_and_changes_nothing():
    ring = RingByHand("ab")
    ring.broadcast("a")
    message = ring.ways["a", "b"][0]
    for end in range(len(message)):
        if end not in (33, 0):
            with pytest.raises(ValueError, match=r"of a ring|follow"):
                ring.machine("b").received("a", message[:end])
    ring.settle()
    assert ring.has("b", ring.member("a")) == 1


def test_a_damaged_message_of_a_newer_record_is_refused_when_it_comes():
    ring = RingByHand("abc", "ab")
    ring.do(("new member", "c"))
    ring.pass_on("c", "b")
    ring.commit()
    ring.apply("a")
    ring.broadcast("a")
    with pytest.raises(ValueError, match="of a ring"):
        ring.machine("b").received("a", ring.ways["a", "b"][0][:-1])
    ring.settle()


def test_a_large_catch_up_is_several_messages():
    machine, third = alone(), MESSAGE_BYTES // 3
    machine.link_up("b", 1)
    machine.group_changed(changed(machine.group, Added(B, A)))
    for _ in range(7):
        machine.broadcast(bytes(third))
    machine.broadcast(bytes(MESSAGE_BYTES + 1))
    machine.broadcast(b"last")
    sent = messages(machine.flush())
    assert len(sent) == 2 + 6
    assert max(map(len, sent[:-3])) <= MESSAGE_BYTES
    new = RingMember(B)
    new.link_up("a", 1)
    new.group_changed(machine.group)
    outputs = [output for message in sent for output in new.received("a", message)]
    assert outputs[0] == Joined(((A, 0),))
    assert [len(payload) for payload in outputs[1].payloads] == [third] * 7 + [MESSAGE_BYTES + 1, 4]


def test_too_much_that_waits_for_a_record_is_replaced_by_a_catch_up():
    ring = RingByHand("abc", "ab", early_bytes_max=100)
    ring.do(("new member", "c"))
    ring.pass_on("c", "b")
    ring.commit()
    ring.apply("a")
    for _ in range(5):
        ring.broadcast("a")
        ring.pass_on("a", "b")
    assert len(ring.machine("b")._early) == 0
    ring.settle()
    assert ring.has("b", ring.member("a")) == 5
