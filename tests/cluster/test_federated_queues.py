"""The link of a federated queue runs on the node where the queue lives, and follows its leader."""

import json
import signal

from tests.cluster.clients import take
from tests.cluster.clustered_nodes import declare
from tests.cluster.consuming import Consuming
from tests.cluster.federated import links_at, set_upstream


def feed(upstream, *bodies):
    for body in bodies:
        assert upstream.publish("/", "q", body, {"delivery_mode": 2})


def test_it_follows_the_leader_of_a_mirrored_queue(nodes, upstream):
    first, second = nodes
    set_upstream(first, upstream)
    policy = {"ha-mode": "all", "federation-upstream": "u"}
    first.ctl("set_policy", "p", "^q$", json.dumps(policy))
    declare(first, "q")
    first.wait_to_see("queues/%2F/q", lambda queue: queue.get("synchronised_slave_nodes"))
    upstream.wait_until(lambda: len(links_at(upstream)) == 1, "one node has a link")
    upstream.wait_until(
        lambda: upstream.request("GET", "queues/%2F/q").status == 200, "the link declares the queue"
    )
    feed(upstream, "1", "2")
    with second.connect() as connection:
        assert [body for body, _ in take(connection.channel(), "q", 2)] == [b"1", b"2"]
    first.wait_to_see("queues/%2F/q", lambda queue: queue.get("messages") == 0)
    first.stop(signal.SIGKILL)
    feed(upstream, "3")
    second.wait_to_see("queues/%2F/q", lambda queue: queue.get("node") == second.name)
    consuming = Consuming(second, "q")
    consuming.start()
    second.wait_until(lambda: b"3" in consuming.bodies, "the new leader gets what is upstream")
    consuming.stop()
    # What was acknowledged just before the kill may come once more.
    assert set(consuming.bodies) <= {b"1", b"2", b"3"}
    upstream.wait_until(lambda: len(links_at(upstream)) == 1, "one node has a link")
