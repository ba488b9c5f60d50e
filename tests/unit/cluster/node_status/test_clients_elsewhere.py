"""One connection for each client identifier in all nodes."""

import pytest

from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.services.client_ids import ClientIds
from leveret.cluster.node_status.clients_elsewhere import (
    ANSWER_MS_MAX,
    CLIENTS_MAX,
    FEATURE,
    ClientsElsewhere,
)
from tests.linked_nodes import LinkEnd
from tests.turns_by_hand import TurnsByHand


class Registry:
    """The links of a node, for one service."""

    def register(self, _number, service):
        self.service = service


class Client:
    """A connected client. ended: whether the session of the client that replaced it is clean."""

    ended = None

    def taken_over(self, is_clean):
        self.ended = is_clean


class Node:
    """A node with clients. ends: the peers that stand for the other nodes, by their names."""

    def __init__(self, name):
        self.name = name
        self.clock = VirtualClock()
        self.turns = TurnsByHand()
        self.ids = ClientIds(self.clock, name)
        self.service = ClientsElsewhere(Registry(), self.ids, self.clock, self.turns)
        self.ends = {}

    def connect(self, *, client_id="c", is_clean=False):
        """A client connects. Returns it, and the answer that it waits for."""
        client = Client()
        return client, self.ids.take("/", client_id, client, is_clean)


def link(one, other):
    """A link between two nodes is up."""
    for node, peer in ((one, other), (other, one)):
        end = node.ends[peer.name] = LinkEnd(peer.name)
        end.features = frozenset((FEATURE,))
        node.service.peer_up(end)


def cut(one, other):
    """The link is down."""
    for node, peer in ((one, other), (other, one)):
        node.service.peer_down(node.ends.pop(peer.name), "cut")


def deliver(*nodes):
    """Have everything arrive."""
    by_name = {node.name: node for node in nodes}
    while any(end.sent for node in nodes for end in node.ends.values()):
        for node in nodes:
            for name, end in tuple(node.ends.items()):
                while end.sent:
                    peer = by_name[name]
                    peer.service.received(peer.ends[node.name], end.sent.popleft())


@pytest.fixture
def nodes():
    """Two nodes that are linked."""
    one, other = Node("a"), Node("b")
    link(one, other)
    return one, other


def test_a_client_takes_the_place_of_one_on_another_node(nodes):
    one, other = nodes
    old, _ = one.connect()
    deliver(*nodes)
    new, answer = other.connect(is_clean=True)
    assert not answer.is_given
    deliver(*nodes)
    assert old.ended is True
    assert new.ended is None
    assert answer.is_given
    assert (len(one.ids), len(other.ids)) == (0, 1)


def test_of_two_that_connect_at_once_both_nodes_keep_the_same(nodes):
    one, other = nodes
    (first, _), (second, _) = one.connect(), other.connect()
    deliver(*nodes)
    # The clocks say the same, so the names of the nodes decide.
    assert first.ended is False
    assert second.ended is None


def test_another_identifier_is_another_client(nodes):
    one, other = nodes
    old, _ = one.connect()
    other.connect(client_id="d")
    deliver(*nodes)
    assert old.ended is None


def test_the_newer_clients_stay_after_a_partition(nodes):
    one, other = nodes
    cut(one, other)
    names = [f"c{number}" for number in range(CLIENTS_MAX + 1)]
    old = [one.connect(client_id=name) for name in names]
    assert all(answer.is_given for _, answer in old)
    other.clock.advance(1)
    new = [other.connect(client_id=name) for name in names]
    link(one, other)
    deliver(*nodes)
    assert all(client.ended is False for client, _ in old)
    assert all(client.ended is None for client, _ in new)


def test_a_client_does_not_wait_for_a_node_that_goes_down(nodes):
    one, other = nodes
    _, answer = one.connect()
    cut(one, other)
    assert answer.is_given


def test_a_client_waits_for_a_silent_node_for_some_seconds(nodes, caplog):
    one, other = nodes
    _, answer = one.connect()
    one.clock.advance(ANSWER_MS_MAX / 1000)
    assert answer.is_given
    assert "nodes b did not answer within 5000 ms" in caplog.text
    deliver(one, other)
