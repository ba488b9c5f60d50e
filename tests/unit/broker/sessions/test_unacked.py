"""Unacknowledged deliveries."""

from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.broker.sessions.unacked import PUT_BACK_AT_ONCE, PUT_BACK_WORK, UnackedMessages
from leveret.broker.sessions.unacked_record import Unacked
from leveret.storage.messages.message import Entry, Message
from tests.unit.storage.fakes import ADDRESS

MESSAGE = Message(ADDRESS, None, b"")

RUN = settings(max_examples=200, deadline=None, database=None, derandomize=True)


def record(tag):
    """A delivery, identified by its position."""
    return Unacked(Entry(MESSAGE, tag), None, None, 0)


def delivered(*tags):
    """Return the unacknowledged deliveries with these tags."""
    unacked = UnackedMessages()
    for tag in tags:
        unacked.records[tag] = record(tag)
    return unacked


def tags_of(taken):
    """Return the tags, each of which must have its own record."""
    for tag, one in taken:
        assert one.entry.position == tag
    return [tag for tag, _ in taken]


def put_back(unacked, taken, next_tag=1000):
    """Open what was taken again, in as many steps as it takes."""
    for _ in unacked.putting_back(iter(taken), next_tag):
        pass


def test_a_tag_is_taken_once():
    unacked = delivered(1, 2, 3)
    assert unacked.take(2).entry.position == 2
    assert unacked.take(2) is None
    assert len(unacked) == 2


def test_a_tag_that_was_never_given_is_not_open():
    unacked = delivered(1, 2)
    assert unacked.take(3) is None
    assert unacked.take_up_to(3) is None
    assert len(unacked) == 2


def test_multiple_takes_all_up_to_the_tag_in_order():
    unacked = delivered(1, 2, 3, 4, 5)
    unacked.take(2)
    assert tags_of(unacked.take_up_to(4)) == [1, 3, 4]
    assert tags_of(unacked) == [5]


def test_multiple_needs_its_own_tag_to_be_open():
    unacked = delivered(1, 2, 3)
    unacked.take(2)
    assert unacked.take_up_to(2) is None
    assert tags_of(unacked) == [1, 3]


def test_tag_0_takes_all():
    unacked = delivered(1, 2, 3)
    assert tags_of(unacked.take_up_to(0)) == [1, 2, 3]
    assert unacked.take_up_to(0) == []
    assert len(unacked) == 0


def test_a_tag_far_ahead_of_the_lowest():
    unacked = delivered(*range(1, 1001))
    for tag in range(2, 1001):
        unacked.take(tag)
    unacked.records[1001] = record(1001)
    assert tags_of(unacked.take_up_to(1001)) == [1, 1001]


def test_what_was_taken_can_be_put_back():
    unacked = delivered(1, 2, 3, 4)
    taken = unacked.take_up_to(3)
    assert tags_of(unacked) == [4]
    put_back(unacked, taken)
    assert tags_of(unacked) == [1, 2, 3, 4]
    assert tags_of(unacked.take_up_to(2)) == [1, 2]


def test_the_oldest_has_the_lowest_tag():
    unacked = delivered(1, 2, 3)
    assert unacked.oldest().entry.position == 1
    unacked.take(1)
    assert unacked.oldest().entry.position == 2
    unacked.take_all()
    assert unacked.oldest() is None


@RUN
@given(
    st.lists(
        st.one_of(
            st.just(("deliver", 0)),
            st.tuples(st.sampled_from(["take", "take_up_to", "put_back"]), st.integers(0, 30)),
        ),
        max_size=60,
    )
)
def test_it_is_a_sorted_list_of_open_tags(steps):
    unacked, open_tags, next_tag = UnackedMessages(), [], 1
    rolled_back = []
    for step, tag in steps:
        if step == "deliver":
            unacked.records[next_tag] = record(next_tag)
            open_tags.append(next_tag)
            next_tag += 1
        elif step == "take" and tag < next_tag:
            taken = unacked.take(tag)
            assert (taken is not None) == (tag in open_tags)
            rolled_back = [(tag, taken)] if taken is not None else []
            open_tags = [other for other in open_tags if other != tag]
        elif step == "take_up_to" and (tag in open_tags or not tag):
            below = [other for other in open_tags if other <= tag or not tag]
            rolled_back = unacked.take_up_to(tag)
            assert tags_of(rolled_back) == below
            open_tags = [other for other in open_tags if other not in below]
        elif step == "put_back":
            put_back(unacked, rolled_back, next_tag)
            open_tags = sorted([*open_tags, *tags_of(rolled_back)])
            rolled_back = []
        assert tags_of(unacked) == open_tags


def test_deliveries_up_to_a_tag_are_taken_in_parts():
    unacked = delivered(1, 2, 3, 4, 5, 6)
    unacked.take(2)
    tags = unacked.open_tags(5)
    assert tags_of(unacked.take_next(tags, 3)) == [1, 3]
    assert tags_of(unacked) == [4, 5, 6]
    unacked.take(4)
    assert tags_of(unacked.take_next(tags, 3)) == [5]
    assert unacked.take_next(tags, 3) is None
    assert tags_of(unacked.take_up_to(6)) == [6]


def test_few_deliveries_with_tags_far_apart_are_taken_in_parts():
    unacked = delivered(1, 1000, 5000, 9000)
    tags = unacked.open_tags(5000)
    assert tags_of(unacked.take_next(tags, 2)) == [1, 1000]
    assert tags_of(unacked.take_next(tags, 2)) == [5000]
    assert unacked.open_tags(2) is None
    assert unacked.last_tag == 9000


def test_deliveries_that_are_put_back_are_in_order_again():
    unacked = delivered(1, 2, 3)
    taken = unacked.take_up_to(2)
    unacked.records[4] = record(4)
    put_back(unacked, taken)
    assert tags_of(list(unacked.hand_over())) == [1, 2, 3, 4]
    assert len(unacked) == 0


def test_many_are_put_back_in_steps_while_others_are_delivered():
    count = 3 * PUT_BACK_AT_ONCE
    unacked = delivered(*range(1, count + 1))
    taken = [(tag, unacked.take(tag)) for tag in range(count, 0, -2)]
    next_tag = count + 1
    works = []
    for work in unacked.putting_back(iter(taken), next_tag):
        works.append(work)
        unacked.records[count + len(works)] = record(count + len(works))
    assert max(works) == PUT_BACK_AT_ONCE * PUT_BACK_WORK
    assert len(works) >= 5
    assert tags_of(unacked) == list(range(1, count + len(works) + 1))
    assert unacked.take_up_to(3) is not None


def test_nothing_is_open_again_until_all_is():
    unacked = delivered(1, 2, 3)
    taken = unacked.take_up_to(2)
    steps = unacked.putting_back(iter(taken), 4)
    next(steps)
    assert tags_of(unacked) == [3]
