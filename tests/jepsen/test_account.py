"""The account of a run finds what is lost, and when publishing stood still."""

import pytest

from tests.jepsen.account import Account, Event


@pytest.fixture
def account():
    """Three messages were published, and confirmed a second apart; two were consumed."""
    account = Account()
    account.events.append(Event(1.5, "kill b", frozenset("ac")))
    for number, message in enumerate(("1", "2", "3"), 1):
        account.published.add(message)
        account.confirm(message, "a", "q", float(number))
    account.consumed.update(["1", "2"])
    return account


def test_a_missing_confirmed_message_is_reported_with_the_events_before_it(account):
    (problem,) = account.problems()
    assert problem == "1 confirmed and missing: 3 (at 3.00, kill b)"


def test_messages_discarded_to_a_file_are_not_missing(account):
    account.discarded.add("3")
    assert account.problems() == []


def test_what_was_not_confirmed_may_be_missing(account):
    account.published.add("4")
    account.consumed["3"] += 1
    assert account.problems() == []


def test_a_message_that_was_never_published_is_reported(account):
    account.consumed.update(["3", "5"])
    assert account.problems() == ["1 consumed and never published: 5"]


def test_what_comes_again_is_counted(account):
    account.consumed.update(["1", "1", "2"])
    assert account.duplicates == 3


def test_the_longest_standstill_after_an_event_at_the_nodes_that_it_spared(account):
    account.confirm("6", "a", "q", 5.0)
    account.confirm("7", "b", "q", 2.0)
    account.confirm("8", "b", "q", 60.0)
    (longest,) = account.standstills()
    assert (longest.seconds, longest.after, longest.at_s) == (2.0, "kill b", 3.0)
