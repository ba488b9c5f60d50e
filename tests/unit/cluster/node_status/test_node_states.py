"""What nodes tell each other of their alarms and of maintenance."""

import msgspec
import pytest

from leveret.broker.resources.alarms import DISK, MEMORY, Alarms
from leveret.broker.services.client_addresses import ClientAddress, ClientAddresses
from leveret.cluster.links.services import NODE_STATES_SERVICE
from leveret.cluster.node_status.node_states import NodeStates
from tests.linked_nodes import LinkServices


class OneNode:
    """A node, and the ends of its links. heard: the reasons of its alarms after each change."""

    def __init__(self, name):
        self.name = name
        self.alarms = Alarms()
        self.addresses = ClientAddresses()
        self.mqtt_addresses = ClientAddresses()
        self.amqp10_addresses = ClientAddresses()
        self.service = NodeStates(
            LinkServices(), self.alarms, self.addresses, self.mqtt_addresses, self.amqp10_addresses
        )
        self.heard = []
        self.alarms.listen(lambda: self.heard.append(self.alarms.reason))


class PeerOf:
    """A `Peer` whose frames arrive as soon as the other end is up."""

    def __init__(self, receiver, sender):
        self.name = receiver.name
        self.frames = 0
        self.waiting = []
        self.is_up = False
        self._receiver = receiver
        self._sender = sender

    def send(self, service, *pieces):
        assert service == NODE_STATES_SERVICE
        self.frames += 1
        self.waiting.append(b"".join(pieces))
        if self.is_up:
            self.deliver()

    def deliver(self):
        self.is_up = True
        while self.waiting:
            self._receiver.service.received(self.back, self.waiting.pop(0))


def link(one, other):
    """Link two nodes; the ends of the link, that of the first node first."""
    to_other, to_one = PeerOf(other, one), PeerOf(one, other)
    to_other.back, to_one.back = to_one, to_other
    one.service.peer_up(to_other)
    other.service.peer_up(to_one)
    for end in (to_other, to_one):
        end.deliver()
    return to_other, to_one


@pytest.fixture
def nodes():
    a, b, c = (OneNode(name) for name in "abc")
    link(a, b)
    link(b, c)
    link(a, c)
    return a, b, c


def test_an_alarm_of_one_node_is_in_force_on_all(nodes):
    a, b, c = nodes
    b.alarms.set(MEMORY)
    assert a.alarms.reason == c.alarms.reason == "low on memory"
    assert a.alarms.of_others == {"b": (MEMORY,)}
    assert not a.alarms.has(MEMORY)
    assert not a.alarms.own
    b.alarms.clear(MEMORY)
    assert a.alarms.reason == c.alarms.reason == ""


def test_an_alarm_lasts_until_no_node_has_one(nodes):
    a, b, c = nodes
    b.alarms.set(MEMORY)
    a.alarms.set(MEMORY)
    a.alarms.set(DISK)
    assert c.alarms.reason == "low on memory & low on disk"
    a.alarms.clear(MEMORY)
    a.alarms.clear(DISK)
    assert c.alarms.reason == "low on memory"
    b.alarms.clear(MEMORY)
    assert not c.alarms.are_in_force


def test_a_node_that_joins_later_learns_of_the_alarms_in_force(nodes):
    b = nodes[1]
    b.alarms.set(DISK)
    late = OneNode("d")
    link(late, b)
    assert late.alarms.reason == "low on disk"


def test_a_node_that_goes_down_takes_its_alarms_with_it():
    a, b = OneNode("a"), OneNode("b")
    to_b, _ = link(a, b)
    b.alarms.set(MEMORY)
    a.service.peer_down(to_b, "it was killed")
    assert not a.alarms.are_in_force
    assert a.heard == ["low on memory", ""]


def test_nothing_is_sent_without_alarms_and_one_frame_for_a_change():
    a, b = OneNode("a"), OneNode("b")
    to_b, to_a = link(a, b)
    assert to_b.frames == to_a.frames == 0
    b.alarms.set(MEMORY, "monitor")
    b.alarms.set(MEMORY, "store")
    assert (to_a.frames, to_b.frames) == (1, 0)


def test_a_later_release_may_add_alarms_and_fields():
    a, b = OneNode("a"), OneNode("b")
    to_b, _ = link(a, b)
    told = {"alarms": ["quota", "memory"], "mood": "good"}
    a.service.received(to_b, msgspec.msgpack.encode(told))
    assert a.alarms.reason == "low on memory"


def test_an_invalid_state_is_refused():
    a, b = OneNode("a"), OneNode("b")
    to_b, _ = link(a, b)
    with pytest.raises(ValueError, match="Expected"):
        a.service.received(to_b, b"\x01")


def test_nodes_under_maintenance_are_known_until_they_are_back_or_down():
    a, b, c = OneNode("a"), OneNode("b"), OneNode("c")
    link(a, b)
    b.service.set_under_maintenance(True)
    to_c, _ = link(a, c)
    c.service.set_under_maintenance(True)
    assert a.service.under_maintenance == {"b", "c"}
    assert not b.service.under_maintenance
    b.service.set_under_maintenance(False)
    assert a.service.under_maintenance == {"c"}
    a.service.peer_down(to_c, "it was stopped")
    assert not a.service.under_maintenance


def test_each_change_of_maintenance_is_told_on_all_nodes():
    a, b = OneNode("a"), OneNode("b")
    link(a, b)
    heard = []
    a.service.maintenance_changed = lambda: heard.append(
        (a.service.is_under_maintenance, a.service.under_maintenance)
    )
    b.alarms.set(MEMORY, "monitor")
    b.service.set_under_maintenance(True)
    a.service.set_under_maintenance(True)
    b.service.set_under_maintenance(False)
    assert heard == [(False, {"b"}), (True, {"b"}), (True, set())]


def test_nodes_tell_which_static_shovels_they_have():
    one, other = OneNode("a"), OneNode("b")
    one.service.set_static_shovels(("mine", "both"))
    other.service.set_static_shovels(("both",))
    changes = []
    other.service.static_shovels_changed = lambda: changes.append(
        other.service.with_static_shovel("mine")
    )
    _, to_one = link(one, other)
    assert changes == [{"a"}]
    assert one.service.with_static_shovel("mine") == set()
    assert one.service.with_static_shovel("both") == {"b"}
    one.alarms.set(MEMORY)
    one.service.set_under_maintenance(True)
    assert other.service.with_static_shovel("both") == {"a"}
    other.service.peer_down(to_one, "gone")
    assert other.service.with_static_shovel("both") == set()


def test_addresses_for_clients_of_streams(nodes):
    a, b, _ = nodes
    address = ClientAddress("a.example", 5552)
    a.addresses.set_own(address)
    to_b, _ = link(a, b)
    assert b.addresses.of_others == {"a": address}
    assert a.addresses.of_others == {}
    moved = ClientAddress("a.example", 5553)
    a.addresses.set_own(moved)
    assert b.addresses.of_others == {"a": moved}
    b.service.peer_down(to_b.back, "the link is down")
    assert b.addresses.of_others == {}


@pytest.mark.parametrize("protocol", ["mqtt", "amqp10"])
def test_clients_are_not_sent_to_a_node_under_maintenance(nodes, protocol):
    a, b, _ = nodes
    address = ClientAddress("a.example", 1883)
    own, known = getattr(a, f"{protocol}_addresses"), getattr(b, f"{protocol}_addresses")
    own.set_own(address)
    link(a, b)
    assert known.of_others == {"a": address}
    a.service.set_under_maintenance(True)
    assert known.of_others == {"a": ClientAddress()}
    a.service.set_under_maintenance(False)
    assert known.of_others == {"a": address}
