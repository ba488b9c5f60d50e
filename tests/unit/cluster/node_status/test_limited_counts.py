"""What nodes tell each other of their connections and channels, where limits count them."""

from types import SimpleNamespace

import msgspec
import pytest

from leveret.broker.events.events import Events
from leveret.broker.policies.limits import VhostAndUserLimits
from leveret.broker.policies.open_counts import OpenCounts
from leveret.cluster.links.services import LIMITED_COUNTS_SERVICE
from leveret.cluster.node_status.limited_counts import ChangedCounts, LimitedCounts
from tests.linked_nodes import LoopByHand


class OneNode:
    """A node with the connections that a test gives it. sent: its frames for the other one."""

    def __init__(self):
        self.loop = LoopByHand()
        self.limits, self.open_counts, self.events = VhostAndUserLimits(), OpenCounts(), Events()
        self.open_counts.connections = []
        self.sent = []
        self.counts = LimitedCounts(
            SimpleNamespace(register=lambda number, service: None),
            SimpleNamespace(
                limits=self.limits, open_counts=self.open_counts, events=self.events,
                turns=SimpleNamespace(call_soon=self.loop.call_soon),
            ),
        )  # fmt: skip

    def opens(self, user="anna", vhost="/", channels=0):
        self.open_counts.connections.append(
            SimpleNamespace(
                is_open=True, user=SimpleNamespace(name=user), vhost=SimpleNamespace(name=vhost),
                channels=[None] * channels,
            )
        )  # fmt: skip
        self._happens("connection.created")

    def closes(self):
        self.open_counts.connections.pop()
        self._happens("connection.closed")

    def _happens(self, event):
        if self.events.are_wanted:
            self.events.notify(event, {})

    def links_to(self, other):
        self.counts.peer_up(Peer(self, other))


class Peer:
    """What one node knows the other by; frames arrive at once."""

    name = "other"

    def __init__(self, sender, receiver):
        self._sender, self._receiver = sender, receiver
        sender.peer = self

    def send(self, service, *pieces):
        assert service == LIMITED_COUNTS_SERVICE
        payload = b"".join(pieces)
        self._sender.sent.append(msgspec.msgpack.decode(payload, type=ChangedCounts))
        self._receiver.counts.received(self._receiver.peer, payload)


@pytest.fixture
def nodes():
    one, other = OneNode(), OneNode()
    other.peer = Peer(other, one)
    one.links_to(other)
    other.counts.peer_up(other.peer)
    return one, other


def limit(nodes, *, user=None, vhost=None, value=1):
    """Set a limit on all nodes."""
    for node in nodes:
        if user is not None:
            node.limits.put_user(user, {"max-connections": value})
        if vhost is not None:
            node.limits.put_vhost(vhost, {"max-connections": value})
        node.loop.run()


def test_without_limits_nothing_is_listened_to_or_sent(nodes):
    one, other = nodes
    limit(nodes, vhost="/", value=-1)
    one.opens()
    one.loop.run()
    assert not one.events.are_wanted
    assert one.sent == other.sent == []


def test_a_node_without_others_listens_to_nothing():
    node = OneNode()
    limit([node], vhost="/")
    node.opens()
    assert not node.events.are_wanted
    assert not node.loop.soon
    assert node.open_counts.connections_of_vhost("/") == 1


def test_the_changes_of_a_turn_are_told_with_one_frame(nodes):
    one, other = nodes
    limit(nodes, user="anna", vhost="/")
    for user in ("anna", "anna", "bert"):
        one.opens(user, channels=2)
    one.opens("anna", "elsewhere")
    one.loop.run()
    assert one.sent == [ChangedCounts({b"/": 3}, {b"anna": (3, 4)})]
    assert other.open_counts.connections_of_vhost("/") == 3
    assert other.open_counts.connections_of_vhost("elsewhere") == 0
    assert other.open_counts.connections_of_user("anna") == 3
    assert other.open_counts.channels_of_user("anna") == 4


def test_only_what_has_changed_is_told(nodes):
    one, other = nodes
    limit(nodes, user="anna", vhost="/")
    one.opens("anna", "elsewhere")
    one.loop.run()
    one.opens("bert")
    one.loop.run()
    assert one.sent[1:] == [ChangedCounts({b"/": 1})]
    one.closes()
    one.loop.run()
    assert one.sent[2:] == [ChangedCounts({b"/": 0})]
    assert other.open_counts.connections_of_vhost("/") == 0


def test_open_connections_are_told_when_a_limit_is_set_and_forgotten_when_it_goes(nodes):
    one, other = nodes
    one.opens()
    limit(nodes, user="anna")
    assert other.open_counts.connections_of_user("anna") == 1
    for node in nodes:
        node.limits.remove_user("anna")
        node.loop.run()
    assert other.open_counts.connections_of_user("anna") == 0
    assert not one.events.are_wanted


def test_a_node_that_is_linked_later_is_told_everything(nodes):
    one, other = nodes
    limit(nodes, vhost="/")
    one.opens()
    other.counts.peer_down(other.peer, "a test")
    one.counts.peer_down(one.peer, "a test")
    assert other.open_counts.connections_of_vhost("/") == 0
    assert not one.events.are_wanted
    other.counts.peer_up(other.peer)
    one.links_to(other)
    one.loop.run()
    assert other.open_counts.connections_of_vhost("/") == 1


def test_names_need_not_be_utf_8(nodes):
    one, other = nodes
    limit(nodes, vhost="\udcff")
    one.opens(vhost="\udcff")
    one.loop.run()
    assert other.open_counts.connections_of_vhost("\udcff") == 1


def test_invalid_counts_are_refused(nodes):
    one, _ = nodes
    with pytest.raises(ValueError, match="Expected"):
        one.counts.received(one.peer, b"\x01")
