"""The account of a group finds gaps, and members that are active beside others in peace."""

import pytest

from tests.jepsen.account import SETTLED_SECONDS, WHOLE, Event
from tests.jepsen.group_account import GroupAccount
from tests.jepsen.stream_account import StreamAccount

WHOLE_AT_S = 100.0


@pytest.fixture
def account():
    account = StreamAccount(frozenset({"short"}))
    account.events += [Event(90.0, "kill a", frozenset()), Event(WHOLE_AT_S, WHOLE, frozenset())]
    return account


@pytest.fixture
def group(account):
    return GroupAccount(account, "s")


def begin(group, member, after_s):
    """A member becomes active so long after all nodes were there."""
    group.begins(member, WHOLE_AT_S + after_s)


def test_members_that_follow_each_other(account, group):
    begin(group, "first", 5.0)
    group.took("first", 0)
    group.took("first", 1)
    group.ends("first")
    begin(group, "second", 6.0)
    group.took("second", 1)
    group.took("second", 2)
    group.finished()
    assert (account.wrong, group.next_offset, group.changes) == ([], 3, 2)


def test_a_message_that_is_skipped_over_a_change(account, group):
    begin(group, "first", 5.0)
    group.took("first", 0)
    group.ends("first")
    begin(group, "second", 6.0)
    group.took("second", 2)
    assert account.wrong == ["the group of s: second got offset 2, where 1 comes next"]


def test_a_second_active_member_in_peace(account, group):
    begin(group, "first", 5.0)
    begin(group, "second", SETTLED_SECONDS + 5)
    assert account.wrong == ["the group of s: second becomes active beside first"]


@pytest.mark.parametrize("after_s", [-5.0, SETTLED_SECONDS / 2])
def test_a_second_active_member_while_nodes_may_not_reach_each_other(account, group, after_s):
    begin(group, "first", -20.0)
    begin(group, "second", after_s)
    assert account.wrong == []


def test_two_active_members_in_the_end(account, group):
    begin(group, "first", -20.0)
    begin(group, "second", -5.0)
    group.finished()
    assert account.wrong == ["the group of s: 2 members are active in the end"]


def test_a_message_for_a_member_that_has_stopped(account, group):
    group.took("first", 0)
    assert account.wrong == ["the group of s: first got offset 0 without being active"]
