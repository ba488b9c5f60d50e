"""Which links run on a node: those that policies and upstreams ask for, if they are to run here."""

import asyncio
from types import SimpleNamespace

import pytest

from leveret.broker.events.events import Events
from leveret.broker.moving.federation.federation import Federation
from leveret.broker.moving.federation.link_definition import LinkPlace
from leveret.broker.moving.federation.status import EXCHANGE, RUNNING, LinkStatus
from leveret.broker.policies.parameters import (
    CLUSTER_NAME,
    FEDERATION_UPSTREAM,
    FEDERATION_UPSTREAM_SET,
    GLOBAL,
    NO_VHOST,
    Parameters,
)

ALL = {"federation-upstream-set": "all"}


class Exchange:
    """One that has a policy, or None."""

    def __init__(self, policy):
        self.policy = policy


class FakeLink:
    """A link that tells `told` what happens to it."""

    def __init__(self, definition, node):
        self.definition = definition
        self._node = node
        self._told = node._told

    @property
    def name(self):
        return f"{self.definition.place.name}<{self.definition.upstream.name}"

    @property
    def status(self):
        place = self.definition.place
        return LinkStatus(place.link_id, *place, RUNNING, 0.0, "amqp://up")

    def start(self):
        self._told.append(f"start {self.name}")

    async def stop(self, is_removed):
        self._told.append(f"{'remove' if is_removed else 'stop'} {self.name}")
        await self._node.stopping.wait()


class Node:
    """The links of a node, and its only kind of them. told: of them, since the last look.

    stopping: while it is not set, links do not come to their end. held_back: the vhosts whose links
    may not run.
    """

    kind = EXCHANGE

    def __init__(self):
        self.parameters = Parameters()
        self.exchanges = {}
        self.cluster_name = "cluster"
        self.is_chosen = True
        self.held_back = set()
        self.stopping = asyncio.Event()
        self.stopping.set()
        self._told = []
        self.federation = Federation(
            "a@host",
            self.parameters,
            lambda: self.cluster_name,
            (self,),
            Events(),
            lambda vhost: vhost not in self.held_back,
        )

    # The kind of links

    def federated(self):
        return list(self.exchanges)

    def find(self, vhost, name):
        return self.exchanges.get((vhost, name))

    def is_here(self, definition, running):
        return self.is_chosen

    def make(self, definition):
        return FakeLink(definition, self)

    # What changes

    def declare(self, name, policy=None):
        named = None if policy is None else SimpleNamespace(name="p", definition=policy)
        self.exchanges["/", name] = Exchange(named)
        self.federation.changed(EXCHANGE, "/", name)

    def delete(self, name):
        del self.exchanges["/", name]
        self.federation.changed(EXCHANGE, "/", name)

    def put(self, name, component=FEDERATION_UPSTREAM, **value):
        self.parameters.put(component, "/", name, {"uri": "amqp://up"} | value)
        self.federation.parameter_changed(component, "/", name)

    async def told(self):
        for _ in range(20):
            await asyncio.sleep(0)
        told, self._told[:] = sorted(self._told), []
        return told


@pytest.fixture
async def node():
    node = Node()
    node.put("up")
    node.federation.start()
    yield node
    await node.federation.stop()


async def test_links_of_a_vhost_that_is_held_back_do_not_run_and_leave_upstream_messages(node):
    node.held_back.add("/")
    node.declare("x", ALL)
    assert await node.told() == []
    node.held_back.clear()
    node.federation.permissions_changed()
    assert await node.told() == ["start x<up"]
    node.held_back.add("/")
    node.federation.permissions_changed()
    assert await node.told() == ["stop x<up"]


async def test_nothing_runs_before_the_start():
    node = Node()
    node.put("up")
    node.declare("x", ALL)
    assert await node.told() == []
    node.federation.start()
    assert await node.told() == ["start x<up"]
    await node.federation.stop()
    assert await node.told() == ["stop x<up"]


async def test_an_exchange_has_a_link_to_each_upstream(node):
    node.put("down")
    node.declare("x", ALL)
    node.declare("plain")
    node.declare("other", {"max-length": 5})
    assert await node.told() == ["start x<down", "start x<up"]
    assert [status.upstream for status in node.federation.statuses] == ["up", "down"]


async def test_a_link_goes_with_its_exchange(node):
    node.declare("x", ALL)
    await node.told()
    node.delete("x")
    assert await node.told() == ["remove x<up"]


async def test_a_link_goes_with_its_policy(node):
    node.declare("x", ALL)
    await node.told()
    node.exchanges["/", "x"].policy = None
    node.federation.changed(EXCHANGE, "/", "x")
    assert await node.told() == ["remove x<up"]


async def test_another_exchange_of_the_name_has_another_link(node):
    node.declare("x", ALL)
    await node.told()
    node.delete("x")
    node.declare("x", ALL)
    assert await node.told() == ["remove x<up", "start x<up"]


async def test_links_come_and_go_with_upstreams(node):
    node.declare("x", ALL)
    await node.told()
    node.put("down")
    assert await node.told() == ["start x<down"]
    node.parameters.remove(FEDERATION_UPSTREAM, "/", "up")
    node.federation.parameter_changed(FEDERATION_UPSTREAM, "/", "up")
    assert await node.told() == ["remove x<up"]


async def test_only_links_of_a_changed_upstream_restart(node):
    node.put("down")
    node.declare("x", ALL)
    await node.told()
    node.put("up", **{"max-hops": 2})
    assert await node.told() == ["remove x<up", "start x<up"]
    node.put("up", **{"max-hops": 2})
    assert await node.told() == []


async def test_links_follow_a_set(node):
    node.parameters.put(FEDERATION_UPSTREAM_SET, "/", "mine", [])
    node.declare("x", {"federation-upstream-set": "mine"})
    assert await node.told() == []
    node.parameters.put(FEDERATION_UPSTREAM_SET, "/", "mine", [{"upstream": "up"}] * 2)
    node.federation.parameter_changed(FEDERATION_UPSTREAM_SET, "/", "mine")
    assert await node.told() == ["start x<up"]


async def test_a_set_may_have_an_upstream_with_several_exchanges(node):
    members = [{"upstream": "up", "exchange": one} for one in ("b", "a")]
    node.parameters.put(FEDERATION_UPSTREAM_SET, "/", "mine", members)
    node.declare("x", {"federation-upstream-set": "mine"})
    assert await node.told() == ["start x<up", "start x<up"]
    assert [status.upstream_name for status in node.federation.statuses] == ["b", "a"]


async def test_all_links_restart_when_the_cluster_is_renamed(node):
    node.declare("x", ALL)
    await node.told()
    node.cluster_name = "renamed"
    node.federation.parameter_changed(GLOBAL, NO_VHOST, CLUSTER_NAME)
    assert await node.told() == ["remove x<up", "start x<up"]


async def test_links_go_with_their_vhost(node):
    node.declare("x", ALL)
    await node.told()
    node.exchanges.clear()
    node.federation.vhost_deleted("/")
    assert await node.told() == ["remove x<up"]


async def test_a_link_that_moves_to_another_node_leaves_its_queue_there(node):
    node.declare("x", ALL)
    await node.told()
    node.is_chosen = False
    node.federation.nodes_changed(("a@host", "b@host"))
    assert await node.told() == ["stop x<up"]
    node.is_chosen = True
    node.federation.nodes_changed(("a@host",))
    assert await node.told() == ["start x<up"]
    node.federation.nodes_changed(("a@host", "c@host"))
    assert await node.told() == []


async def test_a_link_can_be_restarted_by_its_id(node):
    node.declare("x", ALL)
    await node.told()
    (status,) = node.federation.statuses
    link = node.federation.find("/", status.link_id)
    assert (link.name, link.upstream) == ("x", "up")
    node.federation.restart(link)
    assert await node.told() == ["start x<up", "stop x<up"]


async def test_only_a_link_of_the_vhost_and_of_this_node_is_found(node):
    node.declare("x", ALL)
    await node.told()
    (status,) = node.federation.statuses
    assert node.federation.find("/", "00000000") is None
    assert node.federation.find("another", status.link_id) is None
    node.is_chosen = False
    assert node.federation.find("/", status.link_id) is None


async def test_a_link_can_be_restarted_again_while_it_stops(node):
    node.declare("x", ALL)
    await node.told()
    (status,) = node.federation.statuses
    node.stopping = asyncio.Event()
    node.federation.restart(node.federation.find("/", status.link_id))
    assert await node.told() == ["stop x<up"]
    assert node.federation.statuses == []
    node.federation.restart(node.federation.find("/", status.link_id))
    node.stopping.set()
    assert await node.told() == ["start x<up"]


async def test_very_many_exchanges_are_planned(node):
    for number in range(500):
        node.declare(f"x{number}", ALL)
    assert len(await node.told()) == 500


def test_the_id_of_a_link_is_that_of_rabbitmq():
    # erlang:phash2({{resource,<<"/">>,exchange,<<"x">>},<<"up">>,<<"x">>}, 1 bsl 32)
    assert LinkPlace(EXCHANGE, "/", "x", "up", "x").link_id == "4e5519e7"
