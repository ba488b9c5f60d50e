"""Federation links while the network between two brokers, or one of them, fails: nothing is lost.

Each test has a link of an exchange or a queue, with confirms, between a node and another one, or a
real RabbitMQ at either end. A client publishes upstream all the time, and
another consumes at this end. What was confirmed upstream has to come; and once and in order, if the
link was never lost.
"""

import signal

import pytest

from tests.cluster.federation_link import (
    EXCHANGE,
    FROM_LEVERET,
    FROM_RABBITMQ,
    QUEUE,
    TO_RABBITMQ,
    FederationLink,
)
from tests.cluster.linked_hosts import Hosts
from tests.cluster.namespaces import why_not
from tests.interop import INTEROP

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

PATIENT = "heartbeat=60"
"""A link that is cut for a moment is not given up."""
ROUND_TRIP_SECONDS = 0.1
LOSS = 0.02
PAIRS = [
    FROM_LEVERET,
    *(pytest.param(pair, marks=INTEROP) for pair in (FROM_RABBITMQ, TO_RABBITMQ)),
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    made = Hosts(tmp_path_factory.mktemp("hosts"))
    yield made
    made.close()


@pytest.fixture(params=[EXCHANGE, QUEUE])
def kind(request):
    return request.param


@pytest.fixture(params=PAIRS)
def link(request, hosts, kind):
    made = FederationLink(hosts, request.param, kind)
    yield made
    made.close()


def wait_for_confirms(link, publisher, count=200):
    before = len(publisher.confirmed)
    link.near.wait_until(lambda: len(publisher.confirmed) > before + count, "more is confirmed")


def test_a_network_that_is_cut_for_longer_than_the_heartbeat(link):
    link.start()
    with link.publishing() as publisher:
        link.wait_for_more()
        link.cut()
        link.wait_until_it_stops()
        wait_for_confirms(link, publisher)
        link.heal()
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)
    link.check_what_is_doubled()


def test_a_network_that_is_cut_for_a_moment_and_nothing_is_doubled(link):
    link.start(PATIENT)
    with link.publishing() as publisher:
        link.wait_for_more()
        link.cut()
        wait_for_confirms(link, publisher)
        link.heal()
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)
    assert link.taken == publisher.confirmed


def test_a_slow_and_lossy_network_and_nothing_is_doubled(link):
    link.worsen(LOSS, ROUND_TRIP_SECONDS / 2)
    link.start(PATIENT)
    with link.publishing() as publisher:
        wait_for_confirms(link, publisher, 1000)
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)
    assert link.taken == publisher.confirmed


def test_packets_of_the_upstream_that_are_lost(link):
    link.start()
    with link.publishing() as publisher:
        link.wait_for_more()
        link.silence_far()
        link.wait_until_it_stops()
        link.heal()
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)
    link.check_what_is_doubled()


def test_the_upstream_is_killed(link):
    link.start()
    with link.publishing() as publisher:
        link.wait_for_more()
        link.far.stop(signal.SIGKILL)
        link.wait_until_it_stops()
        link.far.start()
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)


def test_the_broker_of_the_link_is_killed(link):
    link.start()
    with link.publishing() as publisher:
        link.wait_for_more()
        link.near.stop(signal.SIGKILL)
        wait_for_confirms(link, publisher)
        link.start_broker_again()
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)


def test_a_broker_that_is_low_on_memory_and_nothing_is_doubled(link):
    link.start(PATIENT)
    with link.publishing() as publisher:
        link.wait_for_more()
        link.near.ctl("set_vm_memory_high_watermark", "0.0000001")
        wait_for_confirms(link, publisher)
        link.near.ctl("set_vm_memory_high_watermark", "0.4")
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)
    assert link.taken == publisher.confirmed


@pytest.mark.parametrize("kind", [EXCHANGE])
def test_a_binding_that_is_made_while_the_network_is_cut(link):
    link.start()
    with link.publishing():
        link.wait_for_more()
        link.cut()
        link.wait_until_it_stops()
        link.bind("late")
        link.heal()
    with link.publishing("late") as publisher:
        wait_for_confirms(link, publisher, 1)
    link.wait_for_all(publisher.confirmed)
