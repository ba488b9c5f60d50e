"""Confirms: as few frames as RabbitMQ sends, and the same ones."""

from broker.channel.confirms import Confirms, Settlement


def acked(tag, multiple=False):
    return Settlement(True, tag, multiple)


def nacked(tag, multiple=False):
    return Settlement(False, tag, multiple)


def published(count):
    """The confirms of a channel on which so many messages were published."""
    confirms = Confirms()
    confirms.published = count
    return confirms


def test_nothing_published_nothing_due():
    assert Confirms().take() == []


def test_one_message_is_confirmed_by_itself():
    assert published(1).take() == [acked(1)]


def test_many_messages_are_confirmed_with_one_multiple_ack():
    assert published(1000).take() == [acked(1000, True)]


def test_what_was_taken_is_not_due_again():
    confirms = published(3)
    confirms.take()
    assert confirms.take() == []
    confirms.published = 4
    assert confirms.take() == [acked(4)]
    confirms.published = 6
    assert confirms.take() == [acked(6, True)]


def test_a_held_message_waits_for_its_queue():
    confirms = published(1)
    confirms.hold(1, 1)
    assert confirms.unconfirmed_count == 1
    assert confirms.take() == []
    assert confirms.confirm(1)
    assert confirms.unconfirmed_count == 0
    assert confirms.take() == [acked(1)]
    assert confirms.take() == []


def test_a_message_held_by_several_queues_waits_for_all():
    confirms = published(1)
    for _ in range(3):
        confirms.hold(1, 1)
    assert confirms.take() == []
    assert [confirms.confirm(1) for _ in range(3)] == [False, False, True]
    assert confirms.take() == [acked(1)]


def test_a_message_confirmed_before_it_is_taken_is_one_of_many():
    confirms = published(3)
    confirms.hold(2, 1)
    confirms.confirm(2)
    assert confirms.take() == [acked(3, True)]


def test_messages_behind_a_held_one_are_confirmed_one_by_one():
    confirms = published(6)
    confirms.hold(3, 1)
    assert confirms.take() == [acked(2, True), acked(4), acked(5), acked(6)]
    confirms.confirm(3)
    assert confirms.take() == [acked(3)]


def test_a_single_message_behind_a_held_one():
    confirms = published(2)
    confirms.hold(1, 1)
    assert confirms.take() == [acked(2)]


def test_late_confirms_are_coalesced_up_to_the_first_that_is_held():
    confirms = published(5)
    for number in range(1, 6):
        confirms.hold(number, 1)
    assert confirms.take() == []
    for number in (5, 2, 1):
        confirms.confirm(number)
    assert confirms.take() == [acked(2, True), acked(5)]
    for number in (3, 4):
        confirms.confirm(number)
    assert confirms.take() == [acked(4, True)]


def test_a_refused_message_is_nacked():
    confirms = published(1)
    confirms.refuse(1)
    assert confirms.take() == [nacked(1, True)]
    assert confirms.take() == []


def test_many_refused_messages_are_one_multiple_nack():
    confirms = published(3)
    for number in (1, 2, 3):
        confirms.refuse(number)
    assert confirms.take() == [nacked(3, True)]


def test_neither_kind_reaches_over_the_other():
    confirms = published(6)
    for number in (3, 4):
        confirms.refuse(number)
    assert confirms.take() == [acked(2, True), acked(5), acked(6), nacked(3), nacked(4)]


def test_refusals_first_are_coalesced():
    confirms = published(4)
    for number in (1, 2):
        confirms.refuse(number)
    assert confirms.take() == [acked(3), acked(4), nacked(2, True)]


def test_refused_and_held_and_confirmed():
    confirms = published(7)
    confirms.hold(3, 1)
    confirms.refuse(2)
    confirms.refuse(6)
    assert confirms.take() == [
        acked(1, True), acked(4), acked(5), acked(7), nacked(2), nacked(6),
    ]  # fmt: skip
    confirms.confirm(3)
    assert confirms.take() == [acked(3)]


def test_a_held_message_may_be_refused_later():
    confirms = published(2)
    confirms.hold(1, 1)
    assert confirms.take() == [acked(2)]
    confirms.refuse(1)
    assert confirms.unconfirmed_count == 0
    assert confirms.take() == [nacked(1, True)]
    assert not confirms.confirm(1)
    assert confirms.take() == []


def test_one_refusal_outweighs_every_confirm():
    confirms = published(1)
    confirms.hold(1, 1)
    confirms.hold(1, 1)
    confirms.confirm(1)
    confirms.refuse(1)
    assert confirms.take() == [nacked(1, True)]


def test_a_confirm_for_what_is_not_held_settles_nothing():
    confirms = published(1)
    assert not confirms.confirm(1)
    assert confirms.take() == [acked(1)]
    assert not confirms.confirm(1)
    assert confirms.take() == []
