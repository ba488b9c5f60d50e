"""What a member keeps of one sender: a run of numbers, from both ends of which something goes."""

import pytest

from leveret.cluster.gm.group import Member
from leveret.cluster.gm.pending import PendingBroadcasts


def numbered(first, last):
    return [b"%d" % number for number in range(first, last + 1)]


@pytest.fixture
def pending():
    """Broadcasts 1 to 5."""
    one = PendingBroadcasts(1, Member("a", 1, 1))
    one.extend(5, numbered(1, 5))
    return one


def test_own_broadcasts_are_numbered_from_one():
    one = PendingBroadcasts(1, Member("a", 1, 1))
    assert [one.add(b"x"), one.add(b"y")] == [1, 2]
    assert one.after(0) == [b"x", b"y"]


def test_only_the_difference_is_new(pending):
    assert pending.extend(7, numbered(4, 7)) == numbered(6, 7)
    assert pending.extend(8, numbered(8, 8)) == numbered(8, 8)
    assert pending.after(0) == numbered(1, 8)


def test_a_known_broadcast_is_not_new(pending):
    assert pending.extend(5, numbered(1, 5)) == []
    assert pending.extend(3, numbered(1, 3)) == []
    assert pending.delivered == 5


def test_acknowledged_broadcasts_are_dropped(pending):
    assert pending.acknowledge(3)
    assert pending.after(3) == numbered(4, 5)
    assert not pending.acknowledge(2)
    assert pending.acknowledge(5)
    assert pending.after(5) == []


def test_a_joining_member_begins_with_unacknowledged_broadcasts():
    one = PendingBroadcasts(1, Member("a", 1, 1))
    one.begin(10)
    assert one.extend(12, numbered(9, 12)) == numbered(11, 12)


def test_broadcasts_in_between_must_not_be_missing(pending):
    with pytest.raises(AssertionError, match="GM2"):
        pending.extend(9, numbered(7, 9))


def test_what_was_not_delivered_cannot_be_acknowledged(pending):
    with pytest.raises(AssertionError, match="GM6"):
        pending.acknowledge(6)


def test_what_was_dropped_cannot_be_sent(pending):
    pending.acknowledge(3)
    with pytest.raises(AssertionError, match="GM1"):
        pending.after(2)
