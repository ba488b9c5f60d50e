"""When a node declares its shards, and what it does while it cannot."""

import pytest

from leveret.broker.declarations.values import Policy, PutExchange, PutPolicy
from leveret.broker.vhost.shard_declarations import ShardDeclarations
from leveret.storage.metadata.metadata import MetadataError
from tests.declaring import Declared
from tests.turns_by_hand import TurnsByHand

SHARDS = {"sharding: x - rabbit@a - 0", "sharding: x - rabbit@a - 1"}


class StepsByHand(TurnsByHand):
    """Work of the next turn of the loop is done by `step_all`."""

    def __init__(self):
        super().__init__()
        self.later = []

    def call_soon(self, work):
        self.later.append(work)

    def step_all(self):
        while self.later:
            self.later.pop(0)()


class Node:
    """A node with a sharded exchange. refuses: its log takes no declarations."""

    def __init__(self):
        self.turns, self.refuses = StepsByHand(), False
        self.declared = Declared(turns=self.turns)
        self.vhost = self.declared.vhost()
        self.shards = ShardDeclarations(
            self.declared.registry.vhosts, "rabbit@a", self.submit, self.declared.clock, self.turns
        )
        self.declared.registry.policing.exchange_changed = self.shards.exchange_changed
        policy = Policy("/", "shards", "^x$", "exchanges", {"shards-per-node": 2}, 0)
        self.declared.put(PutPolicy("policy", policy))
        self.declared.put(PutExchange("/", "x", "x-modulus-hash"))

    def submit(self, *declarations, answer):
        if self.refuses:
            answer.refuse(MetadataError("too few nodes run"))
            return answer
        return self.declared.log.submit(*declarations, answer=answer)

    @property
    def bound(self):
        bindings = self.vhost.exchanges["x"].bindings.values()
        return {binding.destination.name for binding in bindings}


@pytest.fixture
def node():
    return Node()


def test_nothing_is_declared_before_the_node_has_started(node):
    node.turns.step_all()
    assert not node.vhost.queues
    node.shards.start()
    node.turns.step_all()
    assert node.bound == SHARDS


def test_what_the_log_does_not_take_is_submitted_again(node):
    node.refuses = True
    node.shards.start()
    node.turns.step_all()
    assert not node.vhost.queues
    node.refuses = False
    node.declared.clock.advance(1)
    node.turns.step_all()
    assert node.bound == SHARDS


def test_a_node_that_stops_tries_nothing_again(node):
    node.refuses = True
    node.shards.start()
    node.turns.step_all()
    node.shards.stop()
    node.refuses = False
    node.declared.clock.advance(1)
    node.turns.step_all()
    assert not node.vhost.queues
