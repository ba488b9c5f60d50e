"""Records of queues' mirrors as declarations: asked for, completed, applied and written."""

import json

import pytest

from leveret.broker.declarations.values import (
    ChangePlacement,
    DeleteQueue,
    DeleteVhost,
    Policy,
    PutPlacement,
    PutPolicy,
    PutQueue,
    PutVhost,
)
from leveret.broker.queues.classic.classic_queue import ClassicQueue
from leveret.broker.queues.contract.placement import Placement
from leveret.broker.queues.contract.queue_factory import PlacementChange, QueueFactory
from leveret.broker.queues.contract.queue_kind import CLASSIC_QUEUE
from leveret.broker.registry import stored
from leveret.broker.registry.contents import contents
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.declaring import Declared


class Mirrors(QueueFactory):
    """Names the leader's node and the new copy in a change, which is the record at the end.

    told: what it was told.
    """

    def __init__(self):
        super().__init__(CLASSIC_QUEUE, ClassicQueue)
        self.told = []

    def complete(self, vhost, queue, change):
        if change == b"impossible":
            raise ValueError("it cannot be")
        if change == b"lost":
            return None
        node, new_copy, added, incarnation = json.loads(change)
        record = queue.placement.record + added.encode()
        placement = queue.placement._replace(node=node, record=record)
        return PlacementChange(placement, new_copy, incarnation)

    def added(self, vhost, queue, storage_id):
        if queue.placement.record:
            self.moved(vhost, queue, queue.placement, storage_id)

    def moved(self, vhost, queue, placement, storage_id):
        queue.placement = placement
        self.told.append((vhost, queue.name, placement.node, placement.record, storage_id))

    def policies_changed(self, vhost, queue):
        self.told.append((vhost, queue.name, queue.policy.name))


class OneNode(Declared):
    """A node of a cluster, with its store in a file. mirrors: what its queues' records are for."""

    def __init__(self, path):
        super().__init__(SqliteMetadata(path))
        self.mirrors = Mirrors()
        self.put(PutVhost("/"))

    def _make_vhost(self, name):
        vhost = super()._make_vhost(name)
        vhost.kinds.node, vhost.kinds.incarnation = "a@host", 5
        vhost.kinds.add(self.mirrors)
        return vhost

    def change(self, node, added="", new_copy="", name="q", incarnation=5):
        change = json.dumps([node, new_copy, added, incarnation]).encode()
        self.put(ChangePlacement("/", name, 7, change))

    @property
    def after_restart(self):
        """What a restart finds of queues."""
        found = stored.declarations(self.metadata.load())
        return [one for one in found if isinstance(one, PutQueue)]


@pytest.fixture
def node(tmp_path):
    node = OneNode(tmp_path / "metadata.sqlite")
    node.put(PutQueue("/", "q", durable=True, node="a@host", identity=7))
    yield node
    node.metadata.close()


def queue_of(node):
    return next(one for one in contents(node.registry) if isinstance(one, PutQueue))


def test_a_change_is_made_on_the_record_that_those_before_it_have_led_to(node):
    node.change("a@host", "x")
    node.change("b@host", "y")
    assert node.mirrors.told == [
        ("/", "q", "a@host", b"x", 0), ("/", "q", "b@host", b"xy", 0)
    ]  # fmt: skip
    assert node.registry.vhosts["/"].queues["q"].placement == Placement("b@host", 7, b"xy")


def test_a_node_that_joins_and_one_that_starts_again_have_the_record(node):
    node.change("b@host", "x")
    declared = PutQueue("/", "q", True, node="b@host", identity=7, record=b"x")
    assert queue_of(node) == declared
    assert node.after_restart == [PutQueue("/", "q", True, storage_id=1, node="b@host",
                                           identity=7, record=b"x")]  # fmt: skip


def test_a_queue_that_is_declared_with_a_record_is_told_of(node):
    node.put(PutQueue("/", "m", True, node="a@host", identity=8, record=b"x"))
    assert node.mirrors.told == [("/", "m", "a@host", b"x", 2)]
    assert [one.record for one in node.after_restart] == [b"", b"x"]


def test_a_new_copy_on_this_node_is_stored_under_a_number_of_its_own(node):
    node.change("b@host", "x", new_copy="b@host")
    node.change("b@host", "y", new_copy="a@host")
    node.change("b@host", "z")
    assert [storage_id for *_, storage_id in node.mirrors.told] == [0, 2, 0]
    assert [one.storage_id for one in node.after_restart] == [2]
    node.put(DeleteQueue("/", "q"))
    node.registry.apply(PutQueue("/", "q", True, storage_id=2, node="a@host", record=b"xyz"))
    assert node.mirrors.told[-1] == ("/", "q", "a@host", b"xyz", 2)


def test_a_new_copy_of_an_earlier_run_of_this_node_is_none_of_this_one(node):
    node.change("b@host", "x", new_copy="a@host", incarnation=4)
    assert node.mirrors.told == [("/", "q", "b@host", b"x", 0)]
    assert [one.storage_id for one in node.after_restart] == [1]


def test_copies_of_a_queue_that_is_not_durable_are_not_stored(node):
    node.put(PutQueue("/", "brief", node="a@host", identity=7))
    node.change("a@host", "x", new_copy="a@host", name="brief")
    assert node.mirrors.told == [("/", "brief", "a@host", b"x", 0)]
    assert len(node.after_restart) == 1


def test_a_change_that_leads_to_the_same_record_is_no_declaration(node):
    node.change("a@host")
    assert node.mirrors.told == []


def test_a_change_that_is_not_possible_is_refused_with_its_reason(node):
    with pytest.raises(ValueError, match="it cannot be"):
        node.put(ChangePlacement("/", "q", 7, b"impossible"))


def test_a_queue_whose_messages_no_node_has_is_deleted(node):
    node.put(ChangePlacement("/", "q", 7, b"lost"))
    assert node.registry.vhosts["/"].queues == {}


@pytest.mark.parametrize("change", [
    ChangePlacement("/", "q", 6, b'["b@host", "", "x"]'),
    ChangePlacement("/", "other", 7, b'["b@host", "", "x"]'),
    PutPlacement("/", "q", 6, "b@host", b"x"),
])  # fmt: skip
def test_a_change_of_another_life_of_the_queue_changes_nothing(node, change):
    node.put(change)
    assert node.mirrors.told == []
    assert queue_of(node).node == "a@host"


def test_mirroring_ends(node):
    node.change("b@host", "x")
    node.put(PutPlacement("/", "q", 7, "b@host", b""))
    assert node.mirrors.told[-1] == ("/", "q", "b@host", b"", 0)
    assert queue_of(node).record == b""
    assert [one.record for one in node.after_restart] == [b""]


@pytest.mark.parametrize("deletion", [DeleteQueue("/", "q"), DeleteVhost("/")])
def test_a_queue_that_is_declared_again_has_no_record(node, deletion):
    node.change("a@host", "x", new_copy="a@host")
    node.put(deletion)
    node.put(PutVhost("/"))
    node.put(PutQueue("/", "q", True, node="a@host", identity=8))
    assert queue_of(node).record == b""
    assert [(one.record, one.storage_id) for one in node.after_restart] == [(b"", 3)]


def test_a_change_of_policies_is_told_of_for_each_queue_that_it_is_for(node):
    node.put(PutQueue("/", "other", node="a@host", identity=8))
    node.put(PutPolicy("policy", Policy("/", "ha", "^q", "queues", {"ha-mode": "all"}, 0)))
    assert node.mirrors.told == [("/", "q", "ha")]
