"""A quorum queue as the clients of a node use it: the promises of a queue client, and its rules."""

import sys
from functools import partial

import pytest

from leveret.broker.amqp.content_header import header_with
from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.properties import TTL_MS_MAX
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.queues.contract.publication import OWN_TTL, publication_of
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.client.consumers import PRIORITY_MAX
from leveret.cluster.quorum.machine.commands import (
    Configure,
    Enqueue,
    Options,
    Settle,
    Tick,
    decode_command,
)
from leveret.storage.messages.message import Message
from tests.unit.broker.queues.fakes import ADDRESS, publish
from tests.unit.cluster.quorum.group_of_one import ANSWER_MS, LimitedConsumer, Use, run_of
from tests.unit.cluster.remote_queues.fakes import Publisher


@pytest.fixture
def use():
    return Use()


@pytest.fixture
def queue(use):
    return use.queue


def commands(use, kind):
    """The commands of a kind that the client has sent."""
    return [one for one in map(decode_command, use.group.sent) if isinstance(one, kind)]


def count_of(entry):
    """The delivery count that a client sees."""
    return entry.message.header.headers.get("x-delivery-count", (None, None))[1]


# The promises of queue_client.py


def test_what_is_published_is_there_for_a_get_that_follows(use, queue):
    publish(queue, b"1", b"2")
    got = use.asked(queue.get, True)
    assert (got.entry.message.body, got.ready_count) == (b"1", 1)
    assert use.asked(queue.get, False).entry.message.body == b"2"
    assert use.asked(queue.get, False) is None
    assert use.figures.unacked == 1


def test_consuming_and_settling(use, queue):
    consumer = use.consuming(LimitedConsumer())
    publish(queue, b"1", b"2", b"3")
    use.settle()
    assert consumer.bodies == [b"1", b"2", b"3"]
    queue.ack(consumer.entries[:1])
    queue.requeue(consumer.entries[1:2])
    use.settle()
    assert consumer.bodies == [b"1", b"2", b"3", b"2"]
    assert consumer.entries[-1].redelivered
    queue.discard(consumer.entries[2:])
    use.settle()
    assert use.figures.unacked == 0


def test_what_is_requeued_is_there_for_a_get_that_follows(use, queue):
    publish(queue, b"1")
    got = use.asked(queue.get, True)
    queue.requeue([got.entry])
    again = use.asked(queue.get, True)
    assert (again.entry.message.body, again.entry.redelivered) == (b"1", True)


def test_a_publisher_is_told_when_the_group_has_its_messages(use, queue):
    publisher = Publisher()
    queue.publish(run_of(b"1", b"2", publisher=publisher, first=7))
    assert publisher.owed == {7: 1}
    use.settle()
    assert publisher.confirmed == [7]


def test_a_message_may_live_for_as_long_as_any_message_may(use, queue):
    publisher = Publisher()
    long_lived = run_of(b"1", publisher=publisher, first=7)
    long_lived.ttl_ms = TTL_MS_MAX
    queue.publish(long_lived)
    publish(queue, b"2")
    use.settle()
    assert publisher.confirmed == [7]
    assert use.figures.ready == 2


@pytest.mark.parametrize("takes_own_times", [True, False])
def test_messages_that_are_published_together_have_times_of_their_own(takes_own_times):
    use = Use()
    use.node = use.node._replace(takes_own_times=lambda: takes_own_times)
    queue = use.client()
    use.group.lead()
    messages = [Message(ADDRESS, header_with(expiration=text), b"m") for text in ("90", "9", "900")]
    queue.publish_each(publication_of(messages, OWN_TTL))
    use.settle()
    ready = use.group.machine.queue.messages.ready
    assert (ready.count, ready.expiring) == (3, 1 if takes_own_times else 3)
    positions = range(1, 4)
    runs = [run for run in ready.levels[0].queue.runs() for _ in range(run.count)]
    times = [run.expiry_of(at - run.position) for at, run in zip(positions, runs, strict=True)]
    assert [at_ms - times[1] for at_ms in times] == [81, 0, 891]


def test_a_queue_that_is_full_refuses():
    use = Use(x_max_length=2, x_overflow="reject-publish")
    publisher = Publisher()
    use.queue.publish(run_of(b"1", b"2", publisher=publisher, first=11))
    use.queue.publish(run_of(b"3", b"4", b"5", publisher=publisher, first=13))
    use.settle()
    assert publisher.refused == [14, 15], "one message more than the limit is taken"
    assert publisher.confirmed == [11, 13]


def test_length_purge_and_delete_have_counts(use, queue):
    publish(queue, b"1", b"2", b"3")
    use.consuming(LimitedConsumer(prefetch=1))
    assert tuple(use.asked(queue.length)) == (2, 1)
    assert use.asked(queue.purge) == 2
    publish(queue, b"4")
    assert use.asked(queue.delete, False, False, THE_NODE) == 1
    assert use.group.is_closed


def test_no_consumer_gets_more_than_its_room(use, queue):
    consumer = use.consuming(LimitedConsumer())
    consumer.credit = 2
    publish(queue, b"1", b"2", b"3", b"4")
    use.settle()
    assert consumer.bodies == [b"1", b"2"]
    assert consumer.is_waiting, "it wants to be told of room"
    consumer.credit += 1
    queue.credit(consumer)
    use.settle()
    assert consumer.bodies == [b"1", b"2", b"3"]


def test_a_consumer_without_a_limit_holds_two_thousand_messages(use, queue):
    consumer = use.consuming(LimitedConsumer(prefetch=0))
    consumer.credit = 5000
    queue.publish(run_of(*[b"x"] * 2001))
    use.settle()
    assert len(consumer.entries) == 2000
    queue.ack(consumer.entries[:1])
    use.settle()
    assert len(consumer.entries) == 2001


def test_a_consumer_without_acks_settles_what_it_was_given(use, queue):
    consumer = use.consuming(LimitedConsumer(prefetch=0, no_ack=True))
    consumer.credit = 3
    publish(queue, b"1", b"2", b"3", b"4")
    use.settle()
    assert consumer.bodies == [b"1", b"2", b"3"]
    assert use.figures.unacked == 1


def test_a_prefetch_limit_does_not_apply_without_acks(use, queue):
    consumer = use.consuming(LimitedConsumer(prefetch=1, no_ack=True))
    consumer.credit = 3
    publish(queue, b"1", b"2", b"3")
    use.settle()
    assert consumer.bodies == [b"1", b"2", b"3"]
    assert use.figures.consumers[0].credit > 1


def test_a_cancelled_consumer_gets_first_what_was_published_before(use, queue):
    consumer = use.consuming(LimitedConsumer())
    publish(queue, b"1", b"2")
    cancelled = Answer()
    queue.cancel(consumer, answer=cancelled)
    publish(queue, b"3")
    use.settle()
    assert cancelled.is_given
    assert consumer.bodies == [b"1", b"2"]
    assert use.asked(queue.length).ready_count == 1
    queue.ack(consumer.entries)
    use.settle()
    assert use.figures.unacked == 0


def test_tags_and_priorities_may_be_anything_that_clients_send(use, queue):
    low, high = (LimitedConsumer(f"c\udcff{number}") for number in range(2))
    low.priority, high.priority = -(1 << 63), (1 << 63) - 1
    use.consuming(low)
    use.consuming(high)
    publish(queue, b"1")
    use.settle()
    assert high.bodies == [b"1"]
    assert [one.priority for one in use.figures.consumers] == [-PRIORITY_MAX, PRIORITY_MAX]


def test_what_a_cancelled_consumer_had_no_room_for_goes_back(use, queue):
    consumer = use.consuming(LimitedConsumer())
    consumer.credit = 1
    publish(queue, b"1", b"2", b"3")
    use.asked(lambda answer: queue.cancel(consumer, answer=answer))
    assert consumer.bodies == [b"1"]
    assert (use.figures.ready, use.figures.unacked) == (2, 1)
    again = use.asked(queue.get, True).entry
    assert (again.message.body, again.redelivered, count_of(again)) == (b"2", False, 0)


def test_what_a_consumer_holds_goes_back_with_its_channel(use, queue):
    consumer = use.consuming(LimitedConsumer())
    publish(queue, b"1", b"2")
    use.settle()
    queue.cancel(consumer, channel_ended=True)
    queue.requeue(consumer.entries, is_failed=True)
    publish(queue, b"3")
    use.settle()
    assert (use.figures.ready, use.figures.unacked) == (3, 0)
    assert consumer.bodies == [b"1", b"2"]
    assert count_of(use.asked(queue.get, True).entry) == 1, "the return counts once"


def test_consumers_of_a_deleted_queue_are_told_once(use, queue):
    consumer = use.consuming(LimitedConsumer())
    assert list(queue.delete_now()) == [consumer]
    assert consumer.is_without_queue
    assert not consumer.was_told, "the caller does it"


def test_a_queue_that_another_client_deletes_first_is_gone_for_the_second(use, queue):
    use.group.loses = True
    publish(queue, b"1")
    deleted = Answer()
    queue.delete(False, False, THE_NODE, deleted)
    use.settle()
    queue.delete_now()
    with pytest.raises(ChannelFault, match="no queue"):
        deleted.result()
    assert use.group.is_closed


def test_everything_is_answered_when_the_queue_is_deleted(use, queue):
    use.group.loses = True
    publisher = Publisher()
    answers = [Answer() for _ in range(5)]
    queue.publish(run_of(b"1", publisher=publisher))
    consumer = LimitedConsumer()
    queue.subscribe(consumer, answers[0])
    queue.get(True, answers[1])
    queue.purge(answers[2])
    queue.length(answers[3])
    queue.cancel(consumer, answer=answers[4])
    use.settle()
    assert not any(answer.is_given for answer in answers)
    queue.delete_now()
    assert publisher.died == [True]
    for answer in answers[:4]:
        with pytest.raises(ChannelFault, match="NOT_FOUND - no queue 'q' in vhost '/'"):
            answer.result()
    answers[4].result()


def test_a_node_that_stops_refuses_what_is_not_applied(use, queue):
    use.group.loses = True
    publisher = Publisher()
    queue.publish(run_of(b"1", publisher=publisher))
    use.settle()
    queue.close()
    assert publisher.died == [False]


def test_a_queue_that_has_ended_still_answers(use, queue):
    consumer = use.consuming(LimitedConsumer())
    publish(queue, b"1")
    use.settle()
    queue.delete_now()
    publish(queue, b"2")
    queue.ack(consumer.entries)
    queue.cancel(consumer)
    for ask in (partial(queue.get, True), partial(queue.subscribe, LimitedConsumer())):
        with pytest.raises(ChannelFault, match="NOT_FOUND - no queue 'q' in vhost '/'"):
            use.asked(ask)
    assert queue.figures.status().state == "down"


def test_a_queue_that_has_ended_is_in_no_cycle():
    use = Use()
    use.consuming(LimitedConsumer())
    publish(use.queue, b"1")
    assert use.asked(use.queue.length).consumer_count == 1
    use.asked(use.queue.get, True)
    use.queue.figures.counts()
    use.queue.delete_now()
    use.settle()
    use.vhost.clock.advance(ANSWER_MS / 1000)
    use.group.client = None
    queue, use.queue = use.queue, None
    assert sys.getrefcount(queue) == 2, "the name above, and the argument"


def test_messages_that_cannot_be_read_are_rejected(use, queue, caplog):
    consumer = use.consuming(LimitedConsumer())
    use.group.is_damaging = True
    queue.publish(run_of(b"1", b"2"))
    use.settle()
    use.group.is_damaging = False
    queue.publish(run_of(b"3"))
    use.settle()
    assert consumer.bodies == [b"3"]
    assert use.figures.unacked == 1
    assert "2 messages of queue 'q' in vhost '/' from position 1 cannot be read" in caplog.text


def test_a_message_that_cannot_be_read_is_no_answer(use, queue):
    use.group.is_damaging = True
    publish(queue, b"1")
    with pytest.raises(ConnectionFault, match="the message cannot be read"):
        use.asked(queue.get, True)
    assert (use.figures.ready, use.figures.unacked) == (0, 0)


# Rules of quorum queues


def test_a_delivery_count_is_shown_from_the_first_return_on(use, queue):
    consumer = use.consuming(LimitedConsumer())
    publish(queue, b"1", header=header_with(headers={"z": ("S", "1"), "b": ("S", "2")}))
    use.settle()
    assert count_of(consumer.entries[0]) is None
    queue.requeue(consumer.entries)
    use.settle()
    again = consumer.entries[1]
    assert again.redelivered
    assert list(again.message.header.headers) == ["b", "x-delivery-count", "z"]
    assert queue.may_redeliver


def test_a_get_shows_the_count_at_once(use, queue):
    publish(queue, b"1")
    got = use.asked(queue.get, True)
    assert (count_of(got.entry), got.entry.redelivered) == (0, False)
    queue.requeue([got.entry])
    assert count_of(use.asked(queue.get, True).entry) == 1


def test_messages_are_persistent_whatever_their_delivery_mode_is(use, queue):
    publish(queue, b"1", header=header_with(delivery_mode=1))
    header = use.asked(queue.get, True).entry.message.header
    assert header.is_persistent
    assert header.delivery_mode == 1, "as it was published"


def test_a_get_is_refused_with_a_single_active_consumer():
    use = Use(x_single_active_consumer=True)
    with pytest.raises(ChannelFault, match="not supported by quorum queues with") as refused:
        use.asked(use.queue.get, True)
    assert refused.value.reply_code == 405


@pytest.mark.parametrize(
    ("conditions", "flag"), [((True, False), "unused"), ((False, True), "empty")]
)
def test_a_deletion_has_no_conditions(use, queue, conditions, flag):
    with pytest.raises(ConnectionFault, match=f"operations with if-{flag} flag") as refused:
        use.asked(queue.delete, *conditions, THE_NODE)
    assert refused.value.reply_code == 540


# Deliveries that are held for too long


class EndedConsumer(LimitedConsumer):
    """A consumer whose channel is closed when it has held messages for too long."""

    def __init__(self, queue, credit):
        super().__init__()
        self.queue, self.credit, self.ends = queue, credit, 0

    def timed_out(self):
        self.ends += 1


@pytest.fixture
def impatient():
    """A queue that takes back what is held for a second."""
    use = Use()
    use.group.propose(Configure(Options(consumer_timeout_ms=1000)))
    return use


def pass_timeout(use):
    """What is held by now is taken back."""
    use.vhost.clock.advance(2)
    use.group.propose(Tick())
    use.settle()


def test_the_channel_of_a_consumer_that_holds_messages_for_too_long_ends(impatient):
    queue = impatient.queue
    consumer = impatient.consuming(EndedConsumer(queue, credit=1))
    publish(queue, b"1", b"2")
    impatient.settle()
    pass_timeout(impatient)
    impatient.group.stop_leading()
    impatient.group.lead()
    assert consumer.ends == 1, "a new leader says it again"
    consumer.credit = 5
    queue.credit(consumer)
    impatient.settle()
    assert consumer.bodies == [b"1"], "another consumer may have what waited"
    queue.cancel(consumer, channel_ended=True)
    queue.requeue(consumer.entries, is_failed=True)
    other = impatient.consuming(LimitedConsumer("other"))
    assert other.bodies == [b"1", b"2"]
    assert [one.tag for one in impatient.figures.consumers] == ["other"]


class PatientConsumer(EndedConsumer):
    """A consumer that goes on when it has settled what was taken back."""

    def released(self, positions):
        self.late = [entry for entry in self.entries if entry.position in positions]
        return True


def test_a_consumer_may_go_on_when_it_has_settled_what_was_taken_back(impatient):
    queue = impatient.queue
    consumer = impatient.consuming(PatientConsumer(queue, credit=1))
    publish(queue, b"1", b"2")
    impatient.settle()
    pass_timeout(impatient)
    assert [entry.message.body for entry in consumer.late] == [b"1"]
    consumer.credit = 5
    queue.credit(consumer)
    impatient.settle()
    assert consumer.bodies == [b"1"], "the queue has what waited, too"
    assert (impatient.figures.ready, impatient.figures.unacked) == (2, 0)
    queue.requeue(consumer.late)
    impatient.settle()
    assert consumer.bodies == [b"1", b"1", b"2"]
    assert consumer.ends == 0


def test_messages_that_need_no_ack_may_wait_for_their_consumer(impatient):
    consumer = LimitedConsumer(no_ack=True)
    consumer.credit = 0
    impatient.consuming(consumer)
    publish(impatient.queue, b"1")
    impatient.settle()
    pass_timeout(impatient)
    consumer.credit = 1
    impatient.queue.credit(consumer)
    impatient.settle()
    assert consumer.bodies == [b"1"]


def test_a_get_whose_message_was_taken_back_on_its_way_takes_another_one(impatient):
    queue, group = impatient.queue, impatient.group
    publish(queue, b"1")
    impatient.settle()
    answer = Answer()
    queue.get(True, answer)
    group.is_forgetful = True
    impatient.settle()
    group.stop_leading()
    group.is_forgetful = False
    pass_timeout(impatient)
    assert not answer.is_given
    group.lead()
    impatient.settle()
    got = answer.result()
    assert (got.entry.message.body, got.entry.redelivered) == (b"1", True)
    queue.ack([got.entry])
    impatient.settle()
    assert impatient.figures.unacked == impatient.figures.ready == 0


# Figures


def test_management_sees_the_counts_and_the_consumers(use, queue):
    use.consuming(LimitedConsumer("first", prefetch=1))
    use.consuming(LimitedConsumer("other", prefetch=1))
    publish(queue, b"1", b"22", b"333")
    use.settle()
    counts = queue.figures.counts()
    assert (counts.ready, counts.unacked, counts.consumers) == (1, 2, 2)
    use.asked(queue.figures.refresh)
    status = queue.figures.status()
    assert status.counts == counts
    assert (status.storage.ready_bytes, status.storage.unacked_bytes) == (3, 3)
    assert status.consumer_capacity == 0
    first, other = queue.figures.consumers()
    assert (first.tag, first.unacked, first.prefetch_count, first.activity) == ("first", 1, 1, "up")
    assert (other.tag, other.node) == ("other", "")


def test_management_sees_the_single_active_consumer():
    use = Use(x_single_active_consumer=True)
    use.consuming(LimitedConsumer("first"))
    use.consuming(LimitedConsumer("other"))
    use.asked(use.queue.figures.refresh)
    assert use.queue.figures.status().single_active_consumer_tag == "first"
    activities = [one.activity for one in use.queue.figures.consumers()]
    assert activities == ["single_active", "waiting"]


def test_figures_are_refused_without_a_leader(use, queue):
    use.group.stop_leading()
    with pytest.raises(ConnectionFault, match="the queue has no leader"):
        use.asked(queue.figures.refresh)


def test_demand_is_kept_by_the_member_of_the_node(use, queue):
    demand = Demand()
    queue.watch(demand)
    assert use.group.demand is demand


def test_policies_change_the_options_of_the_group(use, queue):
    queue.apply(queue.declared._replace(max_length=1))
    publish(queue, b"1", b"2")
    use.settle()
    assert use.figures.ready == 1


# Runs


def test_what_is_published_in_one_turn_is_one_command(use, queue):
    publisher, other = Publisher(), Publisher()
    queue.publish(run_of(b"1", b"2", publisher=publisher))
    queue.publish(run_of(b"three", publisher=other))
    use.settle()
    (command,) = commands(use, Enqueue)
    assert command.runs == [2, 1, 0, 4, 1, 5, 0, 4], "count, size, time to live, priority"
    assert publisher.confirmed == other.confirmed == [1]


def test_what_is_acknowledged_in_one_turn_is_one_command(use, queue):
    consumer = use.consuming(LimitedConsumer())
    queue.publish(run_of(b"1", b"2", b"3", b"4", b"5"))
    use.settle()
    for place in (2, 0, 1, 4):
        queue.ack([consumer.entries[place]])
        queue.publish(run_of(b"x"))
    use.settle()
    (command,) = commands(use, Settle)
    assert command.positions == [1, 3, 5, 5]
    assert len(commands(use, Enqueue)) == 2


def test_consumers_share_the_messages_of_one_command(use, queue):
    first, second = use.consuming(LimitedConsumer("1")), use.consuming(LimitedConsumer("2"))
    queue.publish(run_of(b"1", b"2", b"3", b"4"))
    use.settle()
    assert (first.bodies, second.bodies) == ([b"1", b"3"], [b"2", b"4"])


def test_a_large_body_is_sent_and_got(use, queue):
    publish(queue, b"x" * 100_000, b"small")
    assert use.asked(queue.get, True).entry.message.body == b"x" * 100_000
    assert use.asked(queue.get, True).entry.message.body == b"small"
