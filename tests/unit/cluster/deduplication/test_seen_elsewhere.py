"""Nodes of a cluster tell each other what their exchanges have seen."""

import pytest

from leveret.broker.queues.deduplication.identifiers import KnownIdentifiers
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.broker.vhost.passing_messages import SeenKey
from leveret.broker.vhost.seen_identifiers import (
    ExchangePlace,
    SeenIdentifiers,
    SeenPlaces,
)
from leveret.cluster.deduplication.seen_elsewhere import (
    CATCH_UP_MS_MAX,
    IDENTIFIERS_FEATURE,
    KEYS_MAX,
    SeenOnOtherNodes,
)
from tests.linked_nodes import LinkEnd, LinkServices
from tests.turns_by_hand import TurnsByHand

PLACE = ExchangePlace("/", "x")
FUTURE_MS = 1 << 50


class Node:
    """A node with one exchange, unless it does not know it yet. ends: the peers, by name."""

    def __init__(self, name, *, has_exchange=True):
        self.name = name
        self.clock = VirtualClock()
        self.turns = TurnsByHand()
        self.places = SeenPlaces()
        self.service = SeenOnOtherNodes(LinkServices(), self.places, self.clock, self.turns)
        self.ends = {}
        if has_exchange:
            self.declare()

    def declare(self):
        known = KnownIdentifiers(10_000)
        self.places.add(PLACE, SeenIdentifiers(PLACE, known, self.clock, self.places))

    def sees(self, key):
        """A message passes here. Returns the answer that its publisher waits for."""
        seen = SeenKey(key, FUTURE_MS)
        self.places.find(PLACE).saw_elsewhere([seen])
        return self.places.tell(PLACE, seen)

    @property
    def keys(self):
        return [one.key for one in self.places.find(PLACE).listed()]


def link(one, other, features=frozenset((IDENTIFIERS_FEATURE,))):
    for node, peer in ((one, other), (other, one)):
        end = node.ends[peer.name] = LinkEnd(peer.name)
        end.features = features
        node.service.peer_up(end)


def cut(one, other):
    for node, peer in ((one, other), (other, one)):
        node.service.peer_down(node.ends.pop(peer.name), "cut")


def deliver(*nodes):
    """Have everything arrive."""
    by_name = {node.name: node for node in nodes}
    while any(end.sent for node in nodes for end in node.ends.values()):
        for node in nodes:
            for name, end in tuple(node.ends.items()):
                while end.sent:
                    by_name[name].service.received(
                        by_name[name].ends[node.name], end.sent.popleft()
                    )
            node.turns.run()


@pytest.fixture
def nodes():
    one, other = Node("a"), Node("b")
    link(one, other)
    deliver(one, other)
    return one, other


def test_a_publisher_waits_until_the_others_know_its_identifier(nodes):
    one, other = nodes
    answer = one.sees(b"k")
    assert not answer.is_given
    deliver(*nodes)
    assert answer.is_given, "SI2"
    assert other.keys == [b"k"]


def test_a_node_that_goes_down_is_not_waited_for(nodes):
    answer = nodes[0].sees(b"k")
    cut(*nodes)
    assert answer.is_given, "SI2"
    assert nodes[0].sees(b"l") is None


def test_nodes_that_are_linked_again_know_the_same(nodes):
    one, other = nodes
    cut(*nodes)
    for number in range(KEYS_MAX + 1):
        one.sees(b"%d" % number)
    other.sees(b"other")
    link(*nodes)
    deliver(*nodes)
    assert set(one.keys) == set(other.keys)
    assert len(one.keys) == KEYS_MAX + 2


def test_a_node_asks_when_it_learns_of_an_exchange():
    one, other = Node("a"), Node("b", has_exchange=False)
    link(one, other)
    answer = one.sees(b"k")
    deliver(one, other)
    assert answer.is_given
    other.declare()
    deliver(one, other)
    assert other.keys == [b"k"]


def test_a_node_that_starts_waits_for_what_the_others_have_seen():
    one, other = Node("a"), Node("b")
    one.sees(b"k")
    link(one, other)
    caught_up = other.service.caught_up()
    assert not caught_up.is_given
    deliver(one, other)
    assert caught_up.is_given
    assert other.service.caught_up().is_given, "without a question it waits for nothing"


def test_but_not_for_ever(nodes):
    one, other = Node("a"), Node("b")
    link(one, other)
    caught_up = other.service.caught_up()
    other.clock.advance(CATCH_UP_MS_MAX / 1000)
    assert caught_up.is_given


def test_nodes_of_earlier_releases_are_told_nothing():
    one, other = Node("a"), Node("b")
    link(one, other, frozenset())
    assert one.sees(b"k") is None
    assert not one.ends["b"].log
