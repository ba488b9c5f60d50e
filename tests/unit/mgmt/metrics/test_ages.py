"""Age metrics of many queues: a bounded number of labels, and histograms that never decrease."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from leveret.mgmt.metrics.ages import HALF_LIFE_MS, OTHERS, QueueAgeMetrics
from leveret.mgmt.metrics.text import Exposition
from leveret.mgmt.node_facade.declared import DeclaredFacade
from tests.unit.broker.queues.fakes import FakeVhost, declared, got, publish

COUNT = "x_queue_time_in_queue_seconds_count"
READY = "x_queue_oldest_ready_age_seconds"


class Facade(DeclaredFacade):
    """The objects of one vhost, and its clock."""

    def __init__(self, vhost):
        super().__init__({vhost.name: vhost})
        self.now_ms = vhost.clock.now_ms


class Broker:
    """Queues in one vhost, as a sampler sees them."""

    def __init__(self):
        self.vhost = FakeVhost()
        self.vhost.name = "v"
        self.vhost.queues = {}
        self.clock = self.vhost.clock
        self.facade = Facade(self.vhost)
        self.oldest_unacked_ms = {}

    def oldest_unacked_age_ms(self, queue, counts):
        delivered_at_ms = self.oldest_unacked_ms.get(queue)
        if delivered_at_ms is None or not counts.unacked:
            return None
        return self.clock.now_ms() - delivered_at_ms

    async def give_way(self):
        """Nothing else runs here."""

    def declare(self, name):
        queue = self.vhost.queues[name] = declared(self.vhost)
        queue.name = name
        return queue

    def work(self, name, count):
        """Publish and deliver messages at once."""
        queue = self.vhost.queues.get(name) or self.declare(name)
        for _ in range(count):
            publish(queue, b"x")
            got(queue, ack_required=False)


@pytest.fixture
def broker():
    return Broker()


async def page_of(ages):
    """Return values by family and queue."""
    page = Exposition("x_")
    await ages.add_to(page)
    found = {}
    for family in text_string_to_metric_families(page.render().decode()):
        for sample in family.samples:
            if "le" not in sample.labels:
                found[sample.name, sample.labels["queue"]] = sample.value
    return found


def names(found):
    return {queue for _, queue in found}


async def test_the_busiest_have_labels_and_the_others_share_one(broker):
    for number in range(50):
        broker.work(f"q{number}", number + 1)
    ages = QueueAgeMetrics(broker, 5)
    found = await page_of(ages)
    assert names(found) == {"q45", "q46", "q47", "q48", "q49", OTHERS}
    assert found[COUNT, "q49"] == 50
    assert found[COUNT, OTHERS] == sum(range(1, 46))


async def test_none_may_have_labels(broker):
    broker.work("q", 3)
    found = await page_of(QueueAgeMetrics(broker, 0))
    assert found[COUNT, OTHERS] == 3
    assert names(found) == {OTHERS}


async def test_queues_that_nothing_happened_to_do_not_count(broker):
    broker.declare("idle")
    assert names(await page_of(QueueAgeMetrics(broker, 5))) == {OTHERS}


async def test_no_histogram_shrinks_when_a_queue_rises_falls_or_is_deleted(broker):
    ages = QueueAgeMetrics(broker, 1)
    broker.work("old", 10)
    broker.work("new", 1)
    found = await page_of(ages)
    assert (found[COUNT, "old"], found[COUNT, OTHERS]) == (10, 1)
    broker.work("new", 100)
    found = await page_of(ages)
    assert (found[COUNT, "new"], found[COUNT, OTHERS]) == (100, 1)
    broker.work("old", 1000)
    found = await page_of(ages)
    assert (found[COUNT, "old"], found[COUNT, OTHERS]) == (1010, 1)
    broker.work("new", 7)
    del broker.vhost.queues["old"]
    found = await page_of(ages)
    assert (found[COUNT, "new"], found[COUNT, OTHERS]) == (107, 1)


async def test_a_place_is_given_up_to_one_that_is_clearly_busier_only(broker):
    ages = QueueAgeMetrics(broker, 1)
    broker.work("first", 100)
    assert (COUNT, "first") in await page_of(ages)
    broker.work("second", 120)
    assert (COUNT, "first") in await page_of(ages)
    broker.work("second", 120)
    assert (COUNT, "second") in await page_of(ages)


async def test_what_was_long_ago_counts_for_little(broker):
    ages = QueueAgeMetrics(broker, 1)
    broker.work("old", 1000)
    assert (COUNT, "old") in await page_of(ages)
    broker.clock.advance(10 * HALF_LIFE_MS / 1000)
    broker.work("new", 10)
    assert (COUNT, "new") in await page_of(ages)


async def test_the_oldest_of_the_others_is_the_oldest_of_all_of_them(broker):
    ages = QueueAgeMetrics(broker, 1)
    broker.work("busy", 10)
    for name in ("a", "b"):
        publish(broker.declare(name), b"x")
        broker.clock.advance(5)
        broker.vhost.turns.now_ms = broker.clock.now_ms()
    found = await page_of(ages)
    assert found[READY, OTHERS] == pytest.approx(10, abs=0.01)
    assert found[READY, "busy"] == 0


async def test_a_delivery_that_is_not_settled_grows_old(broker):
    ages = QueueAgeMetrics(broker, 1)
    queue = broker.declare("q")
    publish(queue, b"x")
    got(queue, ack_required=True)
    broker.oldest_unacked_ms["v", "q"] = broker.clock.now_ms()
    broker.clock.advance(3)
    found = await page_of(ages)
    assert found["x_queue_oldest_unacked_age_seconds", "q"] == pytest.approx(3, abs=0.01)
