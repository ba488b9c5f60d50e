"""Confirms of mirrored queues while the packets of a node are lost and late, and afterwards.

The nodes may lose each other for so long that they go on apart: `autoheal` ends the partition. The
leader's log tells how long they wait, by counting its checks: a node that gets no processor
time has not waited.
"""

import contextlib
import re

import pytest

from tests.cluster.hosted_nodes import Cluster, api
from tests.cluster.namespaces import why_not
from tests.cluster.publisher import ConfirmedPublisher

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "")

MIRRORED = {"pattern": "^mirrored", "definition": {"ha-mode": "all"}, "apply-to": "queues"}
WAITED = re.compile(r"confirms have waited for (?:(\d+) times )?net_ticktime|next leader")
LOSS, DELAY_SECONDS = 0.7, 0.3
TIMES_MAX = 4
"""Two, until a mirror is given up; its removal goes to all nodes then, perhaps in another view."""


def waited(nodes, sizes):
    """Count the lines about late confirms after a given position of each log."""
    found = []
    for node, size in zip(nodes, sizes, strict=True):
        found += [int(one[1] or 1) for one in WAITED.finditer(node.log[size:])]
    return found


def is_noticed(nodes, sizes):
    """A link has ended since then, or confirms are late."""
    is_down = [": nothing was heard" in one.log[at:] for one, at in zip(nodes, sizes, strict=True)]
    return any(is_down) or bool(waited(nodes, sizes))


def test_confirms_go_on_soon_after_the_network_is_whole(tmp_path):
    healing = "cluster_partition_handling = autoheal"
    with Cluster(tmp_path, 3, healing) as cluster, contextlib.ExitStack() as stack:
        nodes = a, b, c = cluster.nodes
        api(a, "policies/%2F/ha", "PUT", MIRRORED)
        publishers = []
        for node in nodes:
            queue = f"mirrored-{node.name[0]}"
            with node.connect() as connection:
                connection.channel().queue_declare(queue, durable=True)
            # Each queue is published to through a node that does not lead it.
            by_way = nodes[nodes.index(node) - 1]
            publishers.append(stack.enter_context(ConfirmedPublisher(by_way, queue)))
        confirm_more(cluster, publishers)
        for victim in (c, a):
            sizes = [len(one.log) for one in nodes]
            cluster.network.worsen([victim.host], [one.host for one in nodes], LOSS, DELAY_SECONDS)
            b.wait_until(lambda sizes=sizes: is_noticed(nodes, sizes), "links or confirms are late")
            cluster.network.heal()
            cluster.wait_until_whole()
            sizes = [len(one.log) for one in nodes]
            confirm_more(cluster, publishers)
            assert max(waited(nodes, sizes), default=0) <= TIMES_MAX


def confirm_more(cluster, publishers):
    """Wait until each publisher has ten more confirms."""
    for one in publishers:
        known = len(one.confirmed)
        cluster.nodes[0].wait_until(
            lambda one=one, known=known: len(one.confirmed) >= known + 10, "confirms go on"
        )
