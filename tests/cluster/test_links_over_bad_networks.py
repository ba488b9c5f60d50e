"""Shovels and federation links while the network between two brokers, or one of them, fails.

Each test has a link with confirms between a node and another one, or a real RabbitMQ at either end.
A client publishes to its source all the time. Messages confirmed there have to arrive; and once and
in order, if the link was never lost.
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
from tests.cluster.linked_hosts import LEVERET, RABBITMQ, Hosts
from tests.cluster.namespaces import why_not
from tests.cluster.shovel_link import ShovelLink
from tests.interop import INTEROP

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

PATIENT = "heartbeat=60"
"""A link that is cut for a moment is not given up."""
SILENT = "has sent nothing, not even a heartbeat, for 2 s"
ROUND_TRIP_SECONDS = 0.1
LOSS = 0.02


def shovel(is_outgoing, kind, **marks):
    def make(hosts, name):
        return ShovelLink(hosts, kind, name, is_outgoing=is_outgoing)

    return pytest.param(make, id=f"shovel {'to' if is_outgoing else 'from'} {kind}", **marks)


def federation(kind, pair, **marks):
    def make(hosts, _name):
        return FederationLink(hosts, pair, kind)

    return pytest.param(make, id=f"federated {kind} {pair}", **marks)


SHOVELS = [
    shovel(is_outgoing, kind, **marks)
    for is_outgoing in (True, False)
    for kind, marks in ((LEVERET, {}), (RABBITMQ, {"marks": INTEROP}))
]
FEDERATED = {
    kind: [
        federation(kind, FROM_LEVERET),
        *(federation(kind, pair, marks=INTEROP) for pair in (FROM_RABBITMQ, TO_RABBITMQ)),
    ]
    for kind in (EXCHANGE, QUEUE)
}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    made = Hosts(tmp_path_factory.mktemp("hosts"))
    yield made
    made.close()


@pytest.fixture(params=[*SHOVELS, *FEDERATED[EXCHANGE], *FEDERATED[QUEUE]])
def link(request, hosts):
    made = request.param(hosts, request.node.name)
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
        link.wait_until_it_stops(SILENT)
        link.wait_until_it_stops("cannot be reached within")
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
    link.check_that_it_was_never_lost(publisher.confirmed)


def test_a_slow_and_lossy_network_and_nothing_is_doubled(link):
    link.worsen(LOSS, ROUND_TRIP_SECONDS / 2)
    link.start(PATIENT)
    with link.publishing() as publisher:
        wait_for_confirms(link, publisher, 400)
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)
    link.check_that_it_was_never_lost(publisher.confirmed)


def test_packets_of_the_other_broker_that_are_lost(link):
    link.start()
    with link.publishing() as publisher:
        link.wait_for_more()
        link.silence_far()
        link.wait_until_it_stops(SILENT)
        link.heal()
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)
    link.check_what_is_doubled()


@pytest.mark.parametrize("link", SHOVELS, indirect=True)
def test_packets_to_the_other_broker_that_are_lost(link):
    link.start()
    with link.publishing() as publisher:
        link.wait_for_more()
        link.silence_near()
        link.wait_until_it_stops()
        link.heal()
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)


def test_the_other_broker_is_killed(link):
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
        link.start_broker_again()
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)


def test_a_destination_that_is_low_on_memory_and_nothing_is_doubled(link):
    link.start(PATIENT)
    with link.publishing() as publisher:
        link.wait_for_more()
        link.destination.ctl("set_vm_memory_high_watermark", "0.0000001")
        link.wait_until_it_is_held()
        wait_for_confirms(link, publisher)
        link.destination.ctl("set_vm_memory_high_watermark", "0.4")
        link.wait_for_more()
    link.wait_for_all(publisher.confirmed)
    link.check_that_it_was_never_lost(publisher.confirmed)


@pytest.mark.parametrize("link", FEDERATED[EXCHANGE], indirect=True)
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
