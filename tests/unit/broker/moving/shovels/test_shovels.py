"""Which shovels run on a node: those that their parameters ask for, and that it is chosen for."""

import asyncio
from collections import Counter

import pytest

from leveret.broker.erlang.parser import parse_term
from leveret.broker.events.events import Events
from leveret.broker.moving.client.ended import ChannelClosed, Closed, ConnectionFailed
from leveret.broker.moving.shovels.shovels import COMPONENT, Shovels
from leveret.broker.moving.shovels.status import STARTING, TERMINATED
from leveret.broker.moving.transfers.placement_by_hash import chosen
from leveret.broker.policies.parameters import Parameters
from leveret.broker.policies.static_shovel import parse_static_shovels
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.virtual_clock import VirtualClock

NODES = ("a@host", "b@host", "c@host")
PLACES = [("/", f"shovel {number}") for number in range(300)]


def definition(**changes):
    return {"src-uri": "amqp://one", "src-queue": "q", "dest-uri": "amqp://two"} | changes


class Node:
    """The shovels of a node. asked: the URIs to which they connect; no server ever answers, unless
    `refusal` says why not, or there are `connections`. static: the terms of its static shovels.
    held_back: the vhosts whose shovels may not run.
    """

    def __init__(self, name="a@host", static="[]"):
        self.parameters = Parameters()
        self.asked = []
        self.refusal = ""
        self.connections = ()
        self.answer = Answer()
        self.events = Events()
        self.held_back = set()
        self.shovels = Shovels(
            name, self.parameters, self._connect, self._measure, VirtualClock(),
            lambda: "cluster", lambda declaration: self.answer, self.events,
            parse_static_shovels(parse_term(static)).definitions,
            lambda vhost: vhost not in self.held_back,
        )  # fmt: skip

    async def _connect(self, uri, name):
        self.asked.append(uri)
        if self.refusal:
            raise ConnectionFailed(self.refusal)
        if not self.connections:
            await asyncio.Event().wait()
        return self.connections[len(self.asked) - 1]

    async def _measure(self, vhost, queue):
        return None

    async def put(self, name, value):
        self.parameters.put(COMPONENT, "/", name, value)
        self.shovels.parameter_changed(COMPONENT, "/", name)
        await settle()

    async def delete(self, name):
        self.parameters.remove(COMPONENT, "/", name)
        self.shovels.parameter_changed(COMPONENT, "/", name)
        await settle()

    @property
    def running(self):
        return sorted(status.name for status in self.shovels.statuses)


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def node():
    node = Node()
    yield node
    await node.shovels.stop()


def test_the_choice_spreads_shovels_and_moves_only_those_of_a_node_that_goes():
    before = {place: chosen(place, NODES) for place in PLACES}
    counts = Counter(before.values())
    assert min(counts.values()) > len(PLACES) // 6
    after = {place: chosen(place, NODES[:2]) for place in PLACES}
    assert all(after[place] == node for place, node in before.items() if node != NODES[2])


def test_the_order_of_the_nodes_does_not_matter():
    assert all(chosen(place, NODES) == chosen(place, NODES[::-1]) for place in PLACES)


async def test_nothing_runs_before_the_start(node):
    await node.put("early", definition())
    assert node.running == []
    node.shovels.start()
    await settle()
    assert node.running == ["early"]


async def test_shovels_of_a_vhost_that_is_held_back_do_not_run(node):
    node.held_back.add("/")
    node.shovels.start()
    await node.put("s", definition())
    assert node.running == []
    node.held_back.clear()
    node.shovels.permissions_changed()
    await settle()
    assert (node.running, len(node.asked)) == (["s"], 1)
    # Those that may run, and do, are left alone.
    node.shovels.permissions_changed()
    await settle()
    assert (node.running, len(node.asked)) == (["s"], 1)
    node.held_back.add("/")
    node.shovels.permissions_changed()
    await settle()
    assert node.running == []


async def test_a_shovel_follows_its_parameter(node):
    node.shovels.start()
    await node.put("s", definition())
    assert (node.running, node.asked) == (["s"], ["amqp://one"])
    await node.put("s", definition(**{"src-uri": "amqp://three"}))
    assert (node.running, node.asked) == (["s"], ["amqp://one", "amqp://three"])
    await node.delete("s")
    assert node.running == []


async def test_one_that_is_set_twice_at_once_starts_once(node):
    node.shovels.start()
    node.parameters.put(COMPONENT, "/", "s", definition())
    node.shovels.parameter_changed(COMPONENT, "/", "s")
    node.shovels.parameter_changed(COMPONENT, "/", "s")
    await settle()
    assert node.asked == ["amqp://one"]


async def test_shovels_go_with_their_vhost(node):
    node.shovels.start()
    await node.put("s", definition())
    node.parameters.remove_vhost("/")
    node.shovels.vhost_deleted("/")
    await settle()
    assert node.running == []


async def test_a_node_runs_those_for_which_it_is_chosen(node):
    node.shovels.running = NODES
    for place in PLACES[:30]:
        node.parameters.put(COMPONENT, *place, definition())
    node.shovels.start()
    await settle()
    mine = sorted(name for vhost, name in PLACES[:30] if chosen((vhost, name), NODES) == NODES[0])
    assert 0 < len(mine) < 30
    assert node.running == mine
    asked = len(node.asked)
    node.shovels.nodes_changed(NODES[:1])
    await settle()
    assert len(node.running) == 30
    assert len(node.asked) == asked + 30 - len(mine), "those that ran are left alone"
    node.shovels.nodes_changed(NODES)
    await settle()
    assert node.running == mine


async def test_a_shovel_is_restarted_where_it_runs(node):
    node.shovels.start()
    await node.put("s", definition())
    assert node.shovels.restart("/", "s")
    await settle()
    assert node.asked == ["amqp://one"] * 2
    assert not node.shovels.restart("/", "another")


async def test_both_connections_end_though_it_is_stopped_while_they_close(node):
    class Connection:
        """One that closes for ever. has_ended: whether its closing was ended."""

        has_ended = False

        async def open_channel(self):
            raise ChannelClosed(Closed(504, "no more channels"))

        async def close(self):
            try:
                await asyncio.Event().wait()
            finally:
                self.has_ended = True

    node.connections = source, destination = Connection(), Connection()
    node.shovels.start()
    await node.put("s", definition())
    assert node.asked == ["amqp://one", "amqp://two"]
    await node.delete("s")
    assert source.has_ended
    assert destination.has_ended


async def test_why_one_does_not_run_is_told(node):
    node.refusal = "nobody is there"
    node.shovels.start()
    await node.put("s", definition(**{"src-uri": ["amqp://u:p@one", "amqp://u:p@two"]}))
    (status,) = node.shovels.statuses
    assert status.state == TERMINATED
    assert status.reason.startswith("failed to connect to source: ")
    assert "amqp://one: nobody is there" in status.reason
    assert "amqp://two: nobody is there" in status.reason


async def test_a_value_that_is_not_valid_is_told_in_the_log(node, caplog):
    node.shovels.start()
    await node.put("s", {"src-uri": "amqp://one"})
    assert node.running == []
    assert "shovel 's' in vhost '/' cannot run: " in caplog.text


async def test_a_parameter_that_cannot_be_deleted_is_told_in_the_log(node, caplog):
    node.shovels.start()
    await node.put("s", definition())
    node.shovels._moved_all(node.shovels._runs.by_place["/", "s"])
    node.answer.refuse(OSError("the disk is full"))
    told = "shovel 's' in vhost '/' has ended, and its parameter cannot be deleted"
    assert f"{told}: the disk is full" in caplog.text


async def test_one_that_connects_is_starting(node):
    node.shovels.start()
    await node.put("s", definition())
    assert [status.state for status in node.shovels.statuses] == [STARTING]


# Static shovels

STATIC = """[{mine, [{source, [{uris, ["amqp://one"]}, {queue, <<"q">>}]},
                     {destination, [{uris, ["amqp://two"]}]}]}]"""


class Cluster:
    """What the shovels of a node ask of its cluster. having: the others with a static shovel."""

    def __init__(self, *having):
        self.told = ()
        self.running_changed = None
        self.having = having

    def tell_static_shovels(self, names):
        self.told = names

    def others_with_static_shovel(self, name):
        return frozenset(self.having)


async def test_a_static_shovel_runs_from_the_start_and_no_parameter_ends_it():
    node = Node(static=STATIC)
    await node.put("mine", definition())
    node.shovels.start()
    await settle()
    assert node.running == ["mine", "mine"]
    assert sorted(status.vhost or "" for status in node.shovels.statuses) == ["", "/"]
    await node.delete("mine")
    (status,) = node.shovels.statuses
    assert (status.name, status.vhost, status.state) == ("mine", None, STARTING)
    assert not node.shovels.restart("/", "mine")
    await node.shovels.stop()


@pytest.mark.parametrize("having", [(), ("b@host",), ("b@host", "c@host")])
async def test_a_static_shovel_runs_on_one_of_the_nodes_that_have_it(having):
    runner = chosen(("", "mine"), ("a@host", *having))
    for name in NODES:
        node = Node(name, STATIC if name in ("a@host", *having) else "[]")
        cluster = Cluster(*({"a@host", *having} - {name}))
        node.shovels.take_part_in(cluster)
        cluster.running_changed(NODES)
        node.shovels.start()
        await settle()
        assert node.running == (["mine"] if name == runner else [])
        await node.shovels.stop()


async def test_a_static_shovel_moves_when_another_node_tells_that_it_has_it():
    (other,) = [name for name in NODES if name == chosen(("", "mine"), NODES)]
    node = Node(next(name for name in NODES if name != other), STATIC)
    cluster = Cluster()
    node.shovels.take_part_in(cluster)
    assert cluster.told == ("mine",)
    cluster.running_changed(NODES)
    node.shovels.start()
    await settle()
    assert node.running == ["mine"]
    cluster.having = (other,)
    cluster.running_changed(NODES)
    await settle()
    assert node.running == []
