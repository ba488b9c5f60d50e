"""Shovels while the network between two brokers, or one of them, fails: nothing is lost.

Each test has a shovel with confirms between a node and another one, or a real RabbitMQ, in either
direction. A client publishes to the source all the time. What it has confirmed
has to be at the destination in the end; and once and in order, if the link was never lost.
"""

import signal

import pytest

from tests.cluster.linked_hosts import LEVERET, RABBITMQ, Hosts
from tests.cluster.namespaces import why_not
from tests.cluster.publisher import ConfirmedPublisher
from tests.cluster.shovel_link import ShovelLink
from tests.interop import INTEROP

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

PATIENT = "heartbeat=60"
"""A link that is cut for a moment is not given up."""
SILENT = "has sent nothing, not even a heartbeat, for 2 s"
ROUND_TRIP_SECONDS = 0.1
LOSS = 0.02
KINDS = [LEVERET, pytest.param(RABBITMQ, marks=INTEROP)]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    made = Hosts(tmp_path_factory.mktemp("hosts"))
    yield made
    made.close()


@pytest.fixture(params=["to", "from"])
def direction(request):
    return request.param


@pytest.fixture(params=KINDS)
def link(request, hosts, direction):
    made = ShovelLink(hosts, request.param, request.node.name, is_outgoing=direction == "to")
    yield made
    made.close()


def publishing(link):
    return ConfirmedPublisher(link.source, link.origin)


def wait_for_confirms(link, publisher, count=200):
    before = len(publisher.confirmed)
    link.near.wait_until(lambda: len(publisher.confirmed) > before + count, "more is confirmed")


def test_a_network_that_is_cut_for_longer_than_the_heartbeat(link):
    link.start()
    with publishing(link) as publisher:
        link.wait_for_more()
        link.cut()
        link.wait_for_state("terminated", SILENT)
        link.wait_for_state("terminated", "cannot be reached within 1 s")
        wait_for_confirms(link, publisher)
        link.heal()
        link.wait_for_state("running")
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)


def test_a_network_that_is_cut_for_a_moment_and_nothing_is_doubled(link):
    link.start(PATIENT)
    with publishing(link) as publisher:
        link.wait_for_more()
        link.cut()
        wait_for_confirms(link, publisher)
        link.heal()
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)
    assert link.taken == publisher.confirmed
    assert link.starts == 1


def test_a_slow_and_lossy_network_and_nothing_is_doubled(link):
    link.worsen(LOSS, ROUND_TRIP_SECONDS / 2)
    link.start(PATIENT)
    with publishing(link) as publisher:
        wait_for_confirms(link, publisher, 1000)
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)
    assert link.taken == publisher.confirmed
    assert link.starts == 1


def test_packets_of_the_other_broker_that_are_lost(link):
    link.start()
    with publishing(link) as publisher:
        link.wait_for_more()
        link.silence_far()
        link.wait_for_state("terminated", SILENT)
        link.heal()
        link.wait_for_state("running")
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)


def test_packets_to_the_other_broker_that_are_lost(link):
    link.start()
    with publishing(link) as publisher:
        link.wait_for_more()
        link.silence_near()
        link.wait_for_state("terminated")
        link.heal()
        link.wait_for_state("running")
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)


def test_the_other_broker_is_killed(link):
    link.start()
    with publishing(link) as publisher:
        link.wait_for_more()
        link.far.stop(signal.SIGKILL)
        link.wait_for_state("terminated")
        link.far.start()
        link.wait_for_state("running")
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)


def test_the_node_of_the_shovel_is_killed(link):
    link.start()
    with publishing(link) as publisher:
        link.wait_for_more()
        link.near.stop(signal.SIGKILL)
        link.near.start()
        link.wait_for_state("running")
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)


def test_a_destination_that_is_low_on_memory_and_nothing_is_doubled(link):
    link.start(PATIENT)
    with publishing(link) as publisher:
        link.wait_for_more()
        link.destination.ctl("set_vm_memory_high_watermark", "0.0000001")
        link.wait_for_state("blocked")
        wait_for_confirms(link, publisher)
        link.destination.ctl("set_vm_memory_high_watermark", "0.4")
        link.wait_for_state("running")
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)
    assert link.taken == publisher.confirmed
    assert link.starts == 1
