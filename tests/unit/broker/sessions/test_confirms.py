"""Publisher confirms: the same frames, as few as RabbitMQ sends."""

from leveret.broker.queues.contract.confirm_holder import ConfirmHolder
from leveret.broker.sessions.confirms import Confirms

LOG = "the log"


def acked(tag, multiple=False):
    return (True, tag, multiple)


def nacked(tag, multiple=False):
    return (False, tag, multiple)


def published(count):
    """Return the confirms of a channel on which a number of messages were published."""
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
    confirms.hold(1, 1, LOG)
    assert confirms.unconfirmed_count == 1
    assert confirms.take() == []
    confirms.confirm(1, LOG)
    assert confirms.unconfirmed_count == 0
    assert confirms.take() == [acked(1)]
    assert confirms.take() == []


def test_a_message_held_by_several_queues_waits_for_all():
    confirms = published(1)
    holders = ("log", "mirror", "remote queue")
    for holder in holders:
        confirms.hold(1, 1, holder)
    for holder in holders:
        assert confirms.take() == []
        confirms.confirm(1, holder)
    assert confirms.take() == [acked(1)]


def test_a_message_confirmed_before_it_is_taken_is_one_of_many():
    confirms = published(3)
    confirms.hold(2, 1, LOG)
    confirms.confirm(2, LOG)
    assert confirms.take() == [acked(3, True)]


def test_messages_behind_a_held_one_are_confirmed_one_by_one():
    confirms = published(6)
    confirms.hold(3, 1, LOG)
    assert confirms.take() == [acked(2, True), acked(4), acked(5), acked(6)]
    confirms.confirm(3, LOG)
    assert confirms.take() == [acked(3)]


def test_a_single_message_behind_a_held_one():
    confirms = published(2)
    confirms.hold(1, 1, LOG)
    assert confirms.take() == [acked(2)]


def test_late_confirms_are_coalesced_up_to_the_first_that_is_held():
    confirms = published(5)
    for number in range(1, 6):
        confirms.hold(number, 1, LOG)
    assert confirms.take() == []
    for number in (5, 2, 1):
        confirms.confirm(number, LOG)
    assert confirms.take() == [acked(2, True), acked(5)]
    for number in (3, 4):
        confirms.confirm(number, LOG)
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
    confirms.hold(3, 1, LOG)
    confirms.refuse(2)
    confirms.refuse(6)
    assert confirms.take() == [
        acked(1, True), acked(4), acked(5), acked(7), nacked(2), nacked(6),
    ]  # fmt: skip
    confirms.confirm(3, LOG)
    assert confirms.take() == [acked(3)]


def test_a_held_message_may_be_refused_later():
    confirms = published(2)
    confirms.hold(1, 1, LOG)
    assert confirms.take() == [acked(2)]
    confirms.refuse(1)
    assert confirms.unconfirmed_count == 0
    assert confirms.take() == [nacked(1, True)]
    confirms.confirm(1, LOG)
    assert confirms.take() == []


def test_one_refusal_outweighs_every_confirm():
    confirms = published(1)
    confirms.hold(1, 1, LOG)
    confirms.hold(1, 1, "mirror")
    confirms.confirm(1, LOG)
    confirms.refuse(1)
    assert confirms.take() == [nacked(1, True)]


def test_a_confirm_for_messages_that_are_not_held_settles_nothing():
    confirms = published(1)
    confirms.confirm(1, LOG)
    assert confirms.take() == [acked(1)]
    confirms.confirm(1, LOG)
    assert confirms.take() == []


def test_a_holder_confirms_only_what_it_holds():
    confirms = published(2)
    confirms.hold(1, 2, LOG)
    confirms.confirm(1, "another")
    assert confirms.take() == []
    confirms.confirm(1, LOG)
    assert confirms.take() == [acked(2, True)]


def test_the_publisher_hears_of_messages_settled_late():
    due = []
    confirms = Confirms(lambda: due.append("due"))
    confirms.published = 1
    confirms.hold(1, 1, LOG)
    assert confirms.take() == []
    assert due == []
    confirms.confirm(1, LOG)
    assert due == ["due"]


def held_by_a_mirror_and_the_log():
    """Runs 1 to 2 (mirror), 3 to 4 (mirror and log), 5 to 6 (log); nothing else is published."""
    confirms = published(6)
    mirror = ConfirmHolder("mirror")
    mirror.hold(confirms, 1, 2)
    mirror.hold(confirms, 3, 2)
    confirms.hold(3, 2, LOG)
    confirms.hold(5, 2, LOG)
    assert confirms.take() == []
    return confirms, mirror


def test_a_holder_that_dies_refuses_exactly_its_runs():
    confirms, mirror = held_by_a_mirror_and_the_log()
    mirror.die(is_settled=False)
    assert confirms.take() == [nacked(4, True)]
    assert confirms.refused_count == 4
    confirms.confirm(3, LOG)
    confirms.confirm(5, LOG)
    assert confirms.take() == [acked(6, True)]


def test_a_holder_whose_queue_is_deleted_settles_exactly_its_runs():
    confirms, mirror = held_by_a_mirror_and_the_log()
    mirror.die(is_settled=True)
    assert confirms.take() == [acked(2, True)]
    confirms.confirm(3, LOG)
    assert confirms.take() == [acked(4, True)]
    assert confirms.refused_count == 0


def test_what_a_dead_holder_confirms_is_ignored():
    confirms, mirror = held_by_a_mirror_and_the_log()
    mirror.die(is_settled=False)
    confirms.take()
    mirror.confirm(confirms, 1)
    assert confirms.take() == []


def test_a_holder_owes_nothing_to_publishers_it_has_confirmed():
    confirms, mirror = held_by_a_mirror_and_the_log()
    mirror.confirm(confirms, 1)
    mirror.confirm(confirms, 3)
    mirror.die(is_settled=False)
    assert confirms.take() == [acked(2, True)]


def test_messages_held_out_of_order_are_confirmed_in_order():
    confirms = published(6)
    for first in (5, 1, 3):
        confirms.hold(first, 1, LOG)
    assert confirms.take() == [acked(2), acked(4), acked(6)]
    confirms.confirm(3, LOG)
    assert confirms.take() == [acked(3)]
    confirms.confirm(1, LOG)
    assert confirms.take() == [acked(1)]
    confirms.confirm(5, LOG)
    assert confirms.take() == [acked(5)]


class Number(int):
    """A message's number; compared: how often one was compared with another."""

    compared = 0

    def __lt__(self, other):
        Number.compared += 1
        return int(self) < other


def test_due_messages_are_found_without_looking_at_all_held_ones():
    confirms = published(1000)
    for number in range(1, 1001):
        confirms.hold(Number(number), 1, LOG)
    assert confirms.take() == []
    Number.compared = 0
    confirms.published = 1002
    confirms.hold(Number(1001), 1, LOG)
    assert confirms.take() == [acked(1002)]
    assert Number.compared < 10
