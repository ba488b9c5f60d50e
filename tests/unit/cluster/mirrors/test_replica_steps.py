"""What a replica does when the record or the links change, as inputs and outputs of its machine.

Node a leads at first; b and c mirror it. Each node has one life unless a test says otherwise.
"""

import pytest

from leveret.cluster.gm.group import Added, Died, HasJoined, Member
from leveret.cluster.mirrors import mirror_record as records
from leveret.cluster.mirrors.replica_steps import (
    Await,
    BeginMirror,
    BeginRing,
    BroadcastMark,
    ChangeRing,
    ContinueAlone,
    DeleteCopy,
    Demote,
    EndMember,
    Follow,
    GiveUpCopy,
    LeadWithCopy,
    LeaveLeader,
    LogText,
    OpenCopy,
    OpenHere,
    PassOnEarly,
    PromoteMirror,
    ReplicaSteps,
    RequestChange,
    SetMembers,
    WhenStable,
)

STORAGE_ID = 40


def member(node, number=1, life=1):
    return Member(node, life, number)


A, B, C = map(member, "abc")
ALONE = records.first("q", 7, A)


def asked(record, new):
    """The record with a member that has yet to begin."""
    return records.joined(record, Added(new, record.leader))


def joined(record, new, *, is_synchronised=True):
    """The record with a member that has its starting state."""
    record = records.ring_changed(asked(record, new), HasJoined(new))
    return records.synchronised(record, new, record.leader) if is_synchronised else record


def died(record, *members, may_lead=False):
    by = next(one.id for one in record.members if one.id not in members)
    return records.died(record, Died(members, by), may_lead_unsynchronised=may_lead)


WITH_B = joined(ALONE, B)
WITH_B_AND_C = joined(WITH_B, C)


def ring(record):
    """What each applied record leads to at a node with a member: the ring has it."""
    return ChangeRing(record.group)


def contents(record):
    """What each applied record leads to: contents go to all members."""
    return SetMembers(tuple(one.id.node for one in record.members), record.group.version)


def without_logs(outputs):
    return [one for one in outputs if not isinstance(one, LogText)]


class Node:
    """The machine of a node, told what its service tells it: see `ReplicaSteps.applied`."""

    def __init__(self, name, *linked, life=1, is_durable=True):
        self.steps = ReplicaSteps(name, life, is_durable)
        for node in linked:
            self.steps.linked(node, 1)
        self.has_messages = False

    def applies(self, record, storage_id=0):
        outputs = self.steps.applied(record, storage_id, self.has_messages)
        kinds = set(map(type, outputs))
        self.has_messages |= bool({BeginMirror, OpenCopy} & kinds)
        return without_logs(outputs)


@pytest.fixture
def a():
    """The node whose queue begins to be mirrored."""
    node = Node("a", "b", "c")
    node.has_messages = True
    node.steps.lead_first()
    return node


@pytest.fixture
def b():
    """A node with a mirror that has joined."""
    node = Node("b", "a", "c")
    node.applies(ALONE)
    node.applies(asked(ALONE, B), STORAGE_ID)
    node.applies(WITH_B)
    return node


class TestMembers:
    def test_a_queue_that_begins_to_be_mirrored_is_led_where_it_lives(self, a):
        assert a.applies(ALONE) == [BeginRing(A), ring(ALONE), contents(ALONE), OpenHere()]

    def test_each_record_goes_to_the_ring_and_names_the_receivers_of_contents(self, a):
        a.applies(ALONE)
        assert a.applies(WITH_B) == [ring(WITH_B), contents(WITH_B)]

    def test_a_mirror_begins_without_messages_and_follows_the_leader(self):
        node, record = Node("b", "a"), asked(ALONE, B)
        assert node.applies(record, STORAGE_ID) == [
            GiveUpCopy(), BeginMirror(2, STORAGE_ID), BeginRing(B), ring(record), contents(record),
            Follow(A),
        ]  # fmt: skip

    def test_one_of_a_queue_that_is_not_durable_needs_no_storage_id(self):
        node = Node("b", is_durable=False)
        assert BeginMirror(2, 0) in node.applies(asked(ALONE, B))

    @pytest.mark.parametrize(
        ("record", "storage_id"), [(asked(ALONE, B), 0), (WITH_B, 0), (WITH_B, STORAGE_ID)]
    )
    def test_one_whose_first_entry_was_skipped_cannot_begin_and_is_reported_dead(
        self, record, storage_id
    ):
        node = Node("b")
        assert node.applies(record, storage_id) == [RequestChange(Died((B,), B)), contents(record)]
        assert node.steps.member is None

    def test_one_that_is_declared_dead_while_it_lives_ends_and_keeps_its_messages(self, b):
        record = died(WITH_B, B)
        assert b.applies(record) == [PassOnEarly(), EndMember(), contents(record)]

    def test_it_comes_again_as_another_member_without_messages(self, b):
        b.applies(died(WITH_B, B))
        again = member("b", 2)
        record = asked(died(WITH_B, B), again)
        begun = [GiveUpCopy(), BeginMirror(5, STORAGE_ID), BeginRing(again)]
        assert b.applies(record, STORAGE_ID)[:3] == begun

    def test_it_does_so_at_once_if_the_records_between_were_skipped(self, b):
        again = member("b", 2)
        record = asked(died(WITH_B, B), again)
        assert b.applies(record, STORAGE_ID) == [
            PassOnEarly(), EndMember(), GiveUpCopy(), BeginMirror(5, STORAGE_ID), BeginRing(again),
            ring(record), contents(record),
        ]  # fmt: skip

    def test_a_member_of_an_earlier_life_is_not_that_of_this_one(self):
        node = Node("b", life=2)
        assert node.applies(WITH_B) == [contents(WITH_B)]


class TestTheLeaderDies:
    LED_BY_B = died(WITH_B_AND_C, A)

    def test_its_oldest_mirror_broadcasts_a_mark_and_leads_when_that_has_gone_round(self, b):
        assert b.applies(self.LED_BY_B) == [
            ring(self.LED_BY_B), contents(self.LED_BY_B), LeaveLeader(), BroadcastMark(),
        ]  # fmt: skip
        b.steps.mark_sent(5)
        assert b.steps.confirmed(4) == []
        assert b.steps.confirmed(5) == [PromoteMirror()]
        assert b.steps.promoted() == [OpenHere()]
        assert b.applies(self.LED_BY_B) == [ring(self.LED_BY_B), contents(self.LED_BY_B)]

    def test_it_does_not_lead_before(self, b):
        b.applies(self.LED_BY_B)
        b.steps.mark_sent(5)
        with pytest.raises(AssertionError, match="MQ8"):
            b.steps.promoted()

    def test_the_mark_is_sent_when_the_member_has_joined(self, b):
        """Its service broadcasts nothing before that, and has no number to tell."""
        b.applies(self.LED_BY_B)
        assert BroadcastMark() in b.applies(self.LED_BY_B)
        b.steps.mark_sent(1)
        assert BroadcastMark() not in b.applies(self.LED_BY_B)

    def test_the_others_turn_to_the_next_leader(self):
        node = Node("c", "a", "b")
        node.applies(asked(WITH_B, C), STORAGE_ID)
        record = self.LED_BY_B
        assert node.applies(record) == [ring(record), contents(record), LeaveLeader(), Follow(B)]

    def test_the_next_one_dies_before_its_mark_has_gone_round(self, b):
        b.applies(self.LED_BY_B)
        b.steps.mark_sent(5)
        b.applies(died(self.LED_BY_B, B))
        assert b.steps.confirmed(5) == []

    def test_the_next_one_is_declared_dead_when_its_mark_has_gone_round(self, b):
        b.applies(self.LED_BY_B)
        b.steps.mark_sent(5)
        b.steps.confirmed(5)
        record = died(self.LED_BY_B, B)
        assert b.applies(record) == [PassOnEarly(), EndMember(), contents(record), Follow(C)]
        assert not b.steps.has_gone_round

    def test_the_queue_is_down_until_its_leader_is_back_if_no_mirror_may_lead(self):
        record = died(joined(ALONE, B, is_synchronised=False), A)
        node = Node("b", "a")
        node.applies(asked(ALONE, B), STORAGE_ID)
        assert node.applies(record) == [ring(record), contents(record), LeaveLeader(), Await()]
        assert node.applies(record) == [ring(record), contents(record)]

    def test_a_mirror_that_lacks_messages_leads_if_the_policy_says_so(self):
        record = died(joined(ALONE, B, is_synchronised=False), A, may_lead=True)
        node = Node("b", "a")
        node.applies(asked(ALONE, B), STORAGE_ID)
        assert node.applies(record)[-1] == BroadcastMark()


class TestALeaderLives:
    def test_it_hands_over_before_the_ring_has_the_next_version(self, a):
        a.applies(ALONE)
        a.applies(WITH_B)
        record = records.promoted(WITH_B, B)
        assert a.applies(record) == [Demote(1), ring(record), contents(record), Follow(B)]

    def test_the_next_one_hands_back(self, b):
        led_by_b = records.promoted(WITH_B, B)
        b.applies(led_by_b)
        b.steps.mark_sent(1)
        b.steps.confirmed(1)
        b.steps.promoted()
        record = records.promoted(led_by_b, A)
        assert b.applies(record) == [Demote(2), ring(record), contents(record), Follow(A)]

    def test_one_that_was_named_for_a_moment_only_does_not_lead(self, b):
        led_by_b = records.promoted(WITH_B, B)
        b.applies(led_by_b)
        b.steps.mark_sent(1)
        record = records.promoted(led_by_b, A)
        assert b.applies(record) == [ring(record), contents(record), Follow(A)]
        assert b.steps.confirmed(1) == []

    def test_one_that_is_declared_dead_while_it_leads_ends_and_follows_the_next_one(self, a):
        a.applies(ALONE)
        a.applies(WITH_B)
        record = died(WITH_B, A)
        assert a.applies(record) == [PassOnEarly(), EndMember(), contents(record), Follow(B)]


class TestTheNodeReturns:
    WAITS = records.vanished(ALONE, [A], [])
    AGAIN = member("a", life=2)

    @pytest.fixture
    def returned(self):
        """The node after its start, with the record and the messages on its disk."""
        node = Node("a", "b", life=2)
        node.applies(self.WAITS, STORAGE_ID)
        return node

    def test_its_messages_are_a_copy(self):
        node = Node("a", life=2)
        found = node.applies(self.WAITS, STORAGE_ID)
        assert found == [OpenCopy(STORAGE_ID), contents(self.WAITS), Await()]

    def test_it_leads_with_them(self, returned):
        record = records.returned(self.WAITS, self.AGAIN)
        assert returned.applies(record) == [
            LeadWithCopy(), BeginRing(self.AGAIN), ring(record), contents(record), OpenHere(),
        ]  # fmt: skip

    def test_without_messages_it_is_reported_dead(self):
        node = Node("a", life=2)
        record = records.returned(self.WAITS, self.AGAIN)
        gone = RequestChange(Died((self.AGAIN,), self.AGAIN))
        assert node.applies(record) == [gone, contents(record)]

    def test_what_has_begun_in_an_earlier_life_waits_for_its_return(self):
        """It stopped before it had applied the first record, whose leader is gone."""
        node = Node("a", life=2)
        node.has_messages = True
        node.steps.lead_first()
        assert node.applies(ALONE) == [PassOnEarly(), EndMember(), contents(ALONE)]
        assert node.applies(self.WAITS) == [contents(self.WAITS), Await()]
        record = records.returned(self.WAITS, self.AGAIN)
        assert node.applies(record)[0] == LeadWithCopy()


class TestCopies:
    DROPPED = records.dropped(WITH_B, B)

    def test_that_of_a_node_that_the_record_does_not_name_goes_when_it_is_stable(self, b):
        outputs = b.applies(self.DROPPED)
        assert outputs == [PassOnEarly(), EndMember(), WhenStable(4), contents(self.DROPPED)]
        assert b.steps.stable(4) == [DeleteCopy()]

    def test_it_is_asked_for_once(self, b):
        b.applies(self.DROPPED)
        assert b.applies(self.DROPPED) == [contents(self.DROPPED)]

    def test_it_stays_if_that_was_undone(self, b):
        b.applies(self.DROPPED)
        b.applies(died(WITH_B, B))
        assert b.steps.stable(4) == []

    def test_if_it_is_of_no_use_again_it_goes_when_the_later_record_is_stable(self, b):
        b.applies(self.DROPPED)
        b.applies(died(WITH_B, B))
        assert WhenStable(6) in b.applies(self.DROPPED)
        assert b.steps.stable(4) == []
        assert b.steps.stable(6) == [DeleteCopy()]

    def test_a_node_without_messages_has_none_to_delete(self):
        assert Node("c").applies(WITH_B) == [contents(WITH_B)]


class TestLinks:
    def test_a_leader_is_followed_when_it_is_linked(self):
        node = Node("c")
        assert node.applies(WITH_B) == [contents(WITH_B)]
        assert node.steps.linked("a", 1) == [contents(WITH_B), Follow(A)]

    def test_another_life_of_its_node_does_not_lead(self):
        node = Node("c")
        node.applies(WITH_B)
        assert node.steps.linked("a", 2) == [contents(WITH_B)]

    def test_a_leader_that_cannot_be_reached_is_left_until_the_link_returns(self):
        node = Node("c", "a", "b")
        node.applies(WITH_B)
        assert node.steps.unlinked("b") == []
        assert node.steps.unlinked("a") == [LeaveLeader()]
        assert node.steps.linked("a", 1) == [contents(WITH_B), Follow(A)]

    def test_the_clients_of_a_queue_that_begins_to_be_mirrored_stay_with_its_leader(self):
        node = Node("b", "a")
        node.steps.follow_first(A)
        assert node.applies(ALONE) == [contents(ALONE)]


class TestMirroringEnds:
    def test_the_leader_goes_on_alone(self, a):
        a.applies(ALONE)
        assert a.steps.unmirrored(is_here=True) == [ContinueAlone()]

    def test_a_mirror_is_given_up_with_its_messages(self, b):
        assert b.steps.unmirrored(is_here=False) == [EndMember(), GiveUpCopy()]

    def test_so_is_a_copy(self):
        node = Node("c", "a")
        node.applies(WITH_B)
        assert node.steps.unmirrored(is_here=False) == [GiveUpCopy()]

    def test_links_do_not_matter_then(self):
        node = Node("c", "a")
        node.applies(WITH_B)
        node.steps.unmirrored(is_here=False)
        assert node.steps.unlinked("a") == []
        assert node.steps.linked("a", 1) == []

    def test_a_queue_that_is_deleted_has_no_member(self, b):
        b.steps.ended()
        assert (b.steps.member, b.steps.is_over) == (None, True)


def test_the_node_that_leads_logs_mirrors_that_come(a):
    a.applies(ALONE)
    assert LogText("adding a mirror on node b") in a.steps.applied(asked(ALONE, B))
