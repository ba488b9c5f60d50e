"""The link of a federated exchange runs on one node of a cluster, and on another when that dies."""

import json
import signal

import pika

from leveret.broker.moving.federation.link_definition import LinkPlace
from leveret.broker.moving.transfers.placement_by_hash import chosen
from tests.cluster.clients import bodies
from tests.cluster.federated import links_at, set_upstream
from tests.mgmt.federated_exchanges import keys_at, link_objects
from tests.mgmt.test_shovels import channel_of, take_all

COUNT = 100
LINKS = "federation-links"
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def runner_and_other(nodes):
    """The node on which the link of exchange `x` runs, and the other one."""
    by_name = {node.name: node for node in nodes}
    runner = by_name.pop(chosen(LinkPlace("exchange", "/", "x", "u", "x"), by_name))
    return runner, *by_name.values()


def federate(node, upstream):
    set_upstream(node, upstream)
    policy = json.dumps({"federation-upstream": "u"})
    node.ctl("set_policy", "--apply-to", "exchanges", "p", "^x$", policy)


def runs_on(node):
    return lambda links: [(one["status"], one["node"]) for one in links] == [("running", node.name)]


class Account:
    """The messages published upstream, and those that arrived in queue `q`."""

    def __init__(self, there, here):
        self._there, self._here = there, here
        self.published, self.came = 0, []

    def publish(self, count=COUNT):
        for _ in range(count):
            self._there.basic_publish("x", "k", b"%d" % self.published, PERSISTENT)
            self.published += 1

    def is_complete(self):
        self.came += map(int, take_all(self._here, "q"))
        return set(self.came) == set(range(self.published))


def test_another_node_takes_the_link_over_and_gives_it_back(nodes, upstream):
    runner, other = runner_and_other(nodes)
    here, there = channel_of(other), channel_of(upstream)
    here.exchange_declare("x", "topic", durable=True)
    here.queue_declare("q", durable=True)
    here.queue_bind("q", "x", "k")
    federate(other, upstream)
    upstream.wait_until(lambda: keys_at(upstream, "%2F") == ["k"], "the link has bound")
    other.wait_to_see(LINKS, runs_on(runner))
    account = Account(there, here)
    account.publish()
    other.wait_until(account.is_complete, "messages come over the node with the link")
    assert len(account.came) == COUNT

    runner.stop(signal.SIGKILL)
    account.publish()
    other.wait_until(account.is_complete, "nothing is lost when that node dies")
    here.queue_bind("q", "x", "late")
    upstream.wait_until(lambda: keys_at(upstream, "%2F") == ["k", "late"], "the link binds")
    upstream.wait_until(lambda: len(links_at(upstream)) == 1, "one node has a link")
    assert len(link_objects(upstream, "%2F")) == 2

    runner.start()
    other.wait_to_see(LINKS, runs_on(runner))
    account.publish()
    other.wait_until(account.is_complete, "nothing is lost when it is back")
    upstream.wait_until(lambda: len(links_at(upstream)) == 1, "one node has a link")
    assert keys_at(upstream, "%2F") == ["k", "late"]


def test_clients_of_all_nodes_bind_and_get_messages(nodes, upstream):
    federate(nodes[0], upstream)
    for node in nodes:
        channel = channel_of(node)
        channel.exchange_declare("x", "topic", durable=True)
        queue = channel.queue_declare(f"q-{node.name}", durable=True).method.queue
        channel.queue_bind(queue, "x", node.name)
    upstream.wait_until(
        lambda: keys_at(upstream, "%2F") == sorted(node.name for node in nodes), "both are bound"
    )
    there = channel_of(upstream)
    for node in nodes:
        there.basic_publish("x", node.name, b"one", PERSISTENT)
        node.wait_until(lambda node=node: bodies(node, f"q-{node.name}") == [b"one"], "it comes")
