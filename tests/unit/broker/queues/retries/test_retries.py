"""Delayed retries and the delivery limit of a classic queue (broker/queues/retries)."""

from types import SimpleNamespace

import pytest

from leveret.broker.amqp.content_header import header_with, read_stored
from leveret.broker.queues.contract.retry_headers import DELIVERY_COUNT, RETRIES_FEATURE
from leveret.broker.queues.contract.waiting_retries import ChosenRetries
from tests.unit.broker.queues.fakes import (
    FakeConsumer,
    FakeVhost,
    declared,
    deleted,
    got,
    length,
    publish,
    purged,
    ready,
    subscribed,
)

SECOND_MS = 1000


@pytest.fixture
def vhost():
    return FakeVhost()


def delaying(vhost, kind="all", least=SECOND_MS, **arguments):
    """A queue whose retries wait for seconds."""
    return declared(
        vhost, x_delayed_retry_type=kind, x_delayed_retry_min=least, **arguments
    )  # fmt: skip


def waiting(queue):
    """The (body, count) of the messages that wait, in the order of their times."""
    return [(one.message.body, one.returns) for one in listed(queue, 100)]


def listed(queue, count_max):
    return [] if queue.retries is None else queue.retries.listed(count_max)


def count_of(entry):
    """The number of returns that a consumer is told."""
    return entry.message.header.headers.get(DELIVERY_COUNT, ("l", 0))[1]


def ended(queue, chosen, is_discarded=False):
    return queue.retries.end_waiting(chosen, is_discarded)


def test_nothing_is_delayed_while_a_node_does_not_know_retries(vhost):
    vhost.features.lacking = lambda feature: ["old"] if feature == RETRIES_FEATURE else []
    queue = delaying(vhost)
    publish(queue, b"first")
    queue.requeue([got(queue)])
    entry = got(queue)
    assert (entry.message.body, count_of(entry)) == (b"first", 0)


def test_a_returned_message_waits_and_holds_nobody_up(vhost):
    queue = delaying(vhost)
    publish(queue, b"first", b"second")
    queue.requeue([got(queue)])
    assert waiting(queue) == [(b"first", 1)]
    assert got(queue).message.body == b"second"
    assert got(queue) is None
    vhost.clock.advance(0.999)
    assert got(queue) is None
    vhost.clock.advance(0.002)
    entry = got(queue)
    assert (entry.message.body, count_of(entry), entry.redelivered) == (b"first", 1, True)
    assert waiting(queue) == []
    queue.ack([entry])
    assert queue.figures.counts().messages == 1


def test_a_consumer_gets_a_message_when_its_time_has_come(vhost):
    queue = delaying(vhost)
    consumer = subscribed(queue, FakeConsumer())
    publish(queue, b"a", b"b")
    vhost.turns.run()
    queue.requeue(consumer.entries[:1])
    vhost.turns.run()
    assert consumer.bodies == [b"a", b"b"]
    vhost.clock.advance(1)
    vhost.turns.run()
    assert consumer.bodies == [b"a", b"b", b"a"]


@pytest.mark.parametrize(
    ("arguments", "delays"),
    [
        ({}, [1000, 1000, 1000]),
        ({"x_delayed_retry_max": 2500}, [1000, 2000, 2500]),
        ({"x_delayed_retry_multiplier": 3}, [1000, 3000, 9000]),
        ({"x_delayed_retry_multiplier": 3, "x_delayed_retry_max": 4000}, [1000, 3000, 4000]),
    ],
)
def test_delays_grow_up_to_the_maximum(vhost, arguments, delays):
    queue = delaying(vhost, **arguments)
    publish(queue, b"a")
    for delay_ms in delays:
        queue.requeue([got(queue)])
        vhost.clock.advance((delay_ms - 1) / 1000)
        assert got(queue) is None
        vhost.clock.advance(0.001)
    assert count_of(got(queue)) == len(delays)


@pytest.mark.parametrize(
    ("kind", "is_failed", "is_delayed"),
    [
        ("failed", True, True), ("failed", False, False), ("returned", True, False),
        ("returned", False, True), ("disabled", True, False),
    ],
)  # fmt: skip
def test_the_type_says_which_messages_are_delayed(vhost, kind, is_failed, is_delayed):
    queue = delaying(vhost, kind)
    publish(queue, b"a")
    queue.requeue([got(queue)], is_failed)
    assert bool(waiting(queue)) == is_delayed


def test_a_message_above_the_delivery_limit_is_dead_lettered(vhost):
    queue = declared(vhost, x_delivery_limit=2, x_dead_letter_exchange="dlx")
    publish(queue, b"a", b"b")
    for count in range(3):
        entry = got(queue)
        assert (entry.message.body, count_of(entry)) == (b"a", count)
        queue.requeue([entry])
    assert vhost.dead == [(b"a", "delivery_limit")]
    assert ready(queue) == [b"b"]


def test_a_limit_below_0_is_none(vhost):
    queue = declared(vhost, x_delivery_limit=-1)
    assert queue.retries is None


def test_a_message_without_an_exchange_for_dead_letters_is_discarded(vhost):
    queue = declared(vhost, x_delivery_limit=0)
    publish(queue, b"a")
    queue.requeue([got(queue)])
    assert vhost.discarded == ["delivery_limit"]
    assert queue.figures.counts().messages == 0


def test_a_message_without_a_delay_returns_to_its_place(vhost):
    queue = declared(vhost, x_delivery_limit=5)
    publish(queue, b"a", b"b")
    queue.requeue([got(queue)])
    assert ready(queue) == [b"a", b"b"]


def test_a_letter_does_not_tell_the_deliveries(vhost):
    letters = []
    vhost.dead_letter = lambda queue, messages, reason: letters.extend(messages)
    queue = declared(vhost, x_delivery_limit=5, x_dead_letter_exchange="dlx")
    publish(queue, b"a")
    queue.requeue([got(queue)])
    queue.discard([got(queue)])
    assert letters[0].header.raw == letters[0].header.stored == b"\0\0"


def test_waiting_messages_count_for_the_length(vhost):
    queue = delaying(vhost, x_max_length=2, x_dead_letter_exchange="dlx")
    publish(queue, b"a", b"b")
    queue.requeue([got(queue)])
    publish(queue, b"c")
    assert vhost.dead == [(b"b", "maxlen")]
    assert ready(queue) == [b"c"]
    assert waiting(queue) == [(b"a", 1)]


def test_a_waiting_message_expires(vhost):
    queue = delaying(vhost, x_dead_letter_exchange="dlx", least=60_000)
    publish(queue, b"a", ttl_ms=5000)
    queue.requeue([got(queue)])
    vhost.clock.advance(4.9)
    assert vhost.dead == []
    vhost.clock.advance(0.2)
    assert vhost.dead == [(b"a", "expired")]
    assert queue.figures.counts().messages == 0


def test_consumers_without_acks_do_not_lose_messages_that_wait(vhost):
    queue = delaying(vhost)
    publish(queue, b"a")
    queue.requeue([got(queue)])
    queue.return_waiting()
    consumer = subscribed(queue, FakeConsumer(no_ack=True))
    vhost.turns.run()
    assert consumer.bodies == []
    vhost.clock.advance(1)
    vhost.turns.run()
    assert consumer.bodies == [b"a"]
    assert queue.backing.unacked_count == 0


def test_messages_of_another_run_of_the_node_wait_for_the_rest_of_their_time(vhost):
    queue = delaying(vhost)
    publish(queue, b"a", b"b")
    queue.requeue([got(queue)])
    queue.return_waiting()
    for entry in queue.backing.fetch(2, True):
        entry.message.header = read_stored(entry.message.header.stored)
        queue.backing.requeue([entry])
    again = delaying(vhost)
    again.backing = queue.backing
    again.features = None
    vhost.clock.advance(0.4)
    again.may_redeliver = True
    again._configure_features()
    vhost.turns.run()
    assert waiting(again) == [(b"a", 1)]
    assert ready(again) == [b"b"]
    vhost.clock.advance(0.6)
    assert sorted(ready(again)) == [b"a", b"b"]


def test_messages_are_sent_now_one_by_its_id_or_position_or_all(vhost):
    queue = delaying(vhost)
    for name in ("one", "two", "three"):
        publish(queue, name.encode(), header=header_with(message_id=name))
    queue.requeue([got(queue) for _ in range(3)])
    assert ended(queue, ChosenRetries(message_id="two")) == 1
    assert got(queue).message.body == b"two"
    (first,) = listed(queue, 1)
    assert ended(queue, ChosenRetries([first.position, 12345])) == 1
    assert got(queue).message.body == b"one"
    assert ended(queue, ChosenRetries()) == 1
    assert ended(queue, ChosenRetries()) == 0
    assert got(queue).message.body == b"three"


def test_messages_are_discarded(vhost):
    queue = delaying(vhost)
    publish(queue, b"a", b"b", b"c")
    queue.requeue([got(queue), got(queue)])
    assert ended(queue, ChosenRetries(), is_discarded=True) == 2
    vhost.clock.advance(10)
    assert ready(queue) == [b"c"]
    assert queue.figures.counts().messages == 1


def test_a_purge_drops_messages_that_wait(vhost):
    queue = delaying(vhost)
    publish(queue, b"a", b"b")
    queue.requeue([got(queue)])
    assert purged(queue) == 2
    assert queue.figures.counts().messages == 0
    vhost.clock.advance(10)
    assert length(queue).ready_count == 0


def test_a_queue_with_waiting_messages_is_not_empty(vhost):
    queue = delaying(vhost)
    publish(queue, b"a")
    queue.requeue([got(queue)])
    with pytest.raises(Exception, match="not empty"):
        deleted(queue, if_empty=True)


def test_a_policy_begins_and_ends_retries(vhost):
    queue = declared(vhost)
    assert queue.retries is None
    delayed = queue.options._replace(delayed_retry_type="all", delayed_retry_min_ms=1000)
    plain = queue.options
    queue.apply(delayed)
    publish(queue, b"a")
    queue.requeue([got(queue)])
    queue.apply(plain)
    assert waiting(queue) == [(b"a", 1)], "a message that waits keeps its time"
    vhost.clock.advance(1)
    queue.apply(plain)
    assert queue.retries is None
    assert ready(queue) == [b"a"]


def test_figures_show_what_waits(vhost):
    queue = delaying(vhost, x_delivery_limit=7, x_delayed_retry_multiplier=2)
    publish(queue, b"four")
    queue.requeue([got(queue)])
    counts, status = queue.figures.counts(), queue.figures.status()
    assert (counts.ready, counts.unacked, counts.delayed, counts.messages) == (0, 0, 1, 1)
    retries = status.retries
    assert (retries.delivery_limit, retries.delayed_bytes) == (7, 4)
    assert retries.delayed_retry == "all (min: 1000ms, max: 315360000000ms, multiplier: 2)"
    now_ms = int(vhost.clock.wall_time_s() * 1000)
    assert now_ms < retries.next_delayed_ms == retries.last_delayed_ms <= now_ms + 1001


def test_many_returned_messages_take_several_turns(vhost):
    queue = delaying(vhost)
    publish(queue, *[b"m"] * 1000)
    entries = queue.backing.fetch(1000, True)
    queue.requeue(entries)
    assert 0 < len(waiting(queue)) < 100 + 1
    vhost.turns.run()
    assert queue.figures.counts().delayed == 1000


def test_priorities_stay(vhost):
    queue = delaying(vhost, x_max_priority=5)
    publish(queue, b"low", header=header_with(priority=1))
    publish(queue, b"high", header=header_with(priority=4))
    queue.requeue([got(queue), got(queue)])
    vhost.clock.advance(1)
    assert [got(queue).message.body for _ in range(2)] == [b"high", b"low"]


def test_a_message_that_is_due_while_a_restart_puts_it_aside_is_delivered(vhost):
    queue = delaying(vhost)
    publish(queue, b"a")
    queue.requeue([got(queue)])
    queue.return_waiting()
    cursor = queue.backing.cursor()
    entries = cursor.read(1000)
    cursor.close()
    times = iter([SECOND_MS - 1, *[SECOND_MS] * 9])
    queue.retries._clock = SimpleNamespace(now_ms=lambda: vhost.clock.now_ms() + next(times))
    queue.retries.found(entries)
    queue.retries._clock = vhost.clock
    vhost.clock.advance(1)
    assert got(queue).message.body == b"a"
