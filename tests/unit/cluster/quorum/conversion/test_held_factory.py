"""What concerns the placement of a held queue is done to the queue that it stands for."""

import pytest

from leveret.broker.declarations.values import DeleteQueue
from leveret.broker.queues.contract.placement import Placement, QueueMembers
from leveret.broker.queues.contract.queue_factory import PlacementChange, QueueFactory
from leveret.broker.queues.served_kinds import served_kinds
from leveret.cluster.quorum.conversion.held_factory import HeldFactory
from leveret.cluster.quorum.conversion.held_queue import HELD, HeldQueue
from tests.unit.broker.queues.fakes import FakeVhost, declared

MOVED = Placement("b", 1)


class Factory(QueueFactory):
    """Knows the queues that it is asked about."""

    def __init__(self, kind):
        super().__init__(kind, lambda *_: None)
        self.moved_queues = []

    def moved(self, vhost, queue, placement, storage_id):
        super().moved(vhost, queue, placement, storage_id)
        self.moved_queues.append(queue)

    def complete(self, vhost, queue, change):
        return PlacementChange(MOVED, change.decode())

    def node_removed(self, vhost, queue, node, left):
        return DeleteQueue(vhost, queue.name)

    def members(self, queue):
        return QueueMembers(leader="a", nodes=("a",), online=("a",), synchronised=("a",))


@pytest.fixture
def queue():
    return declared(FakeVhost())


@pytest.fixture
def factory(queue):
    return Factory(queue.kind)


@pytest.fixture
def kinds(factory):
    kinds = served_kinds()
    kinds.add(factory)
    kinds.add_undeclared(HeldFactory(kinds))
    return kinds


def test_a_held_queue_moves_with_the_queue(queue, factory, kinds):
    held = HeldQueue("/", queue, lambda: None)
    assert held.kind.name == HELD
    kinds.of(held.kind).moved("/", held, MOVED, 0)
    assert factory.moved_queues == [queue]
    assert queue.placement == held.placement == MOVED


def test_its_factory_answers_for_the_queue(queue, kinds):
    held = HeldQueue("/", queue, lambda: None)
    own = kinds.of(held.kind)
    assert own.complete("/", held, b"c") == PlacementChange(MOVED, "c")
    assert own.node_removed("/", held, "a", frozenset()) == DeleteQueue("/", queue.name)
    assert own.node_renamed("/", held, "a", "b") is None
    assert own.members(held).leader == "a"


def test_no_declaration_names_the_kind(kinds):
    assert HELD not in [factory.kind.name for factory in kinds]
