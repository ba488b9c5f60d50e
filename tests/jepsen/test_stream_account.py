"""The account of a run with streams finds gaps, other contents, and what was stored twice."""

import pytest

from tests.jepsen.stream_account import Reading, StoredOffset, StreamAccount

BODIES = [b"named>s#1 x", b"a>s#1 ", b"named>s#2 xy"]


@pytest.fixture
def account():
    account = StreamAccount(frozenset({"short"}))
    account.published |= {"named>s#1", "named>s#2", "named>s#3", "a>s#1", "a>s#2", "a>short#1"}
    return account


def read(account, bodies, queue="s", first=0):
    reading = Reading(account, queue, "a reader")
    for offset, body in enumerate(bodies, first):
        reading.take(offset, body)
    return reading


def finish(account, *stored, queue="s"):
    """All is over: each node has read these bodies."""
    account.last[queue] = [read(account, bodies, queue) for bodies in stored]
    return account.problems()


def test_readings_of_the_same_messages_have_no_problems(account):
    read(account, BODIES[1:], first=1)
    account.confirm("a>s#1", "a", "s", 1.0)
    assert finish(account, BODIES, BODIES) == []


def test_an_entry_is_known_by_what_follows_its_head(account):
    read(account, [b"\0Su\xa0" + body for body in BODIES])
    assert finish(account, BODIES) == []


def test_a_reading_with_a_gap(account):
    reading = read(account, BODIES[:1])
    reading.take(2, BODIES[2])
    assert account.wrong == ["a reader got offset 2 of s for 1"]


def test_retention_overtakes_a_reading(account):
    reading = read(account, [b"a>short#1 "], "short")
    reading.take(7, b"a>short#1 ")
    assert account.wrong == []


def test_what_was_delivered_and_is_not_stored(account):
    read(account, [BODIES[0], b"a>s#2 "])
    (problem,) = finish(account, BODIES)
    assert problem == "a reader got a>s#1 at 1 of s, where a>s#2 was"


def test_what_was_confirmed_and_is_not_stored(account):
    account.confirm("named>s#3", "a", "s", 1.0)
    (problem,) = finish(account, BODIES)
    assert problem.startswith("1 confirmed and missing: named>s#3")


def test_members_that_end_at_different_offsets(account):
    assert finish(account, BODIES, BODIES[:2]) == ["members of s end at different offsets"]


@pytest.mark.parametrize(
    ("bodies", "problem"),
    [
        ([b"a>s#1 ", b"a>s#1 "], "a>s#1 follows #1 in s"),
        ([b"a>s#2 ", b"a>s#1 "], "a>s#1 follows #2 in s"),
        ([b"named>s#1 ", b"named>s#3 "], "named>s#3 follows #1 in s"),
    ],
)
def test_messages_stored_twice_or_in_another_order(account, bodies, problem):
    assert finish(account, bodies) == [problem]


def test_a_stored_offset_that_was_lost_is_found():
    account = StreamAccount()
    offset = StoredOffset(account, "s")
    offset.stored = 3
    offset.doubtful.add(2)
    offset.through["a"] = 1
    for found in (3, 4, 2, 1):
        offset.found(found, "a")
    assert account.wrong == []
    offset.found(1, "b")
    assert account.wrong == ["b has the stored offset 1 of s after 3"]
