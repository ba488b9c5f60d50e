"""Groups of single active consumers over several nodes and changes of leader."""

import pytest

from leveret.cluster.streams.client.led_groups import GRACE_MS, LEASE_MS
from leveret.cluster.streams.client.stream_readers import RETRY_MS
from tests.fakes.stream_group import LEADER, StreamUse


@pytest.fixture
def use(tmp_path):
    return StreamUse(tmp_path / "stream")


class Consumer:
    """A consumer that stops at once when it is told to, unless it `lingers`."""

    def __init__(self, client, partition=-1, lingers=False):
        self.client = client
        self.is_active = False
        self.lingers = lingers
        self.told = []
        client.join_group(b"g", partition, self)

    def update(self, is_active):
        assert is_active is not self.is_active, "it is told changes only"
        self.is_active = is_active
        self.told.append(is_active)
        if not is_active and not self.lingers:
            self.client.stopped(b"g", self)

    def leave(self):
        self.client.leave_group(b"g", self)


def active(use, *consumers):
    """The places of the active ones."""
    use.settle()
    return [place for place, one in enumerate(consumers) if one.is_active]


def test_the_first_one_stays_active_until_it_leaves(use):
    consumers = [Consumer(use.queue) for _ in range(3)]
    assert active(use, *consumers) == [0]
    consumers[0].leave()
    consumers[0].is_active = False
    assert active(use, *consumers) == [1]
    assert consumers[2].told == []


def test_it_is_active_in_a_later_turn(use):
    consumer = Consumer(use.queue)
    assert not consumer.is_active
    assert active(use, consumer) == [0]


def test_nodes_share_a_group(use):
    elsewhere = use.elsewhere()
    consumers = [Consumer(elsewhere), Consumer(use.queue), Consumer(elsewhere)]
    assert active(use, *consumers) == [0]
    consumers[0].leave()
    consumers[0].is_active = False
    assert active(use, *consumers) == [1]
    consumers[1].leave()
    consumers[1].is_active = False
    assert active(use, *consumers) == [2]


def test_partitions_are_spread(use):
    """In the second partition the second consumer is active: the first one stops before."""
    elsewhere = use.elsewhere()
    first = Consumer(use.queue, partition=1, lingers=True)
    assert active(use, first) == [0]
    second = Consumer(elsewhere, partition=1)
    assert active(use, first, second) == []
    use.queue.stopped(b"g", first)
    assert active(use, first, second) == [1]
    assert first.told == [True, False]


def test_the_active_one_stays_over_a_change_of_leader(use):
    elsewhere = use.elsewhere()
    consumers = [Consumer(elsewhere), Consumer(use.queue)]
    assert active(use, *consumers) == [0]
    use.group.lose_leader()
    elsewhere._service.leader = ""
    elsewhere.leader_lost()
    use.group.lead()
    elsewhere._service.leader = LEADER
    elsewhere.leader_found()
    use.settle()
    use.vhost.clock.advance(GRACE_MS)
    assert active(use, *consumers) == [0]
    assert [one.told for one in consumers] == [[True], []]
    consumers[0].leave()
    consumers[0].is_active = False
    assert active(use, *consumers) == [1]


def test_consumers_of_a_node_that_does_not_ask_are_gone(use):
    elsewhere = use.elsewhere()
    consumers = [Consumer(elsewhere), Consumer(use.queue)]
    assert active(use, *consumers) == [0]
    elsewhere._service.ask_member = lambda *_: None
    for _ in range(LEASE_MS // 1000):
        use.vhost.clock.advance(1000)
        use.settle()
    assert consumers[1].is_active


def test_a_lost_question_is_asked_again(use):
    elsewhere = use.elsewhere()
    ask = elsewhere._service.ask_member
    elsewhere._service.ask_member = lambda node, question, answer: answer(None)
    consumer = Consumer(elsewhere)
    assert active(use, consumer) == []
    elsewhere._service.ask_member = ask
    use.vhost.clock.advance(RETRY_MS)
    assert active(use, consumer) == [0]


def test_groups_that_are_not_used_cost_nothing(use):
    consumer = Consumer(use.queue)
    use.settle()
    consumer.leave()
    use.settle()
    assert not use.queue._active._led._groups
    assert not use.queue._active._joined._groups
