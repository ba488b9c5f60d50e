"""Deliveries to very many queues: their order, and what the publisher is told when."""

from itertools import pairwise
from types import SimpleNamespace

import pytest

from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.publication import Publication
from leveret.broker.resources.alarms import Alarms
from leveret.broker.resources.flow import DELIVERIES_BYTES_HIGH, DELIVERIES_BYTES_LOW, FlowControl
from leveret.broker.vhost.fan_out import Delivery, FanOuts

QUEUES = 1000

PERSISTENT, TRANSIENT = (
    SimpleNamespace(header=SimpleNamespace(is_persistent=is_persistent))
    for is_persistent in (True, False)
)
RUN = [PERSISTENT, PERSISTENT]


class Turns:
    """The turns, taken by the test."""

    def __init__(self):
        self.work_left, self.woken = 0, []

    def wake(self, actor):
        if actor not in self.woken:
            self.woken.append(actor)

    def next(self, work=1000):
        """One turn, with so much work. Returns whether there is another one."""
        self.work_left = work
        self.woken.pop().take_turn()
        return bool(self.woken)


class Queue:
    """A queue. holds: it holds runs for their publisher. refuses: the number that it refuses."""

    is_deleted = False
    options = QueueOptions()

    def __init__(self, holds=False, refuses=None):
        self.holds, self.refuses, self.got = holds, refuses, []

    def publish(self, publication):
        messages, first = publication.messages, publication.first
        self.got.append((messages, publication.body_bytes, publication.ttl_ms, first))
        publisher = self.publisher = publication.publisher
        if publisher is not None and self.holds:
            publisher.hold(first, len(messages), self)
        if publisher is not None and self.refuses is not None:
            publisher.refuse(self.refuses)


class Channel:
    """A publisher. told: what it was told."""

    def __init__(self):
        self.told = []

    def hold(self, first, count, holder):
        self.told.append(("hold", first, count))

    def confirm(self, first, holder):
        self.told.append(("confirm", first))

    def refuse(self, number):
        self.told.append(("refuse", number))

    def holder_died(self, holder, is_settled):
        self.told.append(("holder died", is_settled))


@pytest.fixture
def turns():
    return Turns()


@pytest.fixture
def flow():
    return FlowControl(Alarms())


@pytest.fixture
def fan_outs(turns, flow):
    return FanOuts(turns, flow)


@pytest.fixture
def channel():
    return Channel()


def delivery(queues, publisher=None, messages=RUN):
    return Delivery(queues, Publication(messages, 11, 5, publisher, 7))


def test_some_queues_are_given_the_run_in_each_turn(turns, fan_outs):
    queues = [Queue() for _ in range(QUEUES)]
    answer = fan_outs.begin(delivery(queues))
    counts = [0]
    while turns.next():
        assert not answer.is_given
        counts.append(sum(len(queue.got) for queue in queues))
    assert answer.is_given
    assert [queue.got for queue in queues] == [[(RUN, 11, 5, 7)]] * QUEUES
    assert max(later - before for before, later in pairwise(counts)) == 200


def test_queues_with_limits_are_more_work(turns, fan_outs):
    queues = [Queue() for _ in range(QUEUES)]
    for queue in queues:
        queue.options = SimpleNamespace(has_limit=True, message_ttl_ms=None)
    fan_outs.begin(delivery(queues))
    turns.next()
    assert sum(len(queue.got) for queue in queues) == 100


def test_deliveries_follow_each_other(turns, fan_outs):
    queues = [Queue() for _ in range(QUEUES)]
    fan_outs.begin(delivery(queues, messages=[PERSISTENT]))
    fan_outs.begin(delivery(queues[::-1], messages=[TRANSIENT]))
    while turns.next():
        pass
    for queue in queues:
        assert [messages for messages, *_ in queue.got] == [[PERSISTENT], [TRANSIENT]]


def test_a_queue_that_was_deleted_meanwhile_gets_nothing(turns, fan_outs):
    queues = [Queue() for _ in range(QUEUES)]
    fan_outs.begin(delivery(queues))
    turns.next()
    queues[-1].is_deleted = True
    while turns.next():
        pass
    assert sum(len(queue.got) for queue in queues) == QUEUES - 1


def test_the_publisher_is_told_once_when_the_last_holder_has_confirmed(turns, fan_outs, channel):
    queues = [Queue(holds=number % 2 == 0) for number in range(QUEUES)]
    fan_outs.begin(delivery(queues, channel))
    turns.next()
    queues[0].publisher.confirm(7, queues[0])
    assert channel.told == [("hold", 7, 2)]
    while turns.next():
        pass
    assert channel.told == [("hold", 7, 2)]
    for queue in queues[2::2]:
        queue.publisher.confirm(7, queue)
    assert channel.told == [("hold", 7, 2), ("confirm", 7)]


def test_what_a_queue_refuses_is_told_after_the_last_queue(turns, fan_outs, channel):
    queues = [Queue(refuses=8), *(Queue() for _ in range(QUEUES)), Queue(refuses=8)]
    fan_outs.begin(delivery(queues, channel))
    turns.next()
    assert channel.told == [("hold", 7, 2)]
    while turns.next():
        pass
    assert channel.told == [("hold", 7, 2), ("refuse", 8), ("confirm", 7)]


@pytest.mark.parametrize("is_settled", [True, False])
def test_a_holder_that_dies(turns, fan_outs, channel, is_settled):
    queues = [Queue(holds=True), *(Queue() for _ in range(QUEUES))]
    fan_outs.begin(delivery(queues, channel))
    turns.next()
    queues[0].publisher.holder_died(queues[0], is_settled)
    while turns.next():
        pass
    last = ("confirm", 7) if is_settled else ("holder died", False)
    assert channel.told == [("hold", 7, 2), last]


def test_a_queue_that_fails_does_not_stop_the_others(turns, fan_outs):
    def fail(*_):
        raise RuntimeError

    queues = [Queue() for _ in range(QUEUES)]
    queues[10].publish = fail
    fan_outs.begin(delivery(queues))
    with pytest.raises(RuntimeError):
        turns.next()
    while turns.next():
        pass
    assert sum(len(queue.got) for queue in queues) == QUEUES - 1


@pytest.mark.parametrize(
    ("messages", "is_memory_short"), [([PERSISTENT], False), ([TRANSIENT], True)]
)
def test_no_queue_is_given_what_the_store_does_not_take(
    turns, fan_outs, flow, messages, is_memory_short
):
    queues = [Queue() for _ in range(QUEUES)]
    answers = [fan_outs.begin(delivery(queues, messages=messages)) for _ in range(2)]
    turns.next(work=100)
    before = sum(len(queue.got) for queue in queues)
    assert 0 < before < QUEUES
    flow.set_congested(True, is_memory_short)
    assert not turns.next()
    answers.append(fan_outs.begin(delivery(queues, messages=messages)))
    assert not turns.woken
    assert sum(len(queue.got) for queue in queues) == before
    flow.set_congested(False)
    while turns.next():
        pass
    assert all(answer.is_given for answer in answers)
    assert all(len(queue.got) == 3 for queue in queues)


def test_transient_messages_do_not_wait_for_the_disk(turns, fan_outs, flow):
    flow.set_congested(True)
    answer = fan_outs.begin(delivery([Queue() for _ in range(QUEUES)], messages=[TRANSIENT]))
    while turns.next():
        pass
    assert answer.is_given


def test_publishers_are_held_while_what_waits_takes_much_memory(turns, fan_outs, flow):
    size = DELIVERIES_BYTES_HIGH // 8
    queues = [Queue() for _ in range(QUEUES)]
    for _ in range(8):
        assert not flow.is_held
        fan_outs.begin(Delivery(queues, Publication([PERSISTENT], size)))
    assert flow.is_held
    assert flow.is_memory_short
    while flow.is_held:
        assert turns.next()
    given = sum(len(queue.got) for queue in queues) // QUEUES
    assert 8 - given < DELIVERIES_BYTES_LOW // size
    assert given < 7
