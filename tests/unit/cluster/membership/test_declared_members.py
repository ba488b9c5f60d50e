"""Links follow the declared members: those that leave lose theirs, those that may join keep it."""

from types import SimpleNamespace

import pytest

from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.membership import declared_members
from leveret.cluster.membership.declared_members import FORGET_MS, DeclaredMembers


class Links:
    """The links of node a."""

    node = "a@host"

    def __init__(self):
        self.peers = set()

    def dial(self, name):
        self.peers.add(name)

    def forget(self, name, reason):
        self.peers.remove(name)


class Cluster:
    """The members as node a has them."""

    def __init__(self, monkeypatch, *names):
        self.clock = VirtualClock()
        self.links = Links()
        services = SimpleNamespace(
            clock=self.clock, parameters=self, message_numbers=SimpleNamespace(place=0)
        )
        monkeypatch.setattr(declared_members, "members_of", lambda parameters: parameters.members)
        self.node = DeclaredMembers(services, self.links)
        self.declare(*names)

    def declare(self, *names):
        self.members = dict.fromkeys(names, True)
        self.node.changed()


@pytest.fixture
def cluster(monkeypatch):
    return Cluster(monkeypatch, "a@host", "b@host")


def test_a_node_that_left_loses_its_link_after_it_had_time_for_the_answer(cluster):
    cluster.declare("a@host")
    assert cluster.links.peers == {"b@host"}
    cluster.clock.advance(FORGET_MS)
    assert cluster.links.peers == set()


def test_a_node_that_has_joined_again_keeps_its_link(cluster):
    cluster.declare("a@host")
    cluster.declare("a@host", "b@host")
    cluster.clock.advance(FORGET_MS)
    assert cluster.links.peers == {"b@host"}


def test_a_node_that_is_about_to_join_keeps_its_link_while_others_join_and_leave(cluster):
    cluster.links.peers.add("c@host")
    cluster.declare("a@host", "b@host", "d@host")
    cluster.declare("a@host", "b@host")
    cluster.clock.advance(FORGET_MS)
    assert cluster.links.peers == {"b@host", "c@host"}
