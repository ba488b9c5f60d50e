"""A mirrored queue whose policy names other nodes than those it is on moves to them."""

import json

import pytest

from tests.cluster.clients import bodies, publish
from tests.cluster.clustered_nodes import declare
from tests.cluster.managed_nodes import form_managed
from tests.cluster.publisher import ConfirmedPublisher

QUEUE = "moving"
RESOURCE = f"queues/%2F/{QUEUE}"
OLD = [b"old %d" % number for number in range(200)]


@pytest.fixture
def nodes(tmp_path):
    nodes = form_managed(tmp_path, "a", "b", "c", "d")
    yield nodes
    for node in nodes:
        node.stop()


def mirror_on(*nodes):
    definition = {"ha-mode": "nodes", "ha-params": [node.name for node in nodes]}
    nodes[0].ctl("set_policy", "ha", f"^{QUEUE}$", json.dumps(definition))


def is_on(queue, leader, mirrors, synchronised):
    """Whether a queue has the given leader, mirrors and number of synchronised mirrors."""
    return (
        queue.get("node") == leader.name
        and sorted(queue.get("slave_nodes", ())) == sorted(node.name for node in mirrors)
        and len(queue["synchronised_slave_nodes"]) == synchronised
    )


def test_it_is_led_where_it_was_until_a_mirror_of_the_new_set_is_synchronised(nodes):
    a, b, c, d = nodes
    declare(a, QUEUE)
    mirror_on(a, b)
    a.wait_to_see(RESOURCE, lambda queue: is_on(queue, a, [b], 1))
    publish(a, QUEUE, *OLD)
    with ConfirmedPublisher(b, QUEUE) as publisher:
        mirror_on(c, d)
        d.wait_to_see(RESOURCE, lambda queue: is_on(queue, a, [c, d], 0))
        d.ctl("sync_queue", QUEUE)
        queue = d.wait_to_see(
            RESOURCE, lambda queue: is_on(queue, c, [d], 1) or is_on(queue, d, [c], 1)
        )
        seen = len(publisher.confirmed)
        b.wait_until(lambda: len(publisher.confirmed) > seen + 10, "the publisher goes on")
    a.stop()
    b.stop()
    survivor = c if queue["node"] == d.name else d
    found = bodies(survivor, QUEUE)
    assert found[: len(OLD)] == OLD
    assert set(found[len(OLD) :]) >= set(publisher.confirmed)
